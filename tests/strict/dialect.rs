//! A request as the provider received it, and the trait by which each wire reads and answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::api::{Endpoint, Wire};
use super::complaint::{Findings, Rule};
use super::fields::list;
use super::memory::Memory;
use super::reply::Reply;
use super::transcript::{Role, ToolDefinition, Turn};
use super::usage::{Segment, Usage};

/// The tool by which a model hands its session over.
pub(crate) const HANDOFF: &str = "session_handoff";

/// One request as the provider received it.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its number, from 1, counted over all requests to this provider.
    pub number: usize,
    /// The wire that its path belongs to.
    pub wire: Wire,
    /// What it asks for.
    pub endpoint: Endpoint,
    pub method: Method,
    /// The path with its query.
    pub path: String,
    pub headers: HeaderMap,
    /// The body as it arrived.
    pub raw: Bytes,
    /// The body without its content-encoding, parsed; `null` where it cannot be parsed.
    pub body: Value,
    /// The part of the transcript that the provider itself stored, which precedes the request's own items
    /// (Responses: `previous_response_id`, `conversation`).
    pub stored_history: Vec<Value>,
    /// When it arrived, in seconds since 1970.
    pub received: u64,
    /// What the provider stores between requests.
    pub(crate) memory: Arc<Memory>,
    /// How its wire reads and answers it.
    pub(crate) dialect: &'static dyn Dialect,
}

impl Received {
    /// The transcript in the request's body, unchanged: `messages`, `input` items or `contents`. Empty where it is
    /// a single string.
    pub fn messages(&self) -> &[Value] {
        list(&self.body, self.dialect.transcript_field())
    }

    /// The transcript that the model reads: the stored history, then the request's own items, with references to
    /// stored items resolved.
    pub fn transcript(&self) -> Vec<Value> {
        self.dialect.transcript(self)
    }

    /// The transcript in the shape that all wires share.
    pub fn turns(&self) -> Vec<Turn> {
        self.dialect.turns(self)
    }

    /// The last text of the user, tool results excluded.
    pub fn last_user_text(&self) -> Option<String> {
        let turns = self.turns();
        turns
            .iter()
            .rev()
            .filter(|turn| turn.role == Role::User)
            .find_map(|turn| turn.texts.last().cloned())
    }

    /// The client tools on offer.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        self.dialect.tools(self)
    }

    /// The names of the client tools on offer.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools().into_iter().map(|tool| tool.name).collect()
    }

    /// Whether `session_handoff` is on offer.
    pub fn offers_handoff(&self) -> bool {
        self.tools().iter().any(|tool| tool.name == HANDOFF)
    }

    /// Whether the reply is to be streamed.
    pub fn stream(&self) -> bool {
        self.dialect.streams(self)
    }

    /// A header as text; `None` where it is absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// An id that no reply to another request has. It is derived from the request's number and bytes: the same in every run
/// of a test, different between the sessions of an agent. `slot` distinguishes the ids of one reply.
pub(crate) fn derived_id(prefix: &str, request: &Received, slot: usize) -> String {
    let mut hasher = Sha256::new_with_prefix(format!("{} {slot} ", request.number));
    hasher.update(&request.raw);
    let hex: String = hasher
        .finalize()
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{prefix}{hex}")
}

/// A response body before it is written: a content type and its events. A JSON body is one event.
pub(crate) struct RenderedBody {
    /// `None`: the response has no `content-type` header.
    pub(crate) content_type: Option<&'static str>,
    pub(crate) events: Vec<Bytes>,
    /// Whether the response has a content-length.
    pub(crate) sized: bool,
}

impl RenderedBody {
    pub(crate) fn json(value: &Value) -> Self {
        RenderedBody {
            content_type: Some("application/json"),
            events: vec![value.to_string().into()],
            sized: true,
        }
    }

    pub(crate) fn stream(events: Vec<Bytes>) -> Self {
        RenderedBody {
            content_type: Some("text/event-stream; charset=utf-8"),
            events,
            sized: false,
        }
    }
}

/// One wire: how its requests are read and checked, and how its answers are written.
pub(crate) trait Dialect: std::fmt::Debug + Sync {
    /// The field that holds the transcript.
    fn transcript_field(&self) -> &'static str {
        "messages"
    }
    /// What the provider stored of the transcript that `body` continues.
    fn stored_history(&self, _memory: &Memory, _body: &Value) -> Vec<Value> {
        Vec::new()
    }
    /// The transcript that the model reads, in the wire's own shape.
    fn transcript(&self, request: &Received) -> Vec<Value> {
        request.messages().to_vec()
    }
    /// The transcript that the model reads, in the shape that all wires share.
    fn turns(&self, request: &Received) -> Vec<Turn>;
    /// The tools that the client runs.
    fn tools(&self, request: &Received) -> Vec<ToolDefinition>;
    /// Whether the reply is to be streamed.
    fn streams(&self, request: &Received) -> bool {
        let streamed = request.body.get("stream").and_then(Value::as_bool);
        streamed.unwrap_or(false)
    }
    /// Whether the model thinks before it answers.
    fn thinks(&self, _body: &Value) -> bool {
        false
    }
    /// Checks a request against the rules.
    fn check(&self, request: &Received, findings: &mut Findings<'_>);
    /// The request as the prompt cache sees it, in order.
    fn segments(&self, request: &Received) -> Vec<Segment>;
    /// The answer to a token count.
    fn token_count(&self, usage: &Usage) -> Value;
    /// A reply as a response body.
    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody;
    /// The answer to [`Endpoint::Compact`] and [`Endpoint::Stored`]: a status and a body.
    fn answer(&self, request: &Received, _usage: &Usage) -> (u16, Value) {
        (404, self.error(404, &format!("Not found: {}", request.path)))
    }
    /// The body of an error response.
    fn error(&self, status: u16, message: &str) -> Value;
    /// The body of the response to a request that breaks a rule.
    fn refusal(&self, rule: Rule, message: &str) -> Value {
        self.error(rule.status(), message)
    }
    /// The in-stream error event that follows the first `at` events of the stream that answers `request`.
    fn error_event(&self, request: &Received, at: usize, kind: &str, message: &str) -> Bytes;
    /// A harmless event with `size` bytes of padding, at the same place.
    fn padding_event(&self, request: &Received, at: usize, size: usize) -> Bytes;
    /// The list of models.
    fn models(&self) -> Value;
    /// The name of the response header that carries the request's id.
    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}
