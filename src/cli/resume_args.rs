//! Raw arguments of `baton handoffs resume`, as clap reads them.

use std::ffi::OsString;

use clap::Args as ClapArgs;

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without --run the command is printed, and nothing is changed. The new session starts with the handoff's \
resume line: its model sees the carry-over prompt, then --prompt.

Examples:
  baton handoffs resume 0199a3c2-7d1e --with codex
  baton handoffs resume 0199a3c2-7d1e --with claude --run
  baton handoffs resume 0199a3c2-7d1e --with pi --headless --prompt \"Do the tests first.\" --run -- --mode json")]
pub(super) struct ResumeArgs {
    /// The handoff's id, or a unique prefix of it
    pub(super) id: String,
    /// The agent, as for `baton run`
    #[arg(long, value_name = "AGENT")]
    pub(super) with: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Text after the carry-over prompt
    #[arg(long, value_name = "TEXT")]
    pub(super) prompt: Option<String>,
    /// One answer, without the agent's screen
    #[arg(long)]
    pub(super) headless: bool,
    /// Start the agent, through baton
    #[arg(long)]
    pub(super) run: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "run")]
    pub(super) json: bool,
    /// More arguments for the agent
    #[arg(last = true, value_name = "ARGS")]
    pub(super) arguments: Vec<OsString>,
}
