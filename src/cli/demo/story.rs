//! Plays the script through the real proxy, and measures received and sent requests with their cost.
//!
//! As real agents do, the scripted one sends its whole history with each request, and does not depend on the
//! proxy.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde_json::{Value, json};

use super::script::{self, Provider, SCRIPT};
use crate::cli::exit::{CliResult, CommandFailure, Exit};
use baton_core::bill::{CacheRule, PriceQuery, RequestSegment, SimulatedCache};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::marker::seal::SealKey;
use baton_serve::app::App;
use baton_serve::proxy::server;
use baton_serve::service;
use baton_state::config::{Config, Environment, Flags};
use baton_state::prices;
use baton_state::store::sqlite::SqliteStore;
use baton_state::store::{HandoffFilter, SharedStore};

/// The measured run. The field names are public API.
#[derive(Debug, Default, Serialize)]
pub(super) struct DemoRun {
    pub(super) seconds: f64,
    pub(super) totals: DemoTotals,
    pub(super) turns: Vec<MeasuredTurn>,
    /// Handoffs in the store, oldest first.
    pub(super) handoffs: Vec<DemoHandoff>,
}

/// A request of the agent, with its legs.
#[derive(Debug, Serialize)]
pub(super) struct MeasuredTurn {
    pub(super) turn: usize,
    pub(super) received_bytes: usize,
    /// Size of each leg. A second leg follows a handoff.
    pub(super) sent_bytes: Vec<usize>,
}

/// A handoff from the store.
#[derive(Debug, Serialize)]
pub(super) struct DemoHandoff {
    pub(super) id: String,
    pub(super) reason: Option<String>,
    pub(super) prompt: String,
}

/// Sums over all requests.
#[derive(Debug, Default, Serialize)]
pub(super) struct DemoTotals {
    pub(super) requests: usize,
    pub(super) legs: usize,
    pub(super) received_bytes: usize,
    pub(super) sent_bytes: usize,
    /// Net bytes; negative if baton sent more than the agent did.
    pub(super) unsent_bytes: i64,
    /// Estimate: four bytes of JSON make about one token.
    pub(super) unsent_tokens: i64,
    /// Simulated cost; `None` if the prices are unknown.
    pub(super) cost: Option<DemoCost>,
}

/// Cost of all requests in US dollars, without the output, which is the same in both sessions.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct DemoCost {
    /// Model whose prices are used.
    pub(super) model: &'static str,
    /// Cost of the requests that the proxy sent.
    pub(super) with: f64,
    /// Cost of the requests that the agent sent.
    pub(super) without: f64,
}

/// Plays the script and returns the measurements.
pub(super) async fn play() -> CliResult<DemoRun> {
    let began = Instant::now();
    let provider = Provider::start().await.map_err(broken)?;
    let store: SharedStore = Arc::new(SqliteStore::in_memory().map_err(broken)?);
    let mut agent = Agent::new(proxy(provider.address, &store)?);
    let mut story = DemoRun::default();
    // Each turn: the agent's request, and the requests sent for it.
    let mut turns: Vec<(Bytes, Vec<Bytes>)> = Vec::new();
    let mut done = false;
    while !done {
        let received;
        (received, done) = agent.ask().await?;
        let seen = turns.iter().map(|(_, sent)| sent.len()).sum();
        turns.push((received, provider.received(seen)));
    }
    for (turn, (received, sent)) in turns.iter().enumerate() {
        story.measure(turn + 1, received.len(), sent.iter().map(Bytes::len).collect());
    }
    story.handoffs = handoffs(&store).await?;
    story.totals.cost = cost(&turns, &story.handoffs);
    story.seconds = began.elapsed().as_secs_f64();
    Ok(story)
}

/// Starts the proxy for an upstream, with the default config on a free port.
///
/// The process's environment and config files have no effect. The proxy ends with the runtime.
pub(super) fn proxy(upstream: SocketAddr, store: &SharedStore) -> CliResult<SocketAddr> {
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nkind = \"memory\"\n[state]\ndir = \".\"\n\
         [upstreams.anthropic]\nbase_url = \"http://{upstream}\"\n"
    );
    let config = Config::from_text(Some(("demo", &text)), &Environment::default(), &Flags::default());
    let config =
        config.map_err(|problems| broken(problems.iter().map(ToString::to_string).collect::<String>()))?;
    let bound = server::bind(&config).map_err(broken)?;
    let address = bound.addr();
    let seal = SealKey::new(*b"a key for the time of a demo");
    let app = Arc::new(App::new(config, Arc::clone(store), seal)?);
    let gateway = Arc::new(service::gateway(&app, Arc::new(|_| ()))?);
    tokio::spawn(bound.run(
        server::slot(gateway),
        Box::pin(std::future::pending()),
        Arc::default(),
    ));
    Ok(address)
}

async fn handoffs(store: &SharedStore) -> CliResult<Vec<DemoHandoff>> {
    let newest_first = store.handoffs(&HandoffFilter::default()).await.map_err(broken)?;
    let handoffs = newest_first.into_iter().rev().map(|handoff| DemoHandoff {
        id: handoff.id.to_string(),
        reason: handoff.reason,
        prompt: handoff.prompt,
    });
    Ok(handoffs.collect())
}

impl DemoRun {
    fn measure(&mut self, turn: usize, received_bytes: usize, sent_bytes: Vec<usize>) {
        let totals = &mut self.totals;
        totals.requests += 1;
        totals.legs += sent_bytes.len();
        totals.received_bytes += received_bytes;
        totals.sent_bytes += sent_bytes.iter().sum::<usize>();
        totals.unsent_bytes = totals.received_bytes as i64 - totals.sent_bytes as i64;
        totals.unsent_tokens = totals.unsent_bytes / BYTES_PER_TOKEN as i64;
        self.turns.push(MeasuredTurn {
            turn,
            received_bytes,
            sent_bytes,
        });
    }
}

/// The scripted agent with its history.
pub(super) struct Agent {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    history: Vec<Value>,
}

impl Agent {
    /// Creates an agent whose base URL is `address`.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            address,
            history: vec![json!({"role": "user", "content": SCRIPT.opening})],
        }
    }

    /// Sends the history, appends the response, and runs the tools that it calls.
    ///
    /// The request does not stream, because a response in one piece shows the same cut. Returns the request's body,
    /// and whether the script is finished.
    pub(super) async fn ask(&mut self) -> CliResult<(Bytes, bool)> {
        let mut body = SCRIPT.request.clone();
        body["messages"] = self.history.as_slice().into();
        let body = Bytes::from(body.to_string());
        let request = Request::post(format!("http://{}/v1/messages", self.address))
            .header("content-type", "application/json")
            // Names the session, so that its requests belong to one conversation.
            .header("x-session-id", "demo")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "sk-demo")
            .body(Full::new(body.clone()));
        let response = self.client.request(request.map_err(broken)?).await;
        let response = response.map_err(broken)?;
        let reply = response.into_body().collect().await.map_err(broken)?.to_bytes();
        let reply: Value = serde_json::from_slice(&reply).unwrap_or_default();
        let Some(blocks) = reply["content"].as_array() else {
            return Err(broken(reply));
        };
        let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
        let results: Vec<_> = calls.map(script::result).collect();
        let done = results.is_empty();
        self.history.push(json!({"role": "assistant", "content": blocks}));
        if !done {
            self.history.push(json!({"role": "user", "content": results}));
        }
        Ok((body, done))
    }
}

/// Failure of a part of the demo.
fn broken(error: impl ToString) -> CommandFailure {
    Exit::SOFTWARE.failure(format!("the demo failed: {}", error.to_string()))
}

/// Model whose prices and cache rule are used.
const MODEL: &str = "claude-opus-5-5";

/// Fixed date of the prices, so that the demo costs the same every day.
const NOVEMBER_23: u64 = 1_795_435_200_000;

/// Pause between two requests. It is short enough to keep the cache warm.
const PAUSE_MS: u64 = 60_000;

/// Adds up the cost of the requests in sending order. `None` if the embedded table lacks the model.
fn cost(turns: &[(Bytes, Vec<Bytes>)], handoffs: &[DemoHandoff]) -> Option<DemoCost> {
    let query = PriceQuery {
        model: MODEL,
        at_ms: NOVEMBER_23,
        ..PriceQuery::default()
    };
    let rates = prices::table(None).ok()?.rates(&query)?;
    let cache = SimulatedCache::new(CacheRule::for_model(MODEL, false), rates.write_is_billed);
    let (mut cache_with, mut cache_without) = (cache.clone(), cache);
    let tokens = |handoff: &DemoHandoff| handoff.prompt.len() as u64 / BYTES_PER_TOKEN;
    let mut prompts = handoffs.iter().map(tokens);
    let mut cost = DemoCost {
        model: MODEL,
        ..DemoCost::default()
    };
    for ((received, sent), at_ms) in turns.iter().zip((PAUSE_MS..).step_by(PAUSE_MS as usize)) {
        let without = cache_without.send(at_ms, &segments(received), 0);
        cost.without += without.cost(&rates).total();
        for (leg, body) in sent.iter().enumerate() {
            // A leg with a successor has written a carry-over prompt.
            let prompt = (leg + 1 < sent.len()).then(|| prompts.next()).flatten();
            let with = cache_with.send(at_ms, &segments(body), prompt.unwrap_or_default());
            cost.with += with.cost(&rates).total();
        }
    }
    Some(cost)
}

/// Splits a request into the system prompt with the tools, and the messages.
fn segments(body: &Bytes) -> Vec<RequestSegment> {
    let segment = |content: &Value| {
        let content = content.to_string();
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        RequestSegment {
            id: hasher.finish(),
            tokens: content.len() as u64 / BYTES_PER_TOKEN,
        }
    };
    let mut request: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = request["messages"].take();
    let messages = messages.as_array().map_or(&[][..], Vec::as_slice);
    std::iter::once(&request).chain(messages).map(segment).collect()
}
