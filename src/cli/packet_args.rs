//! Raw arguments of `baton packets`.

use clap::{Args as ClapArgs, Subcommand};

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
pub(super) struct PacketsArgs {
    #[command(subcommand)]
    pub(super) command: PacketsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum PacketsCommand {
    /// List packets, newest first
    List(PacketListArgs),
    /// Print one packet
    Show(PacketShowArgs),
    /// Print the newest active packet
    Latest(PacketLatestArgs),
    /// Say where a packet's Markdown differs from its JSON; exits with 65 if it does
    Validate(PacketValidateArgs),
    /// Put a packet away: `latest` no longer finds it, and its handoff can still be resumed
    Archive(PacketArchiveArgs),
    /// Print a line of JSON for each packet that is new or has another status, from now on
    Watch(PacketWatchArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets list
  baton packets list --all --json | jq -r '.[] | [.id, .status, .next_action] | @tsv'")]
pub(super) struct PacketListArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// At most so many; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
    /// Superseded and archived ones too
    #[arg(long)]
    pub(super) all: bool,
    /// Only those about this
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets show 0199a3c2-7d1e
  baton packets show 0199a3c2-7d1e --json | jq .verification")]
pub(super) struct PacketShowArgs {
    /// The handoff's id, or a beginning of it that only it has
    pub(super) id: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    #[command(flatten)]
    pub(super) form: PacketForm,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets latest
  baton packets latest --topic importer --json | jq -r .next_action")]
pub(super) struct PacketLatestArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Only those about this
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    #[command(flatten)]
    pub(super) form: PacketForm,
}

/// How a packet is printed: as Markdown, unless one of these is given.
#[derive(Debug, Clone, Copy, ClapArgs)]
#[group(multiple = false)]
pub(super) struct PacketForm {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print the folder with its files
    #[arg(long)]
    pub(super) path: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets validate
  baton packets validate 0199a3c2-7d1e --json
  baton packets validate ./handoff.json")]
pub(super) struct PacketValidateArgs {
    /// A handoff's id, a folder with a packet, or its JSON; without one all packets
    pub(super) what: Option<String>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets archive 0199a3c2-7d1e
  baton packets archive 0199a3c2-7d1e --undo")]
pub(super) struct PacketArchiveArgs {
    /// The handoff's id, or a beginning of it that only it has
    pub(super) id: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Make it active again; what is active in its place is superseded
    #[arg(long)]
    pub(super) undo: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets watch | jq -r 'select(.status == \"active\") | .folder'")]
pub(super) struct PacketWatchArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECS", default_value_t = 1.0)]
    pub(super) every: f64,
}
