//! `baton replay`: sends a journaled request once more and shows in what the answers differ.

mod answer;
mod arms;
mod asked;
mod request;

use anstyle::{AnsiColor, Style};
use bytes::Bytes;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use self::answer::{PricedAt, ReplayAnswer};
use self::request::{ReplayRequest, RequestChoice};
use super::exit::{CommandFailure, Exit};
use super::load_state;
use super::log::{open, unread};
use super::output::{Out, short, visible};
use super::replay_args::ReplayArgs;
use super::show::find_exchange;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::Upstreams;
use crate::state::config::Config;
use crate::state::journal::{BodySide, JournalReader, now_ms};
use crate::state::prices;

/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 << 20;

/// Lines that stay around a difference.
const CONTEXT: usize = 2;

/// The output of `--json`. The names are API.
#[derive(Serialize)]
struct ReplayOutput {
    exchange: String,
    leg: u32,
    received: bool,
    upstream: String,
    request_bytes: usize,
    then: ReplayAnswer,
    now: ReplayAnswer,
    /// Whether the texts and calls are the same.
    same: bool,
}

pub(super) fn run(args: &ReplayArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let config = load_state(&args.state)?;
    let journal = open(&config.state_dir)?;
    let query = journal.ok_or_else(|| CommandFailure::new(Exit::NO_INPUT, "nothing in the journal yet"))?;
    let table = prices::table(config.bill.prices.as_deref())
        .map_err(|error| CommandFailure::new(Exit::CONFIG, error))?;
    if !args.arms.is_empty() {
        return arms::run(args, &config, &query, &table, out);
    }
    let id = find_exchange(&query, &args.exchange)?;
    let exchange = query.exchange(&id).map_err(unread)?;
    let exchange = exchange
        .ok_or_else(|| CommandFailure::new(Exit::NO_INPUT, "the exchange is gone from the journal"))?;
    let choice = RequestChoice {
        received: args.received,
        leg: args.leg,
        to: args.to.as_deref(),
        model: args.model.as_deref(),
    };
    let request = ReplayRequest::of(&choice, &config, &query, &exchange)?;
    let upstream = request.upstream(&config)?;
    if args.dry_run {
        let body_by = body_command(args, &id);
        out.line(format_args!("{}", request.curl(upstream, &body_by)))?;
        return Ok(());
    }
    let headers = request.headers(upstream, |name| std::env::var(name).ok())?;
    let (status, body) = runtime()?.block_on(send(&config, &request, headers))?;

    let row = &exchange.exchange;
    let n = args.leg - 1;
    let then = exchange
        .legs
        .iter()
        .find(|leg| leg.n == n)
        .and_then(|leg| leg.response.status);
    let read = |status, body: &Bytes, at_ms| {
        ReplayAnswer::read(&request, status, body, PricedAt { table: &table, at_ms })
    };
    let output = ReplayOutput {
        leg: args.leg,
        received: args.received,
        upstream: request.upstream.clone(),
        request_bytes: request.body.len(),
        then: read(then.unwrap_or_default(), &recorded(&query, &id, n)?, row.at_ms),
        now: read(status, &body, now_ms()),
        same: false,
        exchange: id,
    };
    let output = ReplayOutput {
        same: output.then.text == output.now.text,
        ..output
    };
    if args.json {
        return Ok(out.json(&output)?);
    }
    for line in lines(&output) {
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| CommandFailure::new(Exit::SOFTWARE, error.to_string()))
}

/// The command that prints the same body.
fn body_command(args: &ReplayArgs, id: &str) -> String {
    if args.received {
        format!("baton show {id} --received")
    } else {
        format!("baton show {id} --sent --leg {}", args.leg)
    }
}

/// What came then: the answer to the leg.
fn recorded(query: &JournalReader, id: &str, leg: u32) -> Result<Bytes, CommandFailure> {
    let body = query.body(id, BodySide::Response(leg)).map_err(unread)?;
    Ok(Bytes::from(body.unwrap_or_default()))
}

async fn send(
    config: &Config,
    request: &ReplayRequest,
    headers: http::HeaderMap,
) -> Result<(u16, Bytes), CommandFailure> {
    let unavailable = |detail: String| CommandFailure::new(Exit::UNAVAILABLE, visible(&detail));
    let upstreams = Upstreams::new(config).map_err(|error| unavailable(error.to_string()))?;
    let upstream = upstreams
        .get(&request.upstream)
        .ok_or_else(|| CommandFailure::new(Exit::SOFTWARE, "the upstream is gone"))?;
    let again = headers.clone();
    let body = RopeBody::from(request.body.clone());
    let response = upstream.send(&request.method, &request.target, headers, || again, body);
    let response = response.await.map_err(|fault| {
        unavailable(format!(
            "{}: {}: {}",
            request.upstream, fault.code.name, fault.detail
        ))
    })?;
    let (head, body) = response.into_parts();
    let mut body = body
        .decoded(&head.headers)
        .map_err(|_| unavailable("the answer has an unknown content-encoding".to_owned()))?;
    let mut all = Vec::new();
    while let Some(piece) = body.next().await {
        all.extend_from_slice(&piece.map_err(|fault| unavailable(fault.to_string()))?);
        if all.len() > ANSWER_BYTES {
            return Err(unavailable(format!(
                "the answer is over {} MiB",
                ANSWER_BYTES >> 20
            )));
        }
    }
    Ok((head.status.as_u16(), Bytes::from(all)))
}

fn lines(output: &ReplayOutput) -> Vec<String> {
    let what = if output.received {
        "what the agent sent".to_owned()
    } else {
        format!("leg {}", output.leg)
    };
    let mut lines = vec![format!(
        "exchange {}, {what}, sent again to {}",
        output.exchange,
        visible(&output.upstream)
    )];
    lines.extend(
        [("then", &output.then), ("now", &output.now)].map(|(name, answer)| answer_line(name, answer)),
    );
    lines.push(String::new());
    if output.same {
        lines.push("The answers are the same.".to_owned());
        return lines;
    }
    let diff = TextDiff::from_lines(&output.then.text, &output.now.text);
    for group in diff.grouped_ops(CONTEXT) {
        for op in group {
            lines.extend(diff.iter_changes(&op).map(|change| {
                let (sign, colour) = match change.tag() {
                    ChangeTag::Delete => ("-", Some(AnsiColor::Red)),
                    ChangeTag::Insert => ("+", Some(AnsiColor::Green)),
                    ChangeTag::Equal => (" ", None),
                };
                let style = Style::new().fg_color(colour.map(Into::into));
                format!(
                    "{style}{sign} {}{style:#}",
                    visible(change.value().trim_end_matches('\n'))
                )
            }));
        }
    }
    lines
}

fn answer_line(name: &str, answer: &ReplayAnswer) -> String {
    let model = if answer.model.is_empty() {
        "-"
    } else {
        &answer.model
    };
    let cost = answer.cost.map_or(String::new(), |cost| format!(", ${cost:.4}"));
    format!(
        "  {name:<5} {} {}: {} input, {} of it cached, {} output{cost}, stop: {}",
        answer.status,
        visible(model),
        short(answer.tokens.whole_input()),
        short(answer.tokens.cache_read),
        short(answer.tokens.output),
        answer.stop
    )
}
