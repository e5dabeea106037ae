//! `baton log`: the exchanges in the journal, newest last. Reads the file, beside a running proxy or without one.

use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::args::LogArgs;
use super::exit::{Exit, Failure};
use super::load_state;
use super::output::{Out, first_line, size, visible};
use crate::journal::{Filter, JournalError, Query, Row, date_time};

/// How often a followed journal is looked at: soon enough for a person, rarely enough for a battery.
const LOOK: Duration = Duration::from_millis(400);

/// Rows read in one look.
const BATCH: usize = 500;

pub(super) fn run(args: &LogArgs, out: &mut Out) -> Result<(), Failure> {
    let config = load_state(&args.state)?;
    let dir = config.state_dir;
    let query = open(&dir)?;
    if query.is_none() && !args.follow {
        // Not on standard output: there a script reads nothing but exchanges.
        Out::stderr().line(format_args!("nothing in the journal yet ({})", dir.display()))?;
        return Ok(());
    }
    let mut last = 0;
    if let Some(query) = &query {
        let conversation = args
            .conversation
            .as_deref()
            .map(|key| full_key(query, key))
            .transpose()?;
        last = query.last_end().map_err(unread)?;
        let filter = Filter {
            conversation,
            before: None,
            limit: args.limit,
        };
        let mut rows = query.list(&filter).map_err(unread)?;
        rows.reverse();
        if !args.json {
            out.line(format_args!("{}", heading()))?;
        }
        for row in &rows {
            print(row, args.json, out)?;
        }
    }
    if args.follow {
        follow(&dir, query, last, args, out)?;
    }
    Ok(())
}

/// Lists what ends from now on, until somebody stops it.
fn follow(
    dir: &Path,
    mut query: Option<Query>,
    mut last: i64,
    args: &LogArgs,
    out: &mut Out,
) -> Result<(), Failure> {
    loop {
        std::thread::sleep(LOOK);
        if query.is_none() {
            query = open(dir)?;
        }
        let Some(query) = &query else { continue };
        for (ended, row) in query.ended_after(last, BATCH).map_err(unread)? {
            last = ended;
            if of(args.conversation.as_deref(), &row) {
                print(&row, args.json, out)?;
            }
        }
    }
}

/// The journal, if there is one.
pub(super) fn open(dir: &Path) -> Result<Option<Query>, Failure> {
    Query::open(dir).map_err(unread)
}

pub(super) fn unread(error: JournalError) -> Failure {
    Failure::new(Exit::UNAVAILABLE, visible(&error.to_string()))
}

fn of(conversation: Option<&str>, row: &Row) -> bool {
    conversation.is_none_or(|wanted| {
        row.conversation
            .as_deref()
            .is_some_and(|key| key.starts_with(wanted))
    })
}

/// The conversation of a key, or of a beginning of one.
fn full_key(query: &Query, beginning: &str) -> Result<String, Failure> {
    let all = query.conversations(None, 0).map_err(unread)?;
    let mut matching = all.iter().filter(|c| c.key.starts_with(beginning));
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(one.key.clone()),
        (None, _) => Err(Failure::new(
            Exit::NO_INPUT,
            format!("there is no conversation {} in the journal", visible(beginning)),
        )),
        (Some(_), Some(_)) => Err(Failure::new(
            Exit::USAGE,
            format!("more than one conversation begins with {}", visible(beginning)),
        )
        .help("give more of the key")),
    }
}

fn print(row: &Row, json: bool, out: &mut Out) -> Result<(), Failure> {
    match json {
        true => out.json_line(row)?,
        false => out.line(format_args!("{}", line(row)))?,
    }
    Ok(())
}

/// Columns have fixed widths: a followed list cannot know what comes.
fn columns(cells: [&str; 10]) -> String {
    let [time, id, wire, model, messages, mark, bytes, legs, tokens, ms] = cells;
    let line = format!(
        "{time:<15}  {id:<36}  {wire:<16}  {model:<24}  {messages:>11}  {mark:<2} {bytes:>21}  {legs:>4}  {tokens:>15}  {ms:>7}"
    );
    line.trim_end().to_owned()
}

fn heading() -> String {
    columns([
        "TIME", "EXCHANGE", "WIRE", "MODEL", "MESSAGES", "", "BYTES", "LEGS", "TOKENS", "MS",
    ])
}

fn line(row: &Row) -> String {
    let event = &row.event;
    let time = date_time(row.at_ms);
    let count = |n: Option<&u64>| n.map_or_else(|| "-".to_owned(), ToString::to_string);
    let messages = format!("{} → {}", row.received_messages, count(row.sent_messages.last()));
    let sent = event
        .sent_bytes
        .last()
        .map_or_else(|| "-".to_owned(), |n| size(*n));
    let bytes = format!("{} → {sent}", size(event.received_bytes));
    let input: u64 = event
        .tokens
        .iter()
        .map(|t| t.input + t.cache_read + t.cache_write)
        .sum();
    let output: u64 = event.tokens.iter().map(|t| t.output).sum();
    let tokens = match event.tokens.is_empty() {
        true => "-".to_owned(),
        false => format!("{input} + {output}"),
    };
    let wire = row.wire.as_deref().unwrap_or("-");
    let model = first_line(
        row.model.as_deref().or(row.route.as_deref()).unwrap_or("-"),
        Some(24),
    );
    let legs = event.legs.to_string();
    let ms = format!("{:.0}", event.total_ms);
    let plain = columns([
        &format!("{} {}Z", &time[5..10], &time[11..19]),
        &row.id,
        wire,
        &model,
        &messages,
        mark(row),
        &bytes,
        &legs,
        &tokens,
        &ms,
    ]);
    painted(row, plain + &trouble(row))
}

fn mark(row: &Row) -> &'static str {
    match () {
        () if !row.event.fired.is_empty() => ">>",
        () if row.event.unpinned => "!",
        () if row.event.pinned.is_some() => ">",
        () => "",
    }
}

/// What did not go well, in words.
fn trouble(row: &Row) -> String {
    let what = match row.event.outcome.as_str() {
        _ if row.open => "under way".to_owned(),
        "complete" if row.partial => "partial".to_owned(),
        "complete" => return String::new(),
        "" => "lost".to_owned(),
        other => format!("{other} {}", row.event.status),
    };
    format!("  {what}")
}

fn painted(row: &Row, line: String) -> String {
    let colour = match () {
        () if !row.event.fired.is_empty() => AnsiColor::Green,
        () if matches!(
            row.event.outcome.as_str(),
            "refused" | "truncated" | "upstream_error" | "in_band_error"
        ) =>
        {
            AnsiColor::Red
        }
        () if row.event.unpinned => AnsiColor::Yellow,
        () => return line,
    };
    let style = Style::new().fg_color(Some(colour.into()));
    format!("{style}{line}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, LegTokens};

    fn row() -> Row {
        Row {
            id: "0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11".into(),
            conversation: Some("c0ffee".into()),
            at_ms: 1_795_478_399_999,
            wire: Some("anthropic".into()),
            upstream: Some("anthropic".into()),
            route: Some("POST /v1/messages".into()),
            model: Some("claude\u{1b}[2J".into()),
            event: Event {
                outcome: "complete".into(),
                status: 200,
                fired: vec!["h".into()],
                legs: 2,
                received_bytes: 300 << 10,
                sent_bytes: vec![301 << 10, 4096],
                tokens: vec![LegTokens {
                    input: 10,
                    cache_read: 5,
                    cache_write: 0,
                    output: 7,
                }],
                total_ms: 1234.6,
                ..Event::default()
            },
            received_messages: 41,
            sent_messages: vec![41, 1],
            changes: Vec::new(),
            partial: false,
            open: false,
        }
    }

    #[test]
    fn a_line_tells_what_happened_and_nothing_acts() {
        let shown = line(&row());
        let plain: String = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains('\u{1b}'));
        let words: Vec<_> = plain.split_whitespace().collect();
        assert_eq!(words[..2], ["11-23", "23:59:59Z"]);
        assert!(plain.contains("41 → 1") && plain.contains(">>") && plain.contains("300 KiB → 4.0 KiB"));
        assert!(plain.contains("15 + 7") && plain.ends_with("1235"));
        assert_eq!(heading().split_whitespace().count(), 9);
    }

    #[test]
    fn what_went_wrong_is_said() {
        let mut bad = row();
        bad.event.outcome = "truncated".into();
        assert!(line(&bad).contains("truncated 200"));
        bad.open = true;
        assert!(line(&bad).contains("under way"));
    }
}
