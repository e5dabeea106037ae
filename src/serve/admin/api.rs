//! Read-only part of the inspector's JSON API, which `docs/inspector-api.md` documents.

use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::error::{AnyResponse, ApiError, ApiResult, TEXT, respond};
use super::query::{QueryParams, read, read_one, shown};
use super::{AdminState, api_drafts, api_handoffs};
use crate::state::clock::now_ms;
use crate::state::journal::{
    BillFilter, BillGroup, BodySide, ExchangeFilter, ExchangeRow, JournalReader, LiveEvent, RowFilter,
    RowQuery, SavingsReport,
};
use baton_core::text::date::PeriodStart;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};

/// Answers `/api/{path}?{query}`.
pub(super) async fn answer(state: &AdminState, path: &str, query: Option<&str>) -> ApiResult {
    let params = &QueryParams::parse(query.unwrap_or_default());
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["status"] => status(state).await,
        ["conversations"] => conversations(state, params).await,
        ["conversations", key] => conversation(state, key).await,
        ["exchanges"] => exchanges(state, params).await,
        ["exchanges", id] => exchange(state, id).await,
        ["exchanges", id, "message"] => message(state, id, params).await,
        ["exchanges", id, "live"] => live(state, id).await,
        ["exchanges", id, "har"] => har(state, id).await,
        ["exchanges", id, side] => body(state, id, side, params).await,
        ["handoffs"] => api_handoffs::list(state, params).await,
        ["handoffs", id] => api_handoffs::one(state, id).await,
        ["drafts"] => api_drafts::list(state),
        ["drafts", id] => api_drafts::one(state, id).await,
        ["savings"] => savings(state, params).await,
        ["search"] => search(state, params).await,
        _ => Err(ApiError::NO_PATH),
    }
}

async fn status(state: &AdminState) -> ApiResult {
    let totals = read(state, JournalReader::totals).await?.unwrap_or_default();
    let handoffs = api_handoffs::all(state, None, 0).await?;
    shown(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": state.started.elapsed().as_secs(),
        "store": state.store.kind(),
        "instance": state.instance,
        "journal": {
            // Without a proxy the page shows a stored journal, which counts as enabled.
            "enabled": state.journal.is_on() || state.data_listener.is_none(),
            "exchanges": totals.exchanges,
            "bytes": totals.bytes,
            "dropped": state.journal.dropped(),
        },
        "data_listener": state.data_listener.map(|address| address.to_string()),
        "read_only": state.data_listener.is_none(),
        "conversations": totals.conversations,
        "handoffs": handoffs.len(),
        "received_bytes": totals.received_bytes,
        "sent_bytes": totals.sent_bytes,
        "unsent_tokens": totals.unsent_tokens,
        "failures": totals.failures,
        "command_prefix": state.config.commands.prefix,
        "filter_words": RowFilter::names()[0],
        "drafts": api_drafts::open(state),
    }))
}

async fn conversations(state: &AdminState, params: &QueryParams) -> ApiResult {
    let limit = params.limit()?;
    let all = read(state, move |q| q.conversations(None, limit)).await?;
    shown(&json!({"conversations": all.unwrap_or_default()}))
}

async fn conversation(state: &AdminState, key: &str) -> ApiResult {
    let wanted = key.to_owned();
    let found = read(state, move |q| {
        let exchanges = q.list(&ExchangeFilter::newest(Some(&wanted), 0))?;
        Ok((q.conversations(Some(&wanted), 1)?.pop(), exchanges))
    });
    let Some((Some(conversation), mut exchanges)) = found.await? else {
        return Err(ApiError::NOT_IN_JOURNAL);
    };
    // The journal lists the newest exchange first, but the page shows the oldest first.
    exchanges.reverse();
    let handoffs = api_handoffs::all(state, Some(key), 0).await?;
    // After a restart, a draft in review may be only in the store.
    state.drafting.restored_in(&state.store, key).await?;
    let draft = state.drafting.newest_in(key);
    let record = state.store.conversation(key).await?;
    shown(&json!({
        "conversation": conversation,
        "limits": limits(state, exchanges.last()),
        "exchanges": exchanges,
        "handoffs": handoffs,
        "draft": draft.as_ref().map(api_drafts::value),
        "active": record.and_then(|record| record.active),
    }))
}

/// Window of a conversation's model, and its nudge threshold in tokens.
///
/// Each is null if there is none.
fn limits(state: &AdminState, newest: Option<&ExchangeRow>) -> Value {
    let window = newest.and_then(|row| {
        let (model, agent) = (row.model.as_deref(), row.event.agent.as_deref());
        let windows = &state.config.handoff.windows;
        windows.in_agent(model.unwrap_or_default(), agent.unwrap_or_default())
    });
    json!({"window_tokens": window, "nudge_tokens": state.config.handoff.thresholds.of(window).nudge})
}

async fn exchanges(state: &AdminState, params: &QueryParams) -> ApiResult {
    let range = ExchangeFilter {
        conversation: params.text("conversation"),
        before: params.text("before"),
        limit: params.limit()?,
        ..ExchangeFilter::default()
    };
    let filter = RowFilter::parse(&params.text("filter").unwrap_or_default())?;
    let (prices, prefix) = (state.prices.clone(), state.config.commands.prefix.clone());
    let rows = read(state, move |q| {
        q.filtered(&RowQuery {
            range,
            filter: &filter,
            prices: &prices,
            command_prefix: &prefix,
            now_ms: now_ms(),
        })
    });
    let rows = rows.await?;
    shown(&json!({"exchanges": rows.unwrap_or_default()}))
}

async fn exchange(state: &AdminState, id: &str) -> ApiResult {
    let exchange = read_one(state, id, ApiError::NO_EXCHANGE, JournalReader::exchange).await?;
    let event = &exchange.exchange.event;
    let ids: Vec<_> = event.pinned.iter().chain(&event.fired).cloned().collect();
    let handoffs = api_handoffs::named(state, &ids).await?;
    let mut value = serde_json::to_value(&exchange).map_err(ApiError::unavailable)?;
    value["handoffs"] = json!(handoffs);
    shown(&value)
}

async fn message(state: &AdminState, id: &str, params: &QueryParams) -> ApiResult {
    let side = match params.text("side").as_deref() {
        Some("received") => BodySide::Received,
        Some("sent") => BodySide::Sent(params.leg()?),
        _ => return Err(ApiError::SIDE),
    };
    let i = params.number("i")?.ok_or(ApiError::NO_POSITION)?;
    let envelope = params.text("of").as_deref() == Some("envelope");
    let found = read_one(state, id, ApiError::NO_MESSAGE, move |q, id| match envelope {
        true => q.envelope_row(id, side, i),
        false => q.message(id, side, i),
    });
    shown(&found.await?)
}

async fn body(state: &AdminState, id: &str, side: &str, params: &QueryParams) -> ApiResult {
    let side = match side {
        "received" => BodySide::Received,
        "sent" => BodySide::Sent(params.leg()?),
        "response" => BodySide::Response(params.leg()?),
        "shown" => BodySide::Shown,
        _ => return Err(ApiError::NO_PATH),
    };
    let body = read_one(state, id, ApiError::NO_BODY, move |q, id| q.body(id, side)).await?;
    Ok(respond(StatusCode::OK, TEXT, body))
}

/// Returns the part of a running response that has arrived.
async fn live(state: &AdminState, id: &str) -> ApiResult {
    let row = read_one(state, id, ApiError::NO_EXCHANGE, JournalReader::row).await?;
    match row.open {
        // The journal has the response of an exchange that has ended.
        false => shown(&json!({"open": false, "parts": []})),
        true => shown(&json!({"open": true, "parts": state.journal.live_answer(id)})),
    }
}

async fn har(state: &AdminState, id: &str) -> ApiResult {
    let har = read_one(state, id, ApiError::NO_EXCHANGE, JournalReader::har).await?;
    let mut answer = shown(&har)?;
    // The name does not contain the id, which is untrusted text from the path.
    let file = HeaderValue::from_static("attachment; filename=\"exchange.har\"");
    answer.headers_mut().insert(CONTENT_DISPOSITION, file);
    Ok(answer)
}

async fn search(state: &AdminState, params: &QueryParams) -> ApiResult {
    let wanted = params.text("q").ok_or(ApiError::NO_QUERY)?;
    let limit = params.limit()?;
    let found = read(state, move |q| q.search(&wanted, limit)).await?;
    shown(&found.unwrap_or_default())
}

/// Answers `/api/savings?by=&since=&conversation=`.
async fn savings(state: &AdminState, params: &QueryParams) -> ApiResult {
    let by = params.text("by").unwrap_or_else(|| "day".to_owned());
    let group = BillGroup::named(&by).ok_or_else(|| {
        let why = format!("by: {by:?} is not one of day, model, conversation, handoff, client");
        ApiError::bad(why)
    })?;
    let start = |text: String| {
        let why = format!("since: {text:?} is not {}", PeriodStart::SPELLINGS);
        PeriodStart::parse(&text).ok_or_else(|| ApiError::bad(why))
    };
    let since = params.text("since").map(start).transpose()?;
    let filter = BillFilter {
        conversation: params.text("conversation"),
        since_ms: since.map_or(0, |start| start.at_ms(now_ms())),
    };
    let prices = state.prices.clone();
    let report = read(state, move |q| {
        let (bill, stopped) = (q.bill(&filter, &prices)?, q.stopped(&filter)?);
        Ok(SavingsReport::new(&bill, stopped, group, &prices))
    });
    let report = report.await?;
    let report = report.unwrap_or_else(|| SavingsReport::new(&[], 0, group, &state.prices));
    shown(&report)
}

/// Interval of keep-alive comments, so that no intermediary closes the connection.
const QUIET: Duration = Duration::from_secs(15);

/// Maximum number of events buffered for a slow reader.
const WAITING: usize = 64;

/// Streams events until the reader leaves or the listener closes.
pub(super) fn events(state: &AdminState, closing: watch::Receiver<bool>) -> ApiResult<AnyResponse> {
    // Without a proxy there is nothing to report.
    if state.data_listener.is_none() {
        return Err(ApiError::NO_PROXY);
    }
    let live = state.journal.watch().ok_or(ApiError::JOURNAL_OFF)?;
    let (out, mut events) = mpsc::channel(WAITING);
    tokio::spawn(tell(live, state.config.state_dir.clone(), out, closing));
    let events = stream::poll_fn(move |cx| events.poll_recv(cx));
    let frames = events.map(|event| Ok::<_, Infallible>(Frame::data(event)));
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(answer)
}

async fn tell(
    mut live: tokio::sync::broadcast::Receiver<LiveEvent>,
    dir: PathBuf,
    out: mpsc::Sender<Bytes>,
    mut closing: watch::Receiver<bool>,
) {
    // Sent at once, so that the reader knows that it is connected.
    let mut next = Some(Bytes::from_static(b": hello\n\n"));
    loop {
        if let Some(event) = next.take()
            && out.send(event).await.is_err()
        {
            return;
        }
        tokio::select! {
            () = out.closed() => return,
            () = closed(&mut closing) => return,
            news = live.recv() => match news {
                Ok(news) => next = event(news, dir.clone()).await,
                // The reader was too slow and missed events, so the page reloads its list.
                Err(RecvError::Lagged(missed)) => next = Some(format!("event: missed\ndata: {missed}\n\n").into()),
                Err(RecvError::Closed) => return,
            },
            () = tokio::time::sleep(QUIET) => next = Some(Bytes::from_static(b": still here\n\n")),
        }
    }
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closed| *closed).await;
}

async fn event(news: LiveEvent, dir: PathBuf) -> Option<Bytes> {
    let (name, data) = match news {
        LiveEvent::Begun {
            id,
            conversation,
            at_ms,
        } => {
            let begun = json!({"id": id, "conversation": conversation, "at_ms": at_ms});
            ("begun", begun.to_string())
        }
        LiveEvent::Draft { run } => ("draft", json!({"run": run}).to_string()),
        LiveEvent::Handoff(event) => ("handoff", serde_json::to_string(&event).ok()?),
        LiveEvent::Ended { id } => {
            // The event has only the id. SQLite blocks, so the row is read on another thread.
            let row = tokio::task::spawn_blocking(move || JournalReader::open(&dir).ok()??.row(&id).ok()?);
            ("exchange", serde_json::to_string(&row.await.ok()??).ok()?)
        }
    };
    Some(format!("event: {name}\ndata: {data}\n\n").into())
}
