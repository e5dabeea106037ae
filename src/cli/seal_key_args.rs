//! Raw arguments of `baton seal-key`.

use clap::{Args as ClapArgs, Subcommand};

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
pub(super) struct SealKeyArgs {
    #[command(subcommand)]
    pub(super) command: SealKeyCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SealKeyCommand {
    /// Say which keys there are; the keys themselves are never printed
    Show(ShowKeysArgs),
    /// Make a new key for new seals; seals of the older ones stay valid
    Rotate(RotateArgs),
    /// Let seals of an older key prove nothing any more
    Retire(RetireArgs),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each key is named by an id that reveals nothing of it. A key's age is that of its file, or of the file that it was made in.

Examples:
  baton seal-key show
  baton seal-key show --json | jq -r '.keys[].id'")]
pub(super) struct ShowKeysArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Running proxies that use this folder (the state folder, or handoff.seal_key_dir) follow at once. Keys that are given in the
config (handoff.seal_key) are rotated there: put a new one in front of the list.

Examples:
  baton seal-key rotate")]
pub(super) struct RotateArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A handoff that is in the store stays valid without its seal. What is lost is the proof in transcripts whose handoff no
store knows any more.

Examples:
  baton seal-key retire 3f9c0a12
  baton seal-key retire --all")]
pub(super) struct RetireArgs {
    /// The key's id, as `baton seal-key show` prints it, or a unique prefix of it
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(super) id: Option<String>,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// All keys but the one that makes seals
    #[arg(long)]
    pub(super) all: bool,
}
