//! Raw arguments of `baton export`.

use clap::Args as ClapArgs;

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The work comes from the newest request in the journal, redacted as the journal has it; without a journal there is the \
prompt alone. Begin a new session of any agent with the document.

`baton log` (column KEY) and `baton savings --by conversation` list the keys of conversations, `baton handoffs list` the \
ids of handoffs.

Examples:
  baton export 3f9c > session.md
  baton export 0199a3c2-7d1e --format json | jq -r .handoff.prompt
  baton export 3f9c --format jsonl | tail -n +2 | jq -c .parts
  baton export 3f9c --whole > conversation.md
  baton export 3f9c --format har > conversation.har")]
pub(super) struct ExportArgs {
    /// The conversation's key or the id of a handoff, or a unique prefix of either
    pub(super) conversation: String,
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = ExportFormat::Md)]
    pub(super) format: ExportFormat,
    /// The agent's whole history, instead of the active carry-over prompt and the work since
    #[arg(long)]
    pub(super) whole: bool,
}

/// How a conversation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExportFormat {
    /// Markdown
    Md,
    /// JSON
    Json,
    /// JSON Lines: all but the work, then a line for each turn
    Jsonl,
    /// HAR 1.2: every exchange of the conversation, with its upstream requests
    Har,
}
