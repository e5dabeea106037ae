//! Raw arguments of `baton savings`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::state_args::StateArgs;

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
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<Duration>,
    /// Only this conversation's exchanges: its key (`--by conversation` lists them), or a unique prefix of it
    #[arg(long, value_name = "KEY")]
    pub(super) conversation: Option<String>,
    /// Group by
    #[arg(long, value_name = "GROUP", default_value = "day")]
    pub(super) by: GroupArg,
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

/// The key by which exchanges are grouped.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum GroupArg {
    Day,
    Model,
    Conversation,
    Handoff,
    Client,
}

/// `90m`, `12h`, `7d`, `30s`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write a number and s, m, h or d, such as 7d");
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number
        .checked_mul(unit)
        .map(Duration::from_secs)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse_time("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse_time("90m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "7", "d", "-1h", "1w", "99999999999999999999d", "é"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
