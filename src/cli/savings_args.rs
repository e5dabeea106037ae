//! Raw arguments of `baton savings`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::state_args::StateArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The cost is the provider's own usage of every request, baton's own ones included, at the prices of config/prices.toml.
Without baton the agent's whole history would have been sent, cached by the provider's rules and compacted at the
agent's own point. The difference is net, and negative where handoffs cost more than they saved.

Examples:
  baton savings
  baton savings --since 7d --by model
  baton savings --by conversation --json | jq '.groups[0]'
  baton savings --by day --csv > savings.csv")]
pub(super) struct SavingsArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Only exchanges of this time: 90m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = super::savings::parse_time)]
    pub(super) since: Option<std::time::Duration>,
    /// Only this conversation's; a beginning of its key is enough
    #[arg(long, value_name = "KEY")]
    pub(super) conversation: Option<String>,
    /// What is summed up
    #[arg(long, value_name = "GROUP", default_value = "day")]
    pub(super) by: GroupArg,
    /// Another price table (TOML), in the form of config/prices.toml [bill.prices]
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV: a line for each group
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// What exchanges are summed up by.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum GroupArg {
    Day,
    Model,
    Conversation,
    Handoff,
    Client,
}
