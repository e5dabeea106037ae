//! Raw arguments of `baton savings`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::state_args::{StateArgs, duration, named};
use crate::state::journal::BillGroup;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The cost is the provider's own usage of every request, baton's own ones included, at the providers' list \
prices, which are built in; the first line of the output has their date. Without baton the agent's whole history would \
have been sent, cached by the provider's rules and compacted at the agent's own point. \
The difference is net, and negative where handoffs cost more than they saved.

Examples:
  baton savings
  baton savings --since 7d --by model
  baton savings --by conversation --json | jq '.groups[0]'
  baton savings --by day --csv > savings.csv")]
pub(super) struct SavingsArgs {
    #[command(flatten)]
    pub(super) state: StateArgs,
    /// Only exchanges of this last period: 90m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) since: Option<Duration>,
    /// Only this conversation's exchanges: its key (`--by conversation` lists them), or a unique prefix of it
    #[arg(long, value_name = "KEY")]
    pub(super) conversation: Option<String>,
    /// Group by
    #[arg(long, value_name = "GROUP", default_value = "day", value_parser = named(BillGroup::ALL, BillGroup::name))]
    pub(super) by: BillGroup,
    /// Another price table (TOML), with [[provider]] and [[provider.model]] entries [bill.prices]
    #[arg(long, value_name = "FILE")]
    pub(super) prices: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV: a line for each group
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}
