//! The scripted provider: responds immediately, as the request's `x-script` header specifies.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::history::{self, Seeded};

/// State shared by the driver and the upstream.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    /// When each event of the paced stream was passed to the socket.
    pub(crate) sent: Arc<Mutex<Vec<Instant>>>,
    /// Time from the end of each hidden call to the request of the next leg.
    pub(crate) gaps: Arc<Mutex<Vec<Duration>>>,
    /// When the hidden call of each running script ended.
    hidden_end: Arc<Mutex<HashMap<String, Instant>>>,
}

pub(crate) const PROMPT: &str = "Go on with the importer: the survey is done.";

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Starts the provider on a separate thread.
pub(crate) fn start(shared: Shared) -> SocketAddr {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let shared = shared.clone();
                let service = service_fn(move |request| answer(request, shared.clone()));
                tokio::spawn(async move {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    });
    told.recv().unwrap()
}

async fn answer(request: Request<Incoming>, shared: Shared) -> Result<Response<Body>, hyper::Error> {
    let arrived = Instant::now();
    let script = request
        .headers()
        .get("x-script")
        .and_then(|v| v.to_str().ok())
        .unwrap_or("fixed")
        .to_owned();
    let mut body = request.into_body();
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        if script.starts_with("handoff")
            && let Some(data) = frame?.data_ref()
        {
            all.extend_from_slice(data);
        }
    }
    let mut words = script.split('=');
    let kind = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|n| n.parse().ok());
    Ok(match kind {
        "burst" => burst(number().unwrap_or(1)),
        "paced" => paced(number().unwrap_or(100), shared.sent),
        "slow" => slow(number().unwrap_or(100), number().unwrap_or(1)),
        "hang" => hang(),
        "handoff" => handoff(&all, arrived, &shared, script.clone()),
        _ => fixed(),
    })
}

fn fixed() -> Response<Body> {
    let body = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"The reader skips the mark now."},{"type":"tool_use","id":"toolu_9","name":"Read","input":{"file_path":"/repo/src/reader.rs"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":15}}"#;
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())).boxed_unsync());
    response
        .headers_mut()
        .insert("content-type", "application/json".parse().unwrap());
    response
}

fn streamed(frames: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures_util::StreamExt as _;
    let body = StreamBody::new(frames.map(|b| Ok(Frame::data(b))));
    let mut response = Response::new(body.boxed_unsync());
    response
        .headers_mut()
        .insert("content-type", "text/event-stream".parse().unwrap());
    response
}

/// Number of events in a burst.
pub(crate) const BURST: usize = 100_000;

/// Sends events as fast as possible, this many in one chunk.
fn burst(per_chunk: usize) -> Response<Body> {
    let mut random = Seeded::new(3);
    let chunk: String = (0..per_chunk)
        .map(|_| history::text_frame(&mut random, 0))
        .collect();
    let chunk = Bytes::from(chunk);
    let start = [history::START.to_owned(), history::block_start(0)].concat();
    let end = [history::block_stop(0), history::ending("end_turn")].concat();
    let all = std::iter::once(Bytes::from(start))
        .chain(std::iter::repeat_n(chunk, BURST / per_chunk))
        .chain([Bytes::from(end)]);
    streamed(futures_util::stream::iter(all))
}

/// Sends one event each millisecond.
fn paced(events: usize, sent: Arc<Mutex<Vec<Instant>>>) -> Response<Body> {
    sent.lock().unwrap().clear();
    let mut random = Seeded::new(4);
    let mut all: Vec<Bytes> = (0..events)
        .map(|_| history::text_frame(&mut random, 0).into())
        .collect();
    all[0] = [history::START.as_bytes(), history::block_start(0).as_bytes()]
        .concat()
        .into();
    all.push(
        [history::block_stop(0), history::ending("end_turn")]
            .concat()
            .into(),
    );
    let frames = futures_util::stream::unfold(all.into_iter(), move |mut left| {
        let sent = sent.clone();
        async move {
            let next = left.next()?;
            if !sent.lock().unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            sent.lock().unwrap().push(Instant::now());
            Some((next, left))
        }
    });
    streamed(frames)
}

/// Sends this many chunks of this many events. Each is sent long after even a slow proxy has forwarded the
/// previous one.
fn slow(chunks: usize, per_chunk: usize) -> Response<Body> {
    use futures_util::StreamExt as _;
    let mut random = Seeded::new(6);
    let chunk = || -> String {
        (0..per_chunk)
            .map(|_| history::text_frame(&mut random, 0))
            .collect()
    };
    let chunks: Vec<String> = std::iter::repeat_with(chunk).take(chunks).collect();
    let start = [history::START.to_owned(), history::block_start(0)].concat();
    let end = [history::block_stop(0), history::ending("end_turn")].concat();
    let all = std::iter::once(start).chain(chunks).chain([end]);
    streamed(futures_util::stream::iter(all).then(async |chunk| {
        tokio::time::sleep(SLOW).await;
        Bytes::from(chunk)
    }))
}

/// Pause between two chunks of a slow stream.
const SLOW: Duration = Duration::from_millis(4);

/// Sends one event and then nothing.
fn hang() -> Response<Body> {
    use futures_util::StreamExt as _;
    let start = [history::START.to_owned(), history::block_start(0)].concat();
    let frames = futures_util::stream::once(async { Bytes::from(start) });
    streamed(frames.chain(futures_util::stream::pending()))
}

/// The model calls baton's tool. After the carry-over prompt it sends a word and ends.
fn handoff(body: &[u8], arrived: Instant, shared: &Shared, script: String) -> Response<Body> {
    if memchr::memmem::find(body, PROMPT.as_bytes()).is_some() {
        if let Some(end) = shared.hidden_end.lock().unwrap().remove(&script) {
            shared.gaps.lock().unwrap().push(arrived - end);
        }
        let mut random = Seeded::new(5);
        let all = [
            history::START.to_owned(),
            history::block_start(0),
            history::text_frame(&mut random, 0),
            history::block_stop(0),
            history::ending("end_turn"),
        ];
        return streamed(futures_util::stream::iter([Bytes::from(all.concat())]));
    }
    let arguments = format!(r#"{{\"prompt\":\"{PROMPT}\"}}"#);
    let call = format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{arguments}\"}}}}\n\n"
    );
    let first = [
        history::START.to_owned(),
        history::call_start(0, "session_handoff"),
        call,
    ]
    .concat();
    let end = [history::block_stop(0), history::ending("tool_use")].concat();
    let hidden_end = shared.hidden_end.clone();
    streamed(futures_util::stream::unfold(0, move |step| {
        let (first, end, hidden_end) = (first.clone(), end.clone(), hidden_end.clone());
        let script = script.clone();
        async move {
            match step {
                0 => Some((Bytes::from(first), 1)),
                1 => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    hidden_end.lock().unwrap().insert(script, Instant::now());
                    Some((Bytes::from(end), 2))
                }
                _ => None,
            }
        }
    }))
}
