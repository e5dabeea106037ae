//! The `baton show` command: prints one exchange for users.

use clap::Args as ClapArgs;

use anstyle::{AnsiColor, Style};

use super::exit::{CliResult, CommandFailure, Exit};
use super::journal::open_existing;
use super::load_state;
use super::output::{Out, first_line, plural, short, size, unsent, visible};
use super::shells::ShellSyntax;
use super::state_args::{self, StateArgs};
use super::stored::only;
use baton_core::record::WireId;
use baton_core::text::date;
use baton_core::wire::error::{CREDENTIAL_HEADERS, KeyHeader};
use baton_core::wire::{Usage, wire};
use baton_state::config::Config;
use baton_state::journal::{
    BodySide, ExchangeDetail, JournalReader, LegDetail, MessageState, MessageSummary,
};

/// Maximum run of kept messages that is shown in full. A longer run shows only its first and last message.
const FEW: usize = 4;

/// Maximum run of cut messages that is shown in full.
const MANY: usize = 24;

/// Width of a message's first line if the terminal's width is unknown.
const LINE: usize = 100;

/// Columns before a message's first line.
const MARGIN: usize = 40;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without an option, shows the difference between the agent's request and the request sent upstream. A leg is one \
request of an exchange to upstream; baton may send several, such as a retry, or one with the new context after a handoff.

Examples:
  baton show 0199a3c2-7d1e
  baton show 0199a3c2-7d1e --sent --leg 2 | jq .messages
  baton show 0199a3c2-7d1e --har > exchange.har")]
pub(super) struct ShowExchangeArgs {
    /// Exchange to show, by its id (in `x-baton-exchange` and `baton log`) or a unique prefix of it
    exchange: String,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    what: ShowWhat,
    /// Show this leg, numbered from 1 [default: the first]
    #[arg(long, value_name = "N", value_parser = state_args::leg)]
    leg: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The part of an exchange to show.
#[derive(Debug, ClapArgs)]
#[group(multiple = false)]
pub(super) struct ShowWhat {
    /// Show removed and added messages (the default)
    #[arg(long)]
    diff: bool,
    /// Print the agent's request
    #[arg(long)]
    received: bool,
    /// Print the request sent upstream, as the model saw it
    #[arg(long)]
    sent: bool,
    /// Print the response to the agent, or with --leg the upstream's
    #[arg(long)]
    response: bool,
    /// Print HAR 1.2, for the network tools of a browser
    #[arg(long)]
    har: bool,
    /// Print a curl command that sends a leg's request again, with variables for credentials
    #[arg(long)]
    curl: bool,
}

pub(super) fn run(args: &ShowExchangeArgs, out: &mut Out) -> CliResult {
    let config = load_state(&args.state, &[])?;
    let query = open_existing(&config.state_dir)?;
    let id = find_exchange(&query, &args.exchange)?;
    let what = &args.what;
    // Legs count from 1 for users and from 0 in the file.
    let leg = args.leg.map(|leg| leg - 1);
    if let Some(leg) = leg {
        let legs = query.row(&id)?.map_or(0, |row| row.statuses.len());
        if leg as usize >= legs {
            return Err(no_leg(leg + 1, legs));
        }
    }
    if what.har {
        let har = query.har(&id)?.ok_or_else(|| no_such_exchange(&id))?;
        return out.json(&har);
    }
    let side = match (what.received, what.sent, what.response) {
        (true, ..) => Some(BodySide::Received),
        (_, true, _) => Some(BodySide::Sent(leg.unwrap_or(0))),
        (.., true) => Some(leg.map_or(BodySide::Shown, BodySide::Response)),
        _ => None,
    };
    if let Some(side) = side {
        let body = query.body(&id, side)?;
        let body = body.ok_or_else(|| Exit::NO_INPUT.failure("the journal has no such body"))?;
        return out.body(&body);
    }
    let exchange = query.exchange(&id)?.ok_or_else(|| no_such_exchange(&id))?;
    if what.curl {
        let line = curl_line(args, &config, &exchange)?;
        return out.line(line);
    }
    if args.json {
        return out.json(&exchange);
    }
    let lines = exchange_lines(&exchange, leg, out.width());
    out.lines(lines)
}

/// Finds the exchange with this id or unique id prefix.
fn find_exchange(query: &JournalReader, wanted: &str) -> CliResult<String> {
    let wanted = wanted.trim().to_lowercase();
    let ids = query.ids(&wanted)?.into_iter();
    only(ids, ["exchange", "the id"], &wanted, || no_such_exchange(&wanted))
}

fn no_such_exchange(id: &str) -> CommandFailure {
    let message = format!("there is no exchange {} in the journal", visible(id));
    Exit::NO_INPUT.with_help(message, "`baton log` lists the exchanges")
}

fn no_leg(leg: u32, legs: usize) -> CommandFailure {
    let has = match legs {
        0 => "the journal has no legs of this exchange".to_owned(),
        _ => format!("the exchange has {}", plural(legs as u64, "leg")),
    };
    Exit::NO_INPUT.failure(format!("there is no leg {leg}: {has}"))
}

/// Formats the exchange: request, legs, diff, and response.
fn exchange_lines(exchange: &ExchangeDetail, leg: Option<u32>, width: Option<usize>) -> Vec<String> {
    let bold = Style::new().bold();
    let row = &exchange.exchange;
    let mut out = vec![format!("{bold}exchange {}{bold:#}", row.id)];
    let text = |text: &Option<String>| first_line(text.as_deref().unwrap_or("-"), Some(60));
    out.push(format!(
        "  {}  {}  {}  {}  status {} {}",
        date::rfc3339_millis(row.at_ms),
        text(&row.wire),
        text(&row.route),
        text(&row.model),
        row.event.status,
        row.event.outcome.name(),
    ));
    if let Some(conversation) = &row.conversation {
        out.push(format!("  conversation {}", first_line(conversation, None)));
    }
    out.push(format!(
        "  received {}, {}; answered {} in {:.0} ms ({:.1} ms added)",
        plural(row.received_messages, "message"),
        size(row.event.received_bytes),
        size(exchange.shown.bytes),
        row.event.total_ms,
        row.event.added_ms,
    ));
    if let Some(sum) = &row.tokens_sum {
        out.push(format!("  tokens: {}", tokens(*sum)));
    }
    if row.unsent_tokens != 0 {
        out.push(format!(
            "  input saved: {} (estimated)",
            unsent(row.unsent_tokens)
        ));
    }
    let notes = exchange.notes.iter();
    out.extend(notes.map(|note| format!("  - {}", first_line(note, None))));
    if let Some(moment) = row.event.shadow.as_ref().filter(|moment| !moment.text.is_empty()) {
        out.push("  baton would have sent:".to_owned());
        out.extend(moment.text.lines().map(|line| format!("    {}", visible(line))));
    }
    let legs = exchange.legs.iter().filter(|l| leg.is_none_or(|n| n == l.n));
    for leg in legs {
        out.push(String::new());
        out.extend(leg_lines(exchange, leg, width));
    }
    out
}

fn leg_lines(exchange: &ExchangeDetail, leg: &LegDetail, width: Option<usize>) -> Vec<String> {
    let bold = Style::new().bold();
    let sent = exchange.exchange.event.sent_bytes.get(leg.n as usize);
    let stop = leg.response.stop.as_deref().unwrap_or("-");
    let mut out = vec![format!(
        "{bold}leg {}{bold:#}  sent {}, {}; {} {} (stop: {})",
        leg.n + 1,
        plural(leg.sent.messages.len() as u64, "message"),
        size(sent.copied().unwrap_or_default()),
        leg.response.status.map_or_else(
            || "not answered".to_owned(),
            |status| format!("answered {status},")
        ),
        size(leg.response.bytes),
        first_line(stop, None),
    )];
    if let Some(Some(counted)) = exchange.exchange.event.tokens.get(leg.n as usize) {
        out.push(format!("  tokens: {}", tokens(*counted)));
    }
    // On a very narrow terminal lines wrap, rather than losing their text.
    let room = width.map_or(LINE, |width| width.saturating_sub(MARGIN).max(20));
    let mut story = side_by_side(&exchange.received.envelope, &leg.sent.envelope);
    story.extend(merged(
        &exchange.received.messages,
        &leg.received_states,
        &leg.sent.messages,
    ));
    for run in story.chunk_by(|one, next| one.mark == next.mark) {
        out.extend(shortened(run, room));
    }
    let changes = leg.sent.envelope_changes.iter();
    let line = |text: &str, width| first_line(text, width);
    out.extend(changes.map(|it| format!("  ~ {}: {}", line(&it.key, Some(40)), line(&it.what, None))));
    out
}

/// Formats a run of messages with the same mark. A long run loses its middle.
fn shortened(run: &[DiffLine<'_>], room: usize) -> Vec<String> {
    let (most, ends) = match run[0].mark {
        DiffMark::Kept => (FEW, 1),
        DiffMark::Gone => (MANY, MANY / 4),
        // Added messages are the point of the diff, so all of them are shown.
        DiffMark::Come => (usize::MAX, 0),
    };
    if run.len() <= most {
        return run.iter().map(|line| line.line(room)).collect();
    }
    let middle = &run[ends..run.len() - ends];
    let bytes = size(middle.iter().map(|line| line.message.bytes).sum());
    let summary = match run[0].mark {
        DiffMark::Gone => format!("  - … {} more messages, {bytes}", middle.len()),
        _ => format!("    … {} more messages, {bytes}, unchanged", middle.len()),
    };
    let lines = |some: &[DiffLine<'_>]| some.iter().map(|line| line.line(room)).collect::<Vec<_>>();
    let dimmed = Style::new().dimmed();
    let mut out = lines(&run[..ends]);
    out.push(format!("{dimmed}{summary}{dimmed:#}"));
    out.extend(lines(&run[run.len() - ends..]));
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffMark {
    Kept,
    Gone,
    Come,
}

struct DiffLine<'a> {
    mark: DiffMark,
    message: &'a MessageSummary,
    why: Option<&'static str>,
}

impl<'a> DiffLine<'a> {
    fn gone(message: &'a MessageSummary, why: &'static str) -> Self {
        Self {
            mark: DiffMark::Gone,
            message,
            why: Some(why),
        }
    }

    fn sent(message: &'a MessageSummary) -> Self {
        Self {
            mark: match message.state {
                MessageState::Kept => DiffMark::Kept,
                _ => DiffMark::Come,
            },
            message,
            why: message.why.map(why),
        }
    }
}

/// Merges both sides into one order, with removed messages before their replacement.
fn merged<'a>(
    received: &'a [MessageSummary],
    states: &[MessageState],
    sent: &'a [MessageSummary],
) -> Vec<DiffLine<'a>> {
    let mut out = Vec::new();
    let mut theirs = received.iter().zip(states).peekable();
    // The final `None` flushes the received messages after the last sent one.
    for ours in sent.iter().map(Some).chain([None]) {
        while let Some((message, state)) =
            theirs.next_if(|(_, state)| ours.is_none() || **state != MessageState::Kept)
        {
            match state {
                MessageState::Kept => {}
                MessageState::Changed => out.push(DiffLine::gone(message, "changed")),
                _ => out.push(DiffLine::gone(message, "cut")),
            }
        }
        // A kept message is on both sides and is shown once.
        if ours.is_some_and(|ours| ours.state == MessageState::Kept) {
            theirs.next();
        }
        out.extend(ours.map(DiffLine::sent));
    }
    out
}

/// Compares the system prompt and the tools of both sides.
fn side_by_side<'a>(received: &'a [MessageSummary], sent: &'a [MessageSummary]) -> Vec<DiffLine<'a>> {
    let cut = received.iter().filter(|m| m.state == MessageState::Cut);
    let gone = cut.map(|message| DiffLine::gone(message, "left out"));
    let come = sent.iter().map(|message| match message.state {
        MessageState::Changed => DiffLine {
            why: Some("changed"),
            ..DiffLine::sent(message)
        },
        _ => DiffLine::sent(message),
    });
    gone.chain(come).collect()
}

/// Describes token counts. The three parts of the input add up to its total.
fn tokens(t: Usage) -> String {
    format!(
        "{} in ({} new, {} from cache, {} into cache), {} out",
        short(t.all_input()),
        short(t.input),
        short(t.cache_read),
        short(t.cache_write),
        short(t.output)
    )
}

fn why(why: baton_core::rewrite::ChangeReason) -> &'static str {
    use baton_core::rewrite::ChangeReason;
    match why {
        ChangeReason::Cut => "carry-over",
        ChangeReason::Preamble => "preamble",
        ChangeReason::Pair => "hidden call restored",
        ChangeReason::Thinking => "refused thinking left out",
        ChangeReason::Unescaped => "escaped text restored",
        ChangeReason::Tool => "tool",
        ChangeReason::AskAgain => "asked again",
        ChangeReason::Reference => "reference",
        ChangeReason::Inserted => "inserted text",
        ChangeReason::Note => "commands left out",
        ChangeReason::Previous => "previous response",
        ChangeReason::History => "provider's storage left out",
        ChangeReason::Draft => "draft",
        ChangeReason::Model => "another model",
    }
}

impl DiffLine<'_> {
    fn line(&self, room: usize) -> String {
        let (sign, style) = match self.mark {
            DiffMark::Kept => (' ', Style::new()),
            DiffMark::Gone => ('-', Style::new().dimmed()),
            DiffMark::Come => ('+', Style::new().fg_color(Some(AnsiColor::Green.into()))),
        };
        let message = self.message;
        let why = self.why.map(|why| format!("  ({why})")).unwrap_or_default();
        // Most messages are text, so only other kinds are named.
        let kind = if message.kind == "text" { "" } else { &message.kind };
        format!(
            "{style}  {sign} {:<9} {:<11} {:>9}  {}{why}{style:#}",
            first_line(&message.role, Some(9)),
            first_line(kind, Some(11)),
            size(message.bytes),
            first_line(&message.first_line, Some(room)),
        )
    }
}

/// Prefix of the placeholder that the journal writes for a redacted value.
const REDACTED: &str = "[redacted:";

/// Headers that curl sets itself.
const OF_THE_CLIENT: [&str; 6] = [
    "host",
    "content-length",
    "accept-encoding",
    "connection",
    "content-encoding",
    "user-agent",
];

/// Formats a shell line that sends the request of a leg again, with the body from `baton show`.
fn curl_line(args: &ShowExchangeArgs, config: &Config, exchange: &ExchangeDetail) -> CliResult<String> {
    let row = &exchange.exchange;
    // Legs count from 1 for users and from 0 in the file.
    let leg = args.leg.unwrap_or(1) - 1;
    let sent = exchange.legs.iter().find(|found| found.n == leg);
    let sent = sent.ok_or_else(|| Exit::NO_INPUT.failure("nothing was sent upstream in this exchange"))?;
    let url = sent.sent.url.as_str();
    let method = row.route.as_deref().and_then(|route| route.split_once(' '));
    let quoted = |word: &str| ShellSyntax::Sh.quoted(word);
    let mut line = format!(
        "baton show {} --sent --leg {}{} | curl -sS -X {} {}",
        row.id,
        leg + 1,
        args.state.options(),
        quoted(method.map_or("POST", |(method, _)| method)),
        quoted(&[url, query(url)].concat())
    );
    for (name, value) in &sent.sent.headers {
        // A redacted header would send the placeholder itself, so it is left out like a credential.
        let credential = CREDENTIAL_HEADERS.contains(&name.as_str()) || value.contains(REDACTED);
        if !credential && !OF_THE_CLIENT.contains(&name.as_str()) {
            line.push_str(&format!(" -H {}", quoted(&format!("{name}: {value}"))));
        }
    }
    if let Some((variable, KeyHeader { name, prefix })) = key(config, exchange, url) {
        line.push_str(&format!(" -H \"{name}: {prefix}${variable}\""));
    }
    line.push_str(" --data-binary @-");
    Ok(line)
}

/// Returns the variable that usually holds the key for the exchange's wire, and the header for that key.
fn key(config: &Config, exchange: &ExchangeDetail, url: &str) -> Option<(&'static str, KeyHeader)> {
    let row = &exchange.exchange;
    let wire = wire(WireId::named(row.wire.as_deref()?)?);
    let upstream = config.upstreams.get(row.upstream.as_deref()?);
    let path = upstream.and_then(|upstream| url.strip_prefix(&upstream.base_url));
    let variable = wire.key_variables.first()?;
    Some((variable, wire.key_header(path.unwrap_or(url), "")))
}

/// Returns the query to append to a journaled URL. The journal stores no queries, and without `alt=sse` Gemini would
/// not stream events.
fn query(url: &str) -> &'static str {
    if url.ends_with(":streamGenerateContent") {
        "?alt=sse"
    } else {
        ""
    }
}
