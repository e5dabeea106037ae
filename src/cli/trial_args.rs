//! Raw arguments of `baton try`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::state_args::{StateArgs, period_start};
use baton_core::text::date::PeriodStart;
use baton_core::transcript::AgentKind;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads the sessions that your agents keep on this machine, and computes what they would have cost with handoffs: claude-code, \
codex, gemini-cli, qwen-code, pi, opencode, goose, cline. Nothing is sent, and nothing is written but what --plot and --keep \
ask for. docs/try.md says what is counted, and what is assumed.

Examples:
  baton try
  baton try --since 30d --agent codex
  baton try --session 3f2a          # turn by turn: where it would have been cut, and what would have been carried
  baton try --from ~/old-sessions --plot saved.svg
  baton try --json | jq .report.verdict")]
pub(super) struct TryArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// A session file, or a directory of them, in place of the agents' own
    #[arg(long, value_name = "PATH")]
    pub(super) from: Option<PathBuf>,
    /// Only sessions since then: an age (12h, 30d) or a date (2026-11-23)
    #[arg(long, value_name = "TIME", value_parser = period_start)]
    pub(super) since: Option<PeriodStart>,
    /// Only this agent's sessions
    #[arg(long, value_name = "AGENT", value_parser = clap::builder::PossibleValuesParser::new(AgentKind::ALL.map(AgentKind::name)))]
    pub(super) agent: Option<String>,
    /// One session in detail: its id, or a unique prefix of it
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<String>,
    /// You pay for a plan, not for tokens: no dollars (Codex records its plan, the others do not)
    #[arg(long)]
    pub(super) plan: bool,
    /// Another price table (TOML) [bill.prices]
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
    /// Write the plot as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Keep the verdict in the state directory: `baton savings` says it beside what came
    #[arg(long, conflicts_with = "session")]
    pub(super) keep: bool,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV: a line for each session
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}
