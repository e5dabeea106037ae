//! The `baton log` command: lists the exchanges in the journal, newest last. Reads the file, with or without
//! a running proxy.

use std::path::Path;
use std::time::Duration;

use clap::Args as ClapArgs;

use anstyle::{AnsiColor, Style};

use super::exit::{CliResult, Exit};
use super::journal::{full_key, nothing_yet};
use super::output::{Out, first_line, short, size, visible};
use super::state_args::{self, ListFormat, StateArgs};
use super::{load_state, stored};
use baton_core::text::date::{self, PeriodStart};
use baton_core::wire::Usage;
use baton_state::clock::now_ms;
use baton_state::journal::{ExchangeFilter, ExchangeRow, JournalReader, RowFilter, RowQuery};
use baton_state::telemetry::ExchangeOutcome;

/// Poll interval of `--follow`, short enough for users and long enough for batteries.
const LOOK: Duration = Duration::from_millis(400);

/// Maximum rows read in one poll.
const BATCH: usize = 500;

/// Formats the help of filters from the terms that exist.
fn after_help() -> String {
    let [words, texts, numbers] = RowFilter::names();
    format!(
        "\
A mark before the sizes shows what happened: >> a handoff took effect, > the request was cut at one, ! the transcript \
has lost its sentinel. The column KEY has the beginning of the conversation's key, which `log --conversation`, `export`, \
`savings --conversation` and `handoffs draft` accept.

Terms of FILTER, each of which must hold (! before a term negates it):
  words    {words}
  texts    tool:Bash, model:opus*, …: {texts}
  time     since:30m, since:12h, since:7d, since:2026-11-23
  numbers  cost>0.5, input<20k, …: {numbers}

Examples:
  baton log
  baton log --follow
  baton log error since:1h
  baton log --limit 0 'tool:Bash model:opus* cost>0.5'
  baton log --conversation 3f2a --limit 0 --jsonl | jq -c '[.id, .received_bytes, .sent_bytes]'
  baton log --json | jq 'map(.outcome)'"
    )
}

#[derive(Debug, ClapArgs)]
#[command(after_help = after_help())]
pub(super) struct LogArgs {
    /// List only exchanges that match every term, such as error, tool:Bash, model:opus*, since:1h or cost>0.5
    /// (all: see below)
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    #[command(flatten)]
    state: StateArgs,
    /// Keep running, and list each exchange when it ends
    #[arg(long, short)]
    follow: bool,
    /// List only exchanges since this age (90m, 12h, 7d) or date (2026-11-23)
    #[arg(long, value_name = "TIME", value_parser = state_args::period_start)]
    since: Option<PeriodStart>,
    /// List only this conversation's exchanges, by its key or a unique prefix of it
    #[arg(long, value_name = "KEY")]
    conversation: Option<String>,
    /// List at most this many exchanges (0: no limit)
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = state_args::number::<usize>)]
    limit: usize,
    #[command(flatten)]
    format: ListFormat,
}

pub(super) fn run(args: &LogArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let dir = config.state_dir.clone();
    let filter = filter(&args.filter)?.since(args.since);
    let prices = super::prices(config.bill.prices.as_deref())?;
    let mut wanted = RowQuery {
        range: ExchangeFilter::newest(None, args.limit),
        filter: &filter,
        prices: &prices,
        command_prefix: &config.commands.prefix,
        now_ms: now_ms(),
    };
    let query = JournalReader::open(&dir)?;
    // With `--follow` an array would never end, so each row is an object.
    let format = ListFormat {
        json: args.format.json && !args.follow,
        jsonl: args.format.jsonl || args.format.json && args.follow,
    };
    if query.is_none() {
        match (args.follow, format.is_for_programs()) {
            (true, _) => {}
            (false, true) => out.rows(&[(); 0], format)?,
            (false, false) => stored::check_named(&args.state, &dir)?,
        }
        let next = match args.follow {
            true => "; waiting for the first exchange",
            false => "",
        };
        // To standard error, because scripts read exchanges from standard output.
        Out::stderr().line(format_args!("{}{next}", nothing_yet(&dir)))?;
        if !args.follow {
            return Ok(());
        }
    }
    let mut last = 0;
    if let Some(query) = &query {
        let conversation = args.conversation.as_deref();
        wanted.range.conversation = conversation.map(|key| full_key(query, key)).transpose()?;
        // Read before the rows: an exchange that ends in between is listed twice rather than missed.
        last = query.last_end()?;
        let mut rows = query.filtered(&wanted)?;
        rows.reverse();
        if format.is_for_programs() {
            out.rows(&rows, format)?;
        } else {
            if rows.is_empty() && !args.follow {
                return Out::stderr().line("no exchange matches");
            }
            let layout = Layout::fitting(out.width());
            out.line(heading(&layout, out.width()))?;
            rows.iter().try_for_each(|row| print(row, format, out))?;
        }
    }
    if args.follow {
        // The prefix as given, because the journal may not have the conversation yet.
        wanted.range.conversation.clone_from(&args.conversation);
        follow(&dir, query, (last, format), wanted, out)?;
    }
    Ok(())
}

/// Parses the filter of the command line.
fn filter(words: &[String]) -> CliResult<RowFilter> {
    let text = words.join(" ");
    RowFilter::parse(&text).map_err(|why| {
        let place = format!("{}\n{}^", visible(&text), " ".repeat(why.position - 1));
        let message = format!("{}\n{place}", visible(&why.message));
        Exit::USAGE.with_help(message, "`baton log --help` lists the terms")
    })
}

/// Lists exchanges as they end, until interrupted.
fn follow(
    dir: &Path,
    mut query: Option<JournalReader>,
    (mut last, format): (i64, ListFormat),
    mut wanted: RowQuery<'_>,
    out: &mut Out,
) -> CliResult {
    loop {
        std::thread::sleep(LOOK);
        if query.is_none() {
            // The journal may have been created only now.
            query = JournalReader::open(dir)?;
        }
        let Some(query) = &query else { continue };
        wanted.now_ms = now_ms();
        for (ended, row) in query.ended_after(last, BATCH)? {
            last = ended;
            let is_of = of(wanted.range.conversation.as_deref(), &row);
            if is_of && query.is_filtered(&wanted, &row)? {
                print(&row, format, out)?;
            }
        }
    }
}

fn of(conversation: Option<&str>, row: &ExchangeRow) -> bool {
    let key = row.conversation.as_deref();
    conversation.is_none_or(|wanted| key.is_some_and(|key| key.starts_with(wanted)))
}

fn print(row: &ExchangeRow, format: ListFormat, out: &mut Out) -> CliResult {
    let width = out.width();
    match format.is_for_programs() {
        true => out.json_line(row)?,
        false => out.line(line(row, &Layout::fitting(width), width))?,
    }
    Ok(())
}

// Indices into `COLUMNS`.
const TIME: usize = 0;
const ID: usize = 1;
const KEY: usize = 2;
const WIRE: usize = 3;
const MODEL: usize = 4;
const MESSAGES: usize = 5;
const BYTES: usize = 7;
const LEGS: usize = 8;
const MS: usize = 10;

/// Columns: heading, width, and whether they are right-aligned numbers.
///
/// Widths are fixed, because later rows of a followed list are unknown.
const COLUMNS: [(&str, usize, bool); 11] = [
    ("TIME", 15, false),
    ("EXCHANGE", 36, false),
    ("KEY", 8, false),
    ("WIRE", 16, false),
    ("MODEL", 24, false),
    ("MESSAGES", 11, true),
    ("", 2, false),
    ("BYTES", 21, true),
    ("LEGS", 4, true),
    ("TOKENS", 17, true),
    ("MS", 7, true),
];

/// Reductions for narrow terminals, in this order. Each gives a column's new width; 0 removes the column.
///
/// `baton show` finds an exchange by the first 13 characters of its id, which are its time in milliseconds.
/// Other commands find a conversation by the beginning of its key.
const GIVEN_UP: [(usize, usize); 13] = [
    (ID, 13),
    (WIRE, 9),
    (MODEL, 16),
    (LEGS, 0),
    (WIRE, 0),
    (TIME, 8),
    (BYTES, 0),
    (KEY, 6),
    (MODEL, 10),
    (MS, 0),
    (MESSAGES, 0),
    (KEY, 0),
    (MODEL, 0),
];

/// Widths of the columns, 0 for hidden ones.
struct Layout([usize; COLUMNS.len()]);

impl Layout {
    /// Fits the columns into the terminal's width; without a terminal, all columns keep their full width.
    fn fitting(width: Option<usize>) -> Self {
        let mut layout = Self(COLUMNS.map(|(_, width, _)| width));
        for (column, narrow) in GIVEN_UP {
            if width.is_none_or(|width| layout.width() <= width) {
                break;
            }
            layout.0[column] = narrow;
        }
        layout
    }

    fn width(&self) -> usize {
        let shown = self.0.iter().filter(|width| **width > 0);
        shown.map(|width| width + 2).sum::<usize>() - 2
    }

    fn row(&self, cells: [&str; COLUMNS.len()]) -> String {
        let shown = (0..COLUMNS.len()).filter(|i| self.0[*i] > 0);
        let padded = shown.map(|i| {
            let width = self.0[i];
            let cell = first_line(cells[i], Some(width));
            match COLUMNS[i].2 {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

fn heading(layout: &Layout, width: Option<usize>) -> String {
    first_line(&layout.row(COLUMNS.map(|(name, ..)| name)), width)
}

fn line(row: &ExchangeRow, layout: &Layout, width: Option<usize>) -> String {
    let event = &row.event;
    let time = date::rfc3339_millis(row.at_ms);
    let count = |n: Option<&u64>| n.map_or_else(|| "-".to_owned(), ToString::to_string);
    let messages = format!("{} → {}", row.received_messages, count(row.sent_messages.last()));
    let sent = event.sent_bytes.last().map(|bytes| size(*bytes));
    let sent = sent.as_deref().unwrap_or("-");
    let bytes = format!("{} → {sent}", size(event.received_bytes));
    let tokens = |sum: Usage| format!("{} + {}", short(sum.all_input()), short(sum.output));
    let tokens = row.tokens_sum.map_or_else(|| "-".to_owned(), tokens);
    let at = match layout.0[TIME] {
        8 => time[11..19].to_owned(),
        _ => format!("{} {}Z", &time[5..10], &time[11..19]),
    };
    // Without an ellipsis, so that users can copy it.
    let key = row.conversation.as_deref().unwrap_or("-").chars();
    let key: String = key.take(layout.0[KEY]).collect();
    let plain = layout.row([
        &at,
        &row.id[..row.id.len().min(layout.0[ID])],
        &key,
        row.wire.as_deref().unwrap_or("-"),
        row.model.as_deref().or(row.route.as_deref()).unwrap_or("-"),
        &messages,
        mark(row),
        &bytes,
        &row.legs.to_string(),
        &tokens,
        &format!("{:.0}", event.total_ms),
    ]);
    let trouble = problem_of(row);
    let plain = match width {
        // A failure is more important than the numbers that it covers.
        Some(width) => first_line(&plain, Some(width.saturating_sub(trouble.chars().count()))),
        None => plain,
    };
    painted(row, plain + &trouble)
}

fn mark(row: &ExchangeRow) -> &'static str {
    match () {
        // The column has room for one mark, so the most important event wins.
        () if !row.event.fired.is_empty() => ">>",
        () if row.event.lost_sentinel => "!",
        () if row.event.pinned.is_some() => ">",
        () => "",
    }
}

/// Describes failures and warnings of an exchange in words.
fn problem_of(row: &ExchangeRow) -> String {
    let what = match row.event.outcome {
        _ if row.open => "under way".to_owned(),
        ExchangeOutcome::Complete if row.partial => "partial".to_owned(),
        ExchangeOutcome::Complete => match refused_legs(row) {
            legs if legs.is_empty() => return String::new(),
            legs => format!("failed legs: {legs}"),
        },
        ExchangeOutcome::Open => "lost".to_owned(),
        other => format!("{} {}", other.name(), row.event.status),
    };
    format!("  {what}")
}

/// Statuses of the legs that failed and were retried.
fn refused_legs(row: &ExchangeRow) -> String {
    // In a partial record, a leg without a status may have had one.
    let unanswered = !row.partial;
    let has_failed = |status: &&Option<u16>| status.map_or(unanswered, |status| status >= 400);
    let word = |status: &Option<u16>| status.map_or("no response".to_owned(), |status| status.to_string());
    let words = row.statuses.iter().filter(has_failed).map(word);
    words.collect::<Vec<_>>().join(", ")
}

fn painted(row: &ExchangeRow, line: String) -> String {
    let colour = match () {
        () if !row.event.fired.is_empty() => AnsiColor::Green,
        () if row.event.outcome.has_failed() => AnsiColor::Red,
        () if row.event.lost_sentinel => AnsiColor::Yellow,
        () => return line,
    };
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{line}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::wire::Usage;
    use baton_state::telemetry::ExchangeFacts;

    fn all(row: &ExchangeRow) -> String {
        line(row, &Layout::fitting(None), None)
    }

    fn row() -> ExchangeRow {
        let tokens = Some(Usage {
            input: 10,
            cache_read: 403_600_000,
            output: 7,
            ..Usage::default()
        });
        ExchangeRow {
            id: "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11".into(),
            conversation: Some("c0ffee0123456789".into()),
            at_ms: 1_795_478_399_999,
            wire: Some("anthropic".into()),
            upstream: Some("anthropic".into()),
            route: Some("POST /v1/messages".into()),
            model: Some("claude\u{1b}[2J".into()),
            event: ExchangeFacts {
                status: 200,
                fired: vec!["h".into()],
                received_bytes: 300 << 10,
                sent_bytes: vec![301 << 10, 4096],
                tokens: vec![tokens],
                total_ms: 1234.6,
                ..ExchangeFacts::default()
            },
            legs: 2,
            received_messages: 41,
            sent_messages: vec![41, 1],
            statuses: vec![Some(200), Some(200)],
            tokens_sum: tokens,
            ..ExchangeRow::default()
        }
    }

    #[test]
    fn a_line_shows_what_happened_and_nothing_acts() {
        let shown = all(&row());
        let plain: String = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains('\u{1b}'));
        let words: Vec<_> = plain.split_whitespace().collect();
        assert_eq!(words[..2], ["11-23", "23:59:59Z"]);
        assert!(plain.contains("41 → 1") && plain.contains(">>") && plain.contains("300 KiB → 4.0 KiB"));
        assert_eq!(words[3], "c0ffee01", "the beginning of the conversation's key");
        assert!(plain.contains("403.6 M + 7") && plain.ends_with("1235"));
        assert_eq!(
            heading(&Layout::fitting(None), None).split_whitespace().count(),
            10
        );
    }

    #[test]
    fn what_went_wrong_is_named() {
        let mut bad = row();
        bad.event.outcome = ExchangeOutcome::Truncated;
        assert!(all(&bad).contains("truncated 200"));
        let mut retried = row();
        retried.statuses = vec![Some(200), Some(429), None, Some(200)];
        assert!(all(&retried).contains("  failed legs: 429, no response"));
        bad.open = true;
        assert!(all(&bad).contains("under way"));
    }

    #[test]
    fn a_line_fits_the_terminal() {
        let mut bad = row();
        bad.event.fired.clear();
        bad.event.outcome = ExchangeOutcome::UpstreamError;
        bad.model = Some("a-model-with-a-long-name ".repeat(9));
        for width in 40..220 {
            let layout = Layout::fitting(Some(width));
            for row in [&row(), &bad] {
                let shown = line(row, &layout, Some(width));
                let plain: String = anstream::adapter::strip_str(&shown).to_string();
                assert!(plain.chars().count() <= width, "{width}: {plain}");
                assert!(width < 80 || plain.contains("0199a3c2-7d1e"), "{plain}");
            }
            assert!(heading(&layout, Some(width)).chars().count() <= width);
        }
        let narrow = line(&bad, &Layout::fitting(Some(80)), Some(80));
        assert!(narrow.contains("upstream_error 200"), "{narrow}");
        assert!(narrow.contains("  c0ffee  "), "{narrow}");
    }
}
