//! Live updates of the journal as server-sent events.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};

use super::AdminState;
use super::error::ApiError;
use super::responses::AnyResponse;
use crate::state::journal::{JournalReader, LiveEvent};

/// Interval of keep-alive comments, so that no intermediary closes the connection.
const QUIET: Duration = Duration::from_secs(15);

/// Maximum number of events buffered for a slow reader.
const WAITING: usize = 64;

/// Streams events until the reader leaves or the listener closes.
pub(super) fn answer(state: &AdminState, closing: watch::Receiver<bool>) -> Result<AnyResponse, ApiError> {
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
        } => (
            "begun",
            json!({"id": id, "conversation": conversation, "at_ms": at_ms}).to_string(),
        ),
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
