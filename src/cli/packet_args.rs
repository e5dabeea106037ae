//! Raw arguments of `baton packets`.

use clap::{Args as ClapArgs, Subcommand};

use super::handoff_file_args::{
    CheckArgs, CleanArgs, CreateArgs, FileArgs, FolderArgs, Format, LedgerArgs, LineArgs, RecoverArgs,
    TransferArgs,
};
use super::state_args::{ListFormat, StateArgs};

#[derive(Debug, ClapArgs)]
pub(super) struct PacketsArgs {
    #[command(subcommand)]
    pub(super) command: PacketsCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum PacketsCommand {
    /// Write a handoff file: from what you say, an agent's output, its session file or a proxied conversation
    Create(Box<CreateArgs>),
    /// Print what the next session should know of the newest handoff file, in few words
    Recover(RecoverArgs),
    /// Print goal and next step of the newest handoff file in one line, for a prompt
    Line(LineArgs),
    /// Compare a handoff file with the repository; exits with 1 if they have drifted apart
    Check(CheckArgs),
    /// List packets, or the handoff files of a session, newest first
    List(PacketListArgs),
    /// Print one packet or one handoff file
    Show(PacketShowArgs),
    /// Print the newest active packet, or the newest handoff file of a session
    Latest(PacketLatestArgs),
    /// Say where a packet's Markdown differs from its JSON, and what is wrong with handoff files; exits with 65
    Validate(PacketValidateArgs),
    /// Put a packet away (`latest` no longer finds it, and its handoff can still be resumed), or a handoff file
    Archive(PacketArchiveArgs),
    /// Delete a handoff file
    Delete(FileArgs),
    /// Delete handoff files that are older than some time, archived ones too
    Clean(CleanArgs),
    /// Print the ledger of a session: one entry for each handoff file that was written
    Ledger(LedgerArgs),
    /// Give the file reservations of a handoff file to another agent, over Agent Mail
    Transfer(TransferArgs),
    /// Print a line of JSON for each packet that is new or has another status, from now on
    Watch(PacketWatchArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets list
  baton packets list --all --json | jq -r '.[] | [.id, .status, .next_action] | @tsv'
  baton packets list api --json | jq -r '.handoffs[].path'
  baton packets list --files")]
pub(super) struct PacketListArgs {
    /// List the handoff files of this session
    #[arg(conflicts_with_all = ["all", "topic"])]
    pub(super) session: Option<String>,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// List the handoff files of all sessions
    #[arg(long, conflicts_with_all = ["all", "topic"])]
    pub(super) files: bool,
    /// List the sessions that have handoff files
    #[arg(long, conflicts_with_all = ["session", "files", "all", "topic"])]
    pub(super) sessions: bool,
    /// At most so many; 0 is no limit; by default 20, of handoff files 10
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Superseded and archived ones too
    #[arg(long)]
    pub(super) all: bool,
    /// Only those about this
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    #[command(flatten)]
    pub(super) format: ListFormat,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets show 0199a3c2-7d1e
  baton packets show 0199a3c2-7d1e --json | jq .verification
  baton packets show api/2026-11-22_18-05_login-works.yaml --format markdown")]
pub(super) struct PacketShowArgs {
    /// The handoff's id, or a unique prefix of it, or the packet's folder; or a handoff file: its path, or
    /// SESSION/NAME.yaml
    pub(super) id: String,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    #[command(flatten)]
    pub(super) form: PacketForm,
    /// How a handoff file is printed; by default as it is
    #[arg(long, value_enum, conflicts_with_all = ["json", "path"])]
    pub(super) format: Option<Format>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets latest
  baton packets latest --topic importer --json | jq -r .next_action
  baton packets latest api --format json | jq -r .now
  baton packets latest --files --path")]
pub(super) struct PacketLatestArgs {
    /// Print the newest handoff file of this session
    #[arg(conflicts_with = "topic")]
    pub(super) session: Option<String>,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// Print the newest handoff file of all sessions
    #[arg(long, conflicts_with_all = ["session", "topic"])]
    pub(super) files: bool,
    /// Only those about this
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    #[command(flatten)]
    pub(super) form: PacketForm,
    /// How a handoff file is printed; by default as it is
    #[arg(long, value_enum, conflicts_with_all = ["json", "path"])]
    pub(super) format: Option<Format>,
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
  baton packets validate ./handoff.json
  baton packets validate .ntm/handoffs/api/*.yaml --json | jq '.[].errors'")]
pub(super) struct PacketValidateArgs {
    /// Packets (a handoff's id, a folder, a JSON) and handoff files (a path, a session), mixed; without one everything
    pub(super) what: Vec<String>,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  baton packets archive 0199a3c2-7d1e
  baton packets archive 0199a3c2-7d1e --undo
  baton packets archive api/2026-11-22_18-05_login-works.yaml")]
pub(super) struct PacketArchiveArgs {
    /// The handoff's id, or a unique prefix of it, or the packet's folder; or a handoff file: its path, or
    /// SESSION/NAME.yaml
    pub(super) id: String,
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// Make it active again; what is active in its place is superseded. A handoff file goes back into its session
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
