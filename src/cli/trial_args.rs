//! Raw arguments of `baton try`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::state_args::{StateArgs, period_start};
use baton_core::text::date::PeriodStart;
use baton_core::transcript::AgentKind;
use baton_core::trial::DEFAULT_FOLLOW_SHARE;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads the sessions that your agents keep on this machine, and computes what they would have cost with handoffs: claude-code, \
codex, gemini-cli, qwen-code, pi, opencode, goose, cline. Sends nothing, and writes nothing except the file of --plot. \
docs/try.md explains what is counted, what is assumed, and what is hindsight.

Examples:
  baton try
  baton try --since 30d --agent codex
  baton try --session 3f2a          # where it would have been cut, what would have been carried, what a reader would miss
  baton try --from ~/old-sessions --plot saved.svg
  baton try --json | jq .report.verdict")]
pub(super) struct TryArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Read a session file, or a directory of them, in place of the agents' own
    #[arg(long, value_name = "PATH")]
    pub(super) from: Option<PathBuf>,
    /// Read only sessions since this age (12h, 30d) or date (2026-11-23)
    #[arg(long, value_name = "TIME", value_parser = period_start)]
    pub(super) since: Option<PeriodStart>,
    /// Read only this agent's sessions
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub(super) agent: Option<&'static str>,
    /// Show this session in detail, by its id or a unique prefix of it (a subagent by ID/NAME)
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<String>,
    /// Assume a subscription: report tokens, not dollars (detected only for Codex, which records it)
    #[arg(long)]
    pub(super) subscription: bool,
    /// Assume that the model hands off at this share of task ends and notices (0 to 1)
    #[arg(long, value_name = "SHARE", default_value_t = DEFAULT_FOLLOW_SHARE, value_parser = share)]
    pub(super) follow_share: f64,
    /// Use this price table (TOML) [bill.prices]
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
    /// Write the plot as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV: a line for each session
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// Parses an agent's name, or the name of its program, as `baton run` accepts it.
fn agent(given: &str) -> Result<&'static str, String> {
    let mut names = AgentKind::ALL.map(AgentKind::name).into_iter();
    let is_named = |name: &&str| *name == given || name.split('-').next() == Some(given);
    names.find(is_named).ok_or_else(|| {
        let names = AgentKind::ALL.map(AgentKind::name);
        format!("it is not one of {}", names.join(", "))
    })
}

fn share(given: &str) -> Result<f64, String> {
    let share = given.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a number from 0 to 1".to_owned())
}
