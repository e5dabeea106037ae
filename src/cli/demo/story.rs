//! Plays the script through the real proxy, and measures received and sent requests. The agent sends its whole history with
//! each request, as real agents do, and knows nothing of the proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::cost::{CostMeter, DemoCost};
use super::provider::Provider;
use super::script::{self, blocks};
use crate::app;
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::output::first_line;
use crate::serve::exchange::App;
use crate::serve::proxy::server;
use crate::state::config::{Config, Environment, Flags};
use crate::state::store::sqlite::SqliteStore;
use crate::state::store::{HandoffFilter, SharedStore};
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::mark::seal::SealKey;

/// The measured run. The field names are API.
#[derive(Debug, Default, Serialize)]
pub(super) struct DemoRun {
    pub(super) seconds: f64,
    pub(super) totals: DemoTotals,
    pub(super) turns: Vec<MeasuredTurn>,
    /// The handoffs in the store, oldest first.
    pub(super) handoffs: Vec<DemoHandoff>,
    pub(super) example: Option<Example>,
}

/// One request of the agent, with its legs.
#[derive(Debug, Serialize)]
pub(super) struct MeasuredTurn {
    pub(super) turn: usize,
    pub(super) received_bytes: usize,
    /// One for each leg: a second one follows a handoff.
    pub(super) sent_bytes: Vec<usize>,
}

/// A handoff.
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
    /// Net: negative where more was sent than the agent sent.
    pub(super) unsent_bytes: i64,
    /// An estimate: four bytes of JSON make about one token.
    pub(super) unsent_tokens: i64,
    /// Simulated; none where the prices are unknown.
    pub(super) cost: Option<DemoCost>,
}

/// One request before and after: the second one after the last handoff.
#[derive(Debug, Serialize)]
pub(super) struct Example {
    pub(super) turn: usize,
    pub(super) received: Outline,
    pub(super) sent: Outline,
}

/// A request's messages, by how they begin.
#[derive(Debug, Serialize)]
pub(super) struct Outline {
    pub(super) bytes: usize,
    pub(super) messages: usize,
    pub(super) parts: Vec<MessageOutline>,
}

/// One text, call or result.
#[derive(Debug, Serialize)]
pub(super) struct MessageOutline {
    pub(super) role: String,
    pub(super) kind: &'static str,
    pub(super) bytes: usize,
    pub(super) begins: String,
}

/// Plays the script.
pub(super) async fn play() -> Result<DemoRun, CommandFailure> {
    let began = Instant::now();
    let provider = Provider::start().await.map_err(broken)?;
    let store: SharedStore = Arc::new(SqliteStore::in_memory().map_err(broken)?);
    let mut agent = Agent::start(proxy(provider.address, &store)?).await?;
    let mut story = DemoRun::default();
    let mut meter = CostMeter::new();
    let (mut example, mut handed_over) = (None, 0);
    let mut done = false;
    while !done {
        let received;
        (received, done) = agent.ask().await?;
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
        if handed_over > 0 && story.turns.len() == handed_over + 2 {
            example = Example::of(story.turns.len(), &received, &sent);
        }
    }
    story.totals.cost = meter.map(|meter| meter.cost);
    story.example = example;
    story.seconds = began.elapsed().as_secs_f64();
    Ok(story)
}

/// Starts the proxy in front of an upstream: the default config on a free port, independent of the process's environment and
/// config files. It ends with the runtime.
pub(super) fn proxy(upstream: SocketAddr, store: &SharedStore) -> Result<SocketAddr, CommandFailure> {
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
    let gateway = Arc::new(app::gateway(&app, Arc::new(|_| ()))?);
    tokio::spawn(bound.run(server::slot(gateway), std::future::pending()));
    Ok(address)
}

async fn handoffs(store: &SharedStore) -> Result<Vec<DemoHandoff>, CommandFailure> {
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

/// The scripted agent.
pub(super) struct Agent {
    line: SendRequest<Full<Bytes>>,
    host: String,
    history: Vec<Value>,
    turn: usize,
}

impl Agent {
    /// An agent whose base URL is `address`.
    pub(super) async fn start(address: SocketAddr) -> Result<Self, CommandFailure> {
        let stream = TcpStream::connect(address).await.map_err(broken)?;
        let (line, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        Ok(Self {
            line,
            host: address.to_string(),
            history: vec![script::opening()],
            turn: 0,
        })
    }

    /// Sends the history, appends the reply, and runs the tools that it calls. Returns the request's body, and whether the
    /// script is at its end.
    pub(super) async fn ask(&mut self) -> Result<(Bytes, bool), CommandFailure> {
        let body = Bytes::from(script::request(&self.history).to_string());
        let request = Request::post("/v1/messages")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("x-session-id", "demo")
            .header("anthropic-version", "2023-06-01")
            .header("x-api-key", "sk-demo")
            .body(Full::new(body.clone()));
        self.line.ready().await.map_err(broken)?;
        let response = self
            .line
            .send_request(request.map_err(broken)?)
            .await
            .map_err(broken)?;
        let reply = response.into_body().collect().await.map_err(broken)?.to_bytes();
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

/// The failure of a part of the demo.
fn broken(error: impl ToString) -> CommandFailure {
    Exit::SOFTWARE.failure(format!("the demo failed: {}", error.to_string()))
}

impl Example {
    fn of(turn: usize, received: &Bytes, sent: &[Bytes]) -> Option<Self> {
        Some(Self {
            turn,
            received: Outline::of(received)?,
            sent: Outline::of(sent.last()?)?,
        })
    }
}

impl Outline {
    fn of(body: &Bytes) -> Option<Self> {
        let request: Value = serde_json::from_slice(body).ok()?;
        let messages = request["messages"].as_array()?;
        Some(Self {
            bytes: body.len(),
            messages: messages.len(),
            parts: messages.iter().flat_map(parts).collect(),
        })
    }
}

impl MessageOutline {
    fn of(role: &str, kind: &'static str, text: &str) -> Self {
        Self {
            role: role.to_owned(),
            kind,
            bytes: text.len(),
            // What precedes a sentinel is not shown.
            begins: first_line(&text[text.find(SENTINEL).unwrap_or(0)..], Some(BEGINS)),
        }
    }
}

/// The texts, calls and results of a message, one line each.
fn parts(message: &Value) -> Vec<MessageOutline> {
    let role = message["role"].as_str().unwrap_or_default();
    let string = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let part = |block: &Value| match block["type"].as_str()? {
        "text" => Some(MessageOutline::of(role, "text", block["text"].as_str()?)),
        "tool_result" => Some(MessageOutline::of(role, "result", &string(&block["content"]))),
        "tool_use" => {
            let input = block["input"].to_string();
            Some(MessageOutline {
                begins: first_line(&format!("{} {input}", string(&block["name"])), Some(BEGINS)),
                ..MessageOutline::of(role, "call", &input)
            })
        }
        _ => None,
    };
    match &message["content"] {
        Value::Array(blocks) => blocks.iter().filter_map(part).collect(),
        content => vec![MessageOutline::of(
            role,
            "text",
            content.as_str().unwrap_or_default(),
        )],
    }
}

/// The beginning of a sentinel.
pub(super) const SENTINEL: &str = "[[handoff-resume:";

/// Maximum characters of a part in an outline.
const BEGINS: usize = 100;
