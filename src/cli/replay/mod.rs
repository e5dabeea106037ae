//! `baton replay`: sends a journaled request again and shows how the answers differ.

mod answer;
mod arms;
mod request;
mod resent;
mod transport;

use anstyle::{AnsiColor, Style};
use bytes::Bytes;
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use self::answer::{PricedAt, ReplayAnswer};
use self::request::{ReplayRequest, RequestChoice};
use self::transport::{recorded, send};
use super::exit::{CommandFailure, Exit};
use super::log::{open_existing, unread};
use super::output::{Out, short, visible};
use super::replay_args::ReplayArgs;
use super::show::find_exchange;
use super::{load_state, prices, runtime};
use crate::state::clock::now_ms;

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
    let query = open_existing(&config.state_dir)?;
    let table = prices(config.bill.prices.as_deref())?;
    if !args.arms.is_empty() {
        return arms::run(args, &config, &query, &table, out);
    }
    let id = find_exchange(&query, &args.exchange)?;
    let exchange = query.exchange(&id).map_err(unread)?;
    let exchange =
        exchange.ok_or_else(|| Exit::NO_INPUT.failure("the exchange is no longer in the journal"))?;
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
    Ok(out.lines(lines(&output))?)
}

/// The command that prints the same body.
fn body_command(args: &ReplayArgs, id: &str) -> String {
    if args.received {
        format!("baton show {id} --received")
    } else {
        format!("baton show {id} --sent --leg {}", args.leg)
    }
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
