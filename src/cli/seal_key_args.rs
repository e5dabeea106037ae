//! Raw arguments of `baton seal-key`.

use clap::Args as ClapArgs;

use super::state_args::StateArgs;

/// The argument of `--retire` for every key but the one that makes seals.
pub(super) const ALL: &str = "all";

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without an option the keys are listed. Each is named by an id that reveals nothing of it; a key's age is \
that of its file. The first key is made when baton first needs one: by `baton serve`, `baton run AGENT` or \
--rotate.

Running proxies that use this folder (the state folder, or handoff.seal_key_dir) follow at once. Keys that \
are given in the config (handoff.seal_key) are changed there.

A handoff that is in the store stays valid without its seal. A retired key only invalidates the proof in \
transcripts whose handoff is in no store any more.

Examples:
  baton seal-key
  baton seal-key --json | jq -r '.keys[].id'
  baton seal-key --rotate
  baton seal-key --retire 3f9c0a12
  baton seal-key --retire all")]
pub(super) struct SealKeyArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Make a new key for new seals; seals of the older ones stay valid
    #[arg(long, conflicts_with = "retire")]
    pub(super) rotate: bool,
    /// Make the seals of this older key invalid: its id, a unique prefix of it, or `all`
    #[arg(long, value_name = "ID")]
    pub(super) retire: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with_all = ["rotate", "retire"])]
    pub(super) json: bool,
}
