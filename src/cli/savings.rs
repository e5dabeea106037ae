//! The `baton savings` command: compares the cost of the journal's exchanges with their estimated cost
//! without baton.

use clap::Args as ClapArgs;

use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};

use super::exit::CliResult;
use super::journal::{FIRST_RUN, full_key};
use super::load_state;
use super::output::{Out, csv_text, first_line, plural, short};
use super::state_args::{StateArgs, named, period_start};
use baton_core::bill::{PriceTable, TokenCounts};
use baton_core::text::date::{PeriodStart, rfc3339};
use baton_core::trial::{ArmSum, JOURNAL_SHADOW};
use baton_state::clock::now_ms;
use baton_state::journal::{
    BillEntry, BillFilter, BillGroup, BillSum, JournalReader, NO_GROUP, SavingsReport,
};

/// Width of the longest bar, in cells.
const BAR: f64 = 24.0;

/// Maximum shadow moments that are listed.
const MOMENTS: usize = 5;

/// Width of a group's name, in columns.
const NAME: usize = 28;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The cost is the usage that the provider reported for every request, including baton's own requests, at the built-in \
list prices, whose date the first line of the output shows. Without baton the agent's whole history would \
have been sent, cached by the provider's rules and compacted at the agent's own point. \
The difference is net, and negative if handoffs cost more than they saved.

Examples:
  baton savings
  baton savings --since 7d --by model
  baton savings --by conversation --json | jq '.groups[0]'
  baton savings --by day --csv > savings.csv")]
pub(super) struct SavingsArgs {
    #[command(flatten)]
    state: StateArgs,
    /// Count only exchanges since this age (90m, 12h, 7d) or date (2026-11-23)
    #[arg(long, value_name = "TIME", value_parser = period_start)]
    since: Option<PeriodStart>,
    /// Count only this conversation's exchanges, by its key (`--by conversation` lists them) or a unique
    /// prefix of it
    #[arg(long, value_name = "KEY")]
    conversation: Option<String>,
    /// Group exchanges by this
    #[arg(long, value_name = "GROUP", default_value = "day", value_parser = named(BillGroup::ALL, BillGroup::name))]
    by: BillGroup,
    /// Use this price table (TOML), with [[provider]] and [[provider.model]] entries [bill.prices]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Estimate what other rules for a handoff would have saved in these conversations
    #[arg(long)]
    rules: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print CSV: one line per group
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

pub(super) fn run(args: &SavingsArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let file = args.prices.as_deref().or(config.bill.prices.as_deref());
    let prices = super::prices(file)?;
    let (entries, stopped) = entries(args, &config.state_dir, &prices)?;
    let report = SavingsReport::new(&entries, stopped, args.by, &prices);
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
        // To standard error, because scripts read the report from standard output.
        Out::stderr().lines([
            format!("no answered exchanges{matching} in {dir}"),
            format!("  help: {help}"),
        ])?;
    } else {
        let shown = ReportLines {
            report: &report,
            by: args.by,
            is_short: entries.iter().all(is_short),
            rules: args.rules,
        };
        out.lines(shown.lines())?;
    }
    Ok(())
}

/// Input tokens below which a handoff costs more than it saves (docs/savings.md).
const SHORT_TOKENS: u64 = 50_000;

/// Whether the agent sent so little that no handoff could save anything.
fn is_short(entry: &BillEntry) -> bool {
    // The agent's history decides: after a cut every request is short.
    entry.without_tokens.unwrap_or(entry.tokens).whole_input() < SHORT_TOKENS
}

/// Returns the bill, and how many requests the brake did not send.
fn entries(args: &SavingsArgs, dir: &Path, prices: &PriceTable) -> CliResult<(Vec<BillEntry>, u64)> {
    let Some(query) = JournalReader::open(dir)? else {
        return Ok((Vec::new(), 0));
    };
    let conversation = args.conversation.as_deref();
    let filter = BillFilter {
        conversation: conversation.map(|key| full_key(&query, key)).transpose()?,
        since_ms: args.since.map_or(0, |since| since.at_ms(now_ms())),
    };
    Ok((query.bill(&filter, prices)?, query.stopped(&filter)?))
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
        let key = csv_text(&sum.key);
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

/// Lines of the report for a terminal.
struct ReportLines<'a> {
    report: &'a SavingsReport,
    by: BillGroup,
    /// Whether every request is too short for a handoff to pay.
    is_short: bool,
    /// Whether to print the savings of other rules.
    rules: bool,
}

impl ReportLines<'_> {
    fn lines(&self) -> Vec<String> {
        let mut lines = self.totals();
        lines.extend(notes(self.report));
        lines.extend(tried(self.report, self.rules));
        lines.extend(self.groups());
        lines
    }

    fn totals(&self) -> Vec<String> {
        let (report, total) = (self.report, &self.report.total);
        // A loss on short requests is expected, so it is explained instead of given as a share.
        let certainty = match self.is_short && total.saved <= 0.0 {
            true => format!("too short to save anything; baton cost {}", cents(-total.saved)),
            false => certainty(total),
        };
        let source = first_line(&report.prices.source, None);
        let exchanges = plural(total.exchanges, "exchange");
        let (cost, without) = (dollars(total.cost), dollars(total.without_cost));
        vec![
            format!(
                "{exchanges}, at the prices of {}, from {source}",
                report.prices.date
            ),
            String::new(),
            row("with baton", cost, tokens(&total.tokens)),
            row("without baton", without, tokens(&total.without_tokens)),
            row("saved", signed_dollars(total.saved), certainty),
        ]
    }

    fn groups(&self) -> Vec<String> {
        let groups = &self.report.groups;
        let heading = format!(
            "  {:<NAME$} exchanges       cost    without      saved",
            self.by.name()
        );
        let most = groups.iter().map(|sum| sum.saved.abs()).fold(0.0, f64::max);
        let rows = groups.iter().map(|sum| group_line(sum, self.by, most));
        [String::new(), heading].into_iter().chain(rows).collect()
    }
}

fn group_line(sum: &BillSum, by: BillGroup, most: f64) -> String {
    let name = match sum.key == NO_GROUP {
        true => format!("(no {})", by.name()),
        false => first_line(&sum.key, Some(NAME)),
    };
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

/// Draws a bar of an amount. The largest amount gets `width` cells; a loss is red and light.
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

/// Savings that other settings and a shadow would have reached in these conversations.
fn tried(report: &SavingsReport, rules: bool) -> Vec<String> {
    let is_shown = |sum: &&ArmSum| rules || sum.arm == JOURNAL_SHADOW;
    let line = |sum: &ArmSum| {
        let error = dollars(sum.error);
        let cuts = match sum.cuts {
            0 => "no cuts".to_owned(),
            number => plural(number as u64, "cut"),
        };
        let (name, about) = match sum.arm == JOURNAL_SHADOW {
            true => ("in its shadow", "at its moments".to_owned()),
            false => ("another rule", format!("by {}", sum.title)),
        };
        let about = format!("± {error}, with {cuts} {about}");
        row(name, signed_dollars(sum.saved), about)
    };
    let mut lines: Vec<_> = report.tried.iter().filter(is_shown).map(line).collect();
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
    let unpriced = format!("without a price: {models} (add a price table: bill.prices)");
    let notes = [
        (total.unpriced, unpriced.as_str()),
        (total.subscription, "on a subscription: tokens only"),
        (
            total.compacted,
            "would have been too long without baton: counted as compacted by the agent, not as saved",
        ),
    ];
    let shown = notes.into_iter().filter(|(count, _)| *count > 0);
    let brake = (report.stopped > 0).then(|| {
        let requests = plural(report.stopped, "request");
        format!("  {requests} not sent, because the brake stopped the agent (`baton log brake:stopped*`)")
    });
    shown
        .map(|(count, note)| format!("  {} {note}", plural(count, "exchange")))
        .chain(brake)
        .collect()
}

fn certainty(total: &BillSum) -> String {
    let share = if total.without_cost > 0.0 {
        total.saved / total.without_cost * 100.0
    } else {
        0.0
    };
    let error = dollars(total.saved_error);
    format!("± {error}, {share:.0} % of what it would have cost")
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

/// Formats dollars with two decimals, such as `$12.40`, or with four below ten cents.
pub(super) fn dollars(amount: f64) -> String {
    match amount.abs() {
        // Smaller amounts would round to $0.0000.
        0.000_05..0.1 => format!("${amount:.4}"),
        0.1.. => format!("${amount:.2}"),
        _ => "$0.00".to_owned(),
    }
}

pub(super) fn signed_dollars(amount: f64) -> String {
    // An amount that rounds to zero has no sign.
    let sign = match dollars(amount.abs()).as_str() {
        "$0.00" => "",
        _ if amount < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{}", dollars(amount.abs()))
}

/// Formats an amount as cents (`1.5 cents`), or as dollars from one dollar on.
fn cents(amount: f64) -> String {
    match amount < 1.0 {
        true => format!("{:.1} cents", amount * 100.0),
        false => dollars(amount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(model: &str, at_ms: u64, cost: Option<f64>, without: f64) -> BillEntry {
        BillEntry {
            at_ms,
            model: Some(model.to_owned()),
            tokens: TokenCounts {
                input: 10,
                ..TokenCounts::default()
            },
            cost,
            without_cost: cost.map(|_| without),
            saved: cost.map(|cost| without - cost),
            saved_error: cost.map(|_| 0.01),
            ..BillEntry::default()
        }
    }

    fn report(by: BillGroup) -> SavingsReport {
        let day = 86_400_000;
        let entries = [
            entry("a", 0, Some(1.0), 3.0),
            entry("b", day, Some(2.0), 1.5),
            entry("odd\u{1b}[31m", day, None, 0.0),
        ];
        SavingsReport::new(&entries, 0, by, &PriceTable::default())
    }

    #[test]
    fn sums_are_net_and_by_group() {
        let report = report(BillGroup::Day);
        assert!((report.total.saved - 1.5).abs() < 1e-9);
        let days = report.groups.iter().map(|sum| (sum.key.as_str(), sum.saved));
        assert_eq!(
            days.collect::<Vec<_>>(),
            [("1970-01-01", 2.0), ("1970-01-02", -0.5)]
        );
        assert_eq!((report.total.unpriced, report.unpriced_models.len()), (1, 1));
    }

    fn printed(report: &SavingsReport, is_short: bool) -> String {
        let (by, rules) = (BillGroup::Day, false);
        let shown = ReportLines {
            report,
            by,
            is_short,
            rules,
        };
        shown.lines().join("\n")
    }

    #[test]
    fn a_short_session_says_what_baton_cost() {
        let entries = [entry("a", 0, Some(0.045), 0.03)];
        let report = SavingsReport::new(&entries, 3, BillGroup::Day, &PriceTable::default());
        assert!(is_short(&entries[0]));
        let text = printed(&report, true);
        for part in [
            "  3 requests not sent, because the brake",
            "too short to save anything; baton cost 1.5 cents",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("of what it would have cost"), "{text}");
    }

    #[test]
    fn nothing_has_no_sign_and_no_group_has_a_name() {
        assert_eq!([-0.000_01, 0.0, -0.0].map(signed_dollars), ["$0.00"; 3]);
        assert_eq!([-0.02, 0.25].map(signed_dollars), ["-$0.0200", "+$0.25"]);
        let sum = BillSum {
            key: NO_GROUP.to_owned(),
            ..BillSum::default()
        };
        assert!(group_line(&sum, BillGroup::Handoff, 1.0).contains("(no handoff)"));
    }

    #[test]
    fn a_loss_is_printed_as_a_loss() {
        let text = printed(&report(BillGroup::Day), false);
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
        let row = "\n\"b\",1,10,0,0,0,0,2.000000,1.500000,-0.500000";
        assert_eq!(csv.find(row), csv.find('\n'), "{csv}");
    }
}
