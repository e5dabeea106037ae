//! `baton savings`: what the exchanges in the journal cost, and what they would have cost without baton.

use clap::Args as ClapArgs;

use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::exit::CliResult;
use super::journal::{FIRST_RUN, full_key};
use super::load_state;
use super::output::{Out, first_line, plural, short};
use super::state_args::{StateArgs, duration, named};
use crate::state::clock::ago_ms;
use crate::state::journal::{
    BillEntry, BillFilter, BillGroup, BillSum, JournalReader, KeptVerdict, SavingsReport,
};
use baton_core::bill::{Arm, PriceTable, TokenCounts};
use baton_core::text::date::rfc3339;

/// Width of the longest bar.
const BAR: f64 = 24.0;

/// Moments of a shadow that are named.
const MOMENTS: usize = 5;

/// Columns of a group's name.
const NAME: usize = 28;

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
    state: StateArgs,
    /// Only exchanges of this last period: 90m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
    /// Only this conversation's exchanges: its key (`--by conversation` lists them), or a unique prefix of it
    #[arg(long, value_name = "KEY")]
    conversation: Option<String>,
    /// Group by
    #[arg(long, value_name = "GROUP", default_value = "day", value_parser = named(BillGroup::ALL, BillGroup::name))]
    by: BillGroup,
    /// Another price table (TOML), with [[provider]] and [[provider.model]] entries [bill.prices]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print CSV: a line for each group
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

pub(super) fn run(args: &SavingsArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state)?;
    let file = args.prices.as_deref().or(config.bill.prices.as_deref());
    let prices = super::prices(file)?;
    let entries = entries(args, &config.state_dir, &prices)?;
    let report = SavingsReport {
        promised: KeptVerdict::kept(&config.state_dir),
        ..SavingsReport::of(&entries, args.by, &prices)
    };
    if args.json {
        out.json(&report)?;
    } else if args.csv {
        out.document(&csv(&report.groups))?;
    } else if entries.is_empty() {
        let matching = match args.since.is_some() || args.conversation.is_some() {
            true => " that match",
            false => "",
        };
        let help = match config.journal.enabled {
            true => FIRST_RUN,
            false => "set journal.enabled to true in the config: without the journal nothing is counted",
        };
        let dir = config.state_dir.display();
        Out::stderr().lines([
            format!("no answered exchanges{matching} in {dir}"),
            format!("  help: {help}"),
        ])?;
    } else {
        out.lines(lines(&report, args.by))?;
    }
    Ok(())
}

fn entries(args: &SavingsArgs, dir: &std::path::Path, prices: &PriceTable) -> CliResult<Vec<BillEntry>> {
    let Some(query) = JournalReader::open(dir)? else {
        return Ok(Vec::new());
    };
    let conversation = args.conversation.as_deref();
    let filter = BillFilter {
        conversation: conversation.map(|key| full_key(&query, key)).transpose()?,
        since_ms: args.since.map_or(0, ago_ms),
    };
    Ok(query.bill(&filter, prices)?)
}

fn csv(groups: &[BillSum]) -> String {
    let mut text = "key,exchanges,input,cache_read,cache_write,cache_write_long,output,cost,without_cost,saved,saved_error,\
                    unpriced,subscription,compacted\n"
        .to_owned();
    for sum in groups {
        let TokenCounts {
            input,
            cache_read,
            cache_write,
            cache_write_long,
            output,
        } = sum.tokens;
        let key = format!("\"{}\"", sum.key.replace('"', "\"\""));
        text.push_str(&format!(
            "{key},{},{input},{cache_read},{cache_write},{cache_write_long},{output},{:.6},{:.6},{:.6},{:.6},{},{},{}\n",
            sum.exchanges,
            sum.cost,
            sum.without_cost,
            sum.saved,
            sum.saved_error,
            sum.unpriced,
            sum.subscription,
            sum.compacted
        ));
    }
    text
}

fn lines(report: &SavingsReport, by: BillGroup) -> Vec<String> {
    let total = &report.total;
    let mut lines = vec![
        format!(
            "{}, at the prices of {} ({})",
            plural(total.exchanges, "exchange"),
            report.prices.date,
            first_line(&report.prices.source, None)
        ),
        String::new(),
        row("with baton", dollars(total.cost), tokens(&total.tokens)),
        row(
            "without baton",
            dollars(total.without_cost),
            tokens(&total.without_tokens),
        ),
        row("saved", signed_dollars(total.saved), certainty(total)),
    ];
    lines.extend(notes(report));
    lines.extend(tried(report));
    lines.push(String::new());
    lines.push(format!(
        "  {:<NAME$} {:>9} {:>10} {:>10} {:>10}",
        by.name(),
        "exchanges",
        "cost",
        "without",
        "saved"
    ));
    let most = report
        .groups
        .iter()
        .map(|sum| sum.saved.abs())
        .fold(0.0, f64::max);
    lines.extend(report.groups.iter().map(|sum| group_line(sum, most)));
    lines
}

fn group_line(sum: &BillSum, most: f64) -> String {
    let name = first_line(&sum.key, Some(NAME));
    format!(
        "  {name:<NAME$} {:>9} {:>10} {:>10} {:>10}  {}",
        sum.exchanges,
        dollars(sum.cost),
        dollars(sum.without_cost),
        signed_dollars(sum.saved),
        bar(sum.saved, most, BAR)
    )
    .trim_end()
    .to_owned()
}

/// A bar of an amount, as long as `width` for the largest one: red and light where it is a loss.
pub(super) fn bar(amount: f64, most: f64, width: f64) -> String {
    let cells = if most > 0.0 {
        (amount.abs() / most * width).round() as usize
    } else {
        0
    };
    let (colour, cell) = if amount < 0.0 {
        (AnsiColor::Red, "▒")
    } else {
        (AnsiColor::Green, "█")
    };
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{}{style:#}", cell.repeat(cells))
}

fn row(name: &str, amount: String, more: String) -> String {
    format!("  {name:<14} {amount:>10}   {more}")
}

/// What `baton try` had said, and what its rules and a shadow would have saved in these conversations.
fn tried(report: &SavingsReport) -> Vec<String> {
    let line = |name: &str, saved: f64, error: f64, about: &str| {
        row(
            name,
            signed_dollars(saved),
            format!("± {}, {about}", dollars(error)),
        )
    };
    let mut lines = Vec::new();
    if let Some(had) = report.promised.as_ref().filter(|had| had.paid > 0.0) {
        let (sum, day) = (&had.sum, rfc3339(had.at_ms / 1000));
        let (share, paid) = (sum.saved / had.paid * 100.0, dollars(had.paid));
        let arm = first_line(&sum.arm, None);
        let about = format!("{share:.0} % of {paid}, by `{arm}` on {}", &day[..10]);
        lines.push(line("try had said", sum.saved, sum.error, &about));
    }
    for sum in &report.tried {
        let cuts = plural(sum.cuts as u64, "cut");
        let (name, about) = match sum.arm == Arm::Model.name() {
            true => ("in its shadow", format!("with {cuts} at its moments")),
            false => (&*sum.arm, format!("with {cuts} by this rule")),
        };
        lines.push(line(name, sum.saved, sum.error, &about));
    }
    let moments = report.moments.iter().rev().take(MOMENTS);
    let moments = moments.filter_map(|entry| Some((entry, entry.shadow.as_ref()?)));
    lines.extend(moments.map(|(entry, moment)| {
        let (at, id) = (rfc3339(entry.at_ms / 1000), first_line(&entry.id, None));
        let saved = moment.saved.map_or(String::new(), signed_dollars);
        let what = first_line(&moment.what, None).replace('_', " ");
        format!("    {at} {what:<17} {saved:>9}  baton show {id}")
    }));
    lines
}

/// Notes on how to read the sums.
fn notes(report: &SavingsReport) -> Vec<String> {
    let total = &report.total;
    let models = first_line(&report.unpriced_models.join(", "), None);
    let unpriced = format!("without a price: {models} (add it to a table of your own: bill.prices)");
    let notes = [
        (total.unpriced, unpriced.as_str()),
        (total.subscription, "on a subscription: tokens only"),
        (
            total.compacted,
            "would have been too long without baton: counted as compacted by the agent, not as saved",
        ),
    ];
    let shown = notes.into_iter().filter(|(count, _)| *count > 0);
    shown
        .map(|(count, note)| format!("  {} {note}", plural(count, "exchange")))
        .collect()
}

fn certainty(total: &BillSum) -> String {
    let share = if total.without_cost > 0.0 {
        total.saved / total.without_cost * 100.0
    } else {
        0.0
    };
    format!(
        "± {}, {share:.0} % of what it would have cost",
        dollars(total.saved_error)
    )
}

fn tokens(counts: &TokenCounts) -> String {
    format!(
        "{} new, {} from the cache, {} written to it, {} output",
        short(counts.input),
        short(counts.cache_read),
        short(counts.cache_write.saturating_add(counts.cache_write_long)),
        short(counts.output)
    )
}

/// `$12.40`; below ten cents with four decimals.
pub(super) fn dollars(amount: f64) -> String {
    if amount != 0.0 && amount.abs() < 0.1 {
        return format!("${amount:.4}");
    }
    format!("${amount:.2}")
}

pub(super) fn signed_dollars(amount: f64) -> String {
    let sign = if amount < 0.0 { "-" } else { "+" };
    format!("{sign}{}", dollars(amount.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(model: &str, at_ms: u64, cost: Option<f64>, without: f64) -> BillEntry {
        BillEntry {
            id: "x".to_owned(),
            conversation: Some("c".to_owned()),
            at_ms,
            model: Some(model.to_owned()),
            client: None,
            agent: None,
            handoff: None,
            subscription: false,
            tokens: TokenCounts {
                input: 10,
                ..TokenCounts::default()
            },
            cost,
            input_cost: None,
            without_tokens: None,
            without_cost: cost.map(|_| without),
            saved: cost.map(|cost| without - cost),
            saved_error: cost.map(|_| 0.01),
            compacted: false,
            shadow: None,
        }
    }

    fn report(by: BillGroup) -> SavingsReport {
        let day = 86_400_000;
        let entries = [
            entry("a", 0, Some(1.0), 3.0),
            entry("b", day, Some(2.0), 1.5),
            entry("odd\u{1b}[31m", day, None, 0.0),
        ];
        SavingsReport::of(&entries, by, &PriceTable::default())
    }

    #[test]
    fn sums_are_net_and_by_group() {
        let report = report(BillGroup::Day);
        assert!((report.total.saved - 1.5).abs() < 1e-9);
        let days: Vec<_> = report
            .groups
            .iter()
            .map(|sum| (sum.key.as_str(), sum.saved))
            .collect();
        assert_eq!(days, [("1970-01-01", 2.0), ("1970-01-02", -0.5)]);
        assert_eq!((report.total.unpriced, report.unpriced_models.len()), (1, 1));
    }

    #[test]
    fn a_loss_is_printed_as_a_loss() {
        let text = lines(&report(BillGroup::Day), BillGroup::Day).join("\n");
        for part in [
            "saved              +$1.50",
            "+$2.00",
            "-$0.50",
            "▒",
            "1 exchange without a price",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let csv = csv(&report(BillGroup::Model).groups);
        assert_eq!(csv.lines().count(), 4);
        assert!(
            csv.lines()
                .nth(1)
                .unwrap()
                .starts_with("\"b\",1,10,0,0,0,0,2.000000,1.500000,-0.500000"),
            "{csv}"
        );
    }
}
