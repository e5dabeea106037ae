//! Plays the script through the real proxy, and measures received and sent requests.
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

use super::script::{self, Provider, blocks};
use crate::cli::exit::{CliResult, CommandFailure, Exit};
use crate::cli::output::first_line;
use crate::serve::app::App;
use crate::serve::proxy::server;
use crate::serve::service;
use crate::state::config::{Config, Environment, Flags};
use crate::state::prices;
use crate::state::store::sqlite::SqliteStore;
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::bill::{CacheRule, PriceQuery, Rates, RequestSegment, SimulatedCache};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::marker::seal::SealKey;
use baton_core::record::WireId;
use baton_core::transcript::{Transcript, TranscriptPart, TranscriptPartKind};
use baton_core::wire::{Operation, Role, wire};

/// The measured run. The field names are public API.
#[derive(Debug, Default, Serialize)]
pub(super) struct DemoRun {
    pub(super) seconds: f64,
    pub(super) totals: DemoTotals,
    pub(super) turns: Vec<MeasuredTurn>,
    /// Handoffs in the store, oldest first.
    pub(super) handoffs: Vec<DemoHandoff>,
    pub(super) example: Option<Example>,
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

/// A request before and after the rewrite: the second one after the last handoff.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    pub(super) turn: usize,
    pub(super) received: Outline,
    pub(super) sent: Outline,
}

/// The beginnings of a request's messages.
#[derive(Debug, Serialize)]
pub(super) struct Outline {
    pub(super) bytes: usize,
    pub(super) messages: usize,
    pub(super) parts: Vec<MessageOutline>,
}

/// A text block, call or result.
#[derive(Debug, Serialize)]
pub(super) struct MessageOutline {
    pub(super) role: &'static str,
    pub(super) kind: &'static str,
    pub(super) bytes: usize,
    pub(super) begins: String,
}

/// Plays the script and returns the measurements.
pub(super) async fn play() -> CliResult<DemoRun> {
    let began = Instant::now();
    let provider = Provider::start().await.map_err(broken)?;
    let store: SharedStore = Arc::new(SqliteStore::in_memory().map_err(broken)?);
    let mut agent = Agent::new(proxy(provider.address, &store)?);
    let mut story = DemoRun::default();
    let mut meter = CostMeter::new();
    let (mut handed_over, mut done) = (0, false);
    while !done {
        let received;
        (received, done) = agent.ask().await?;
        // Only the requests since the previous turn.
        let sent = provider.received(story.totals.legs);
        let prompts = story.handoffs.len();
        story.handoffs = handoffs(&store).await?;
        let prompt = story.handoffs.get(prompts).map_or(0, |new| new.prompt.len());
        if let Some(meter) = &mut meter {
            meter.add(&received, &sent, prompt);
        }
        story.measure(&received, &sent);
        if sent.len() > 1 {
            handed_over = story.turns.len();
        }
        // Each handoff moves this on, so the example comes from after the last one.
        if handed_over > 0 && story.turns.len() == handed_over + 2 {
            let outlines = Outline::from_body(&received).zip(sent.last().and_then(Outline::from_body));
            story.example = outlines.map(|(received, sent)| Example {
                turn: story.turns.len(),
                received,
                sent,
            });
        }
    }
    story.totals.cost = meter.map(|meter| meter.cost);
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
    fn measure(&mut self, received: &Bytes, sent: &[Bytes]) {
        let sent_bytes: Vec<_> = sent.iter().map(Bytes::len).collect();
        let totals = &mut self.totals;
        totals.requests += 1;
        totals.legs += sent.len();
        totals.received_bytes += received.len();
        totals.sent_bytes += sent_bytes.iter().sum::<usize>();
        totals.unsent_bytes = totals.received_bytes as i64 - totals.sent_bytes as i64;
        totals.unsent_tokens = totals.unsent_bytes / BYTES_PER_TOKEN as i64;
        self.turns.push(MeasuredTurn {
            turn: totals.requests,
            received_bytes: received.len(),
            sent_bytes,
        });
    }
}

/// The scripted agent with its history.
pub(super) struct Agent {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    history: Vec<Value>,
    turn: usize,
}

impl Agent {
    /// Creates an agent whose base URL is `address`.
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            address,
            history: vec![script::opening()],
            turn: 0,
        }
    }

    /// Sends the history, appends the response, and runs the tools that it calls.
    ///
    /// Returns the request's body, and whether the script is finished.
    pub(super) async fn ask(&mut self) -> CliResult<(Bytes, bool)> {
        let body = Bytes::from(script::request(&self.history).to_string());
        let request = Request::post(format!("http://{}/v1/messages", self.address))
            .header("content-type", "application/json")
            // Names the session, so that its requests belong to one conversation.
            .header("x-session-id", "demo")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "sk-demo")
            .body(Full::new(body.clone()));
        let response = self.client.request(request.map_err(broken)?).await;
        let reply = response
            .map_err(broken)?
            .into_body()
            .collect()
            .await
            .map_err(broken)?
            .to_bytes();
        let reply: Value = serde_json::from_slice(&reply).unwrap_or_default();
        if !reply["content"].is_array() {
            return Err(broken(format!("turn {}: {reply}", self.turn + 1)));
        }
        let results: Vec<_> = blocks(&reply, "tool_use")
            .map(|call| script::result(call, self.turn))
            .collect();
        let done = results.is_empty();
        self.history
            .push(json!({"role": "assistant", "content": reply["content"]}));
        if !done {
            self.history.push(json!({"role": "user", "content": results}));
        }
        self.turn += 1;
        Ok((body, done))
    }
}

/// Failure of a part of the demo.
fn broken(error: impl ToString) -> CommandFailure {
    Exit::SOFTWARE.failure(format!("the demo failed: {}", error.to_string()))
}

impl Outline {
    /// Lists the text blocks, calls and results of a request, one line each.
    fn from_body(body: &Bytes) -> Option<Self> {
        let view = wire(WireId::Anthropic).read(body, Operation::Generate).ok()?;
        let part = |role: Role, part: &TranscriptPart<'_>| match part.kind {
            TranscriptPartKind::Text(text) => Some(MessageOutline::new(role, "text", &text.get())),
            TranscriptPartKind::Result(_) => Some(MessageOutline::new(role, "result", &part.text())),
            TranscriptPartKind::Call(call) => {
                let input = call.given();
                Some(MessageOutline {
                    begins: first_line(&format!("{} {input}", call.named()), Some(BEGINS)),
                    ..MessageOutline::new(role, "call", &input)
                })
            }
            _ => None,
        };
        let transcript = Transcript::from_view(&view);
        let turns = transcript.turns();
        let part = &part;
        let parts = turns.flat_map(|turn| {
            let parts = turn.parts().into_iter();
            parts.filter_map(move |it| part(turn.role, &it))
        });
        Some(Self {
            bytes: body.len(),
            messages: view.turns.len(),
            parts: parts.collect(),
        })
    }
}

impl MessageOutline {
    fn new(role: Role, kind: &'static str, text: &str) -> Self {
        Self {
            role: match role {
                Role::Assistant => "assistant",
                _ => "user",
            },
            kind,
            bytes: text.len(),
            // Text before a sentinel is not shown.
            begins: first_line(&text[text.find(SENTINEL).unwrap_or(0)..], Some(BEGINS)),
        }
    }
}

/// Beginning of a sentinel.
pub(super) const SENTINEL: &str = "[[handoff-resume:";

/// Maximum length of a part in an outline, in characters.
const BEGINS: usize = 100;

/// Model whose prices and cache rule are used.
const MODEL: &str = "claude-opus-5-5";

/// Fixed date of the prices, so that the demo costs the same every day.
const NOVEMBER_23: u64 = 1_795_435_200_000;

/// Pause between two requests. It is short enough to keep the cache warm.
const PAUSE_MS: u64 = 60_000;

/// Cost of all requests in US dollars, without the output, which is the same in both sessions.
///
/// The field names are public API.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct DemoCost {
    /// Model whose prices are used.
    pub(super) model: &'static str,
    /// Cost of the requests that the proxy sent.
    pub(super) with: f64,
    /// Cost of the requests that the agent sent.
    pub(super) without: f64,
}

/// Adds up the cost of the requests in sending order.
struct CostMeter {
    rates: Rates,
    with: SimulatedCache,
    without: SimulatedCache,
    at_ms: u64,
    cost: DemoCost,
}

impl CostMeter {
    /// `None` if the embedded table lacks the model.
    fn new() -> Option<Self> {
        let query = PriceQuery {
            model: MODEL,
            at_ms: NOVEMBER_23,
            ..PriceQuery::default()
        };
        let rates = prices::table(None).ok()?.rates(&query)?;
        let cache = SimulatedCache::new(CacheRule::for_model(MODEL, false), rates.write_is_billed);
        Some(Self {
            rates,
            with: cache.clone(),
            without: cache,
            at_ms: 0,
            cost: DemoCost {
                model: MODEL,
                ..DemoCost::default()
            },
        })
    }

    /// Adds the agent's next request, and the requests sent upstream for it.
    ///
    /// `prompt_bytes` is the size of the carry-over prompt that was written.
    fn add(&mut self, received: &Bytes, sent: &[Bytes], prompt_bytes: usize) {
        self.at_ms += PAUSE_MS;
        let without = self.without.send(self.at_ms, &segments(received), 0);
        self.cost.without += without.cost(&self.rates).total();
        // The first leg writes the prompt, so only that one pays for its output.
        let mut prompt_tokens = prompt_bytes as u64 / BYTES_PER_TOKEN;
        for body in sent {
            let prompt_tokens = std::mem::take(&mut prompt_tokens);
            let counts = self.with.send(self.at_ms, &segments(body), prompt_tokens);
            self.cost.with += counts.cost(&self.rates).total();
        }
    }
}

/// Splits a request into the system prompt with the tools, and the turns.
fn segments(body: &Bytes) -> Vec<RequestSegment> {
    let segment = |content: &[u8]| {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        RequestSegment {
            id: hasher.finish(),
            tokens: content.len() as u64 / BYTES_PER_TOKEN,
        }
    };
    let Ok(view) = wire(WireId::Anthropic).read(body, Operation::Generate) else {
        return vec![segment(body)];
    };
    let list = view.list;
    let fixed = [&body[..list.start], &body[list.end..]].concat();
    let turns = view.turns.iter().map(|turn| segment(turn.span.of(body)));
    std::iter::once(segment(&fixed)).chain(turns).collect()
}
