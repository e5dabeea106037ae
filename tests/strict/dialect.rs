//! A request as received by the provider, and the trait for reading and answering requests on each wire.

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

/// The tool with which a model hands its session over.
pub(crate) const HANDOFF: &str = "session_handoff";

/// A request as received by the provider.
#[derive(Clone, Debug)]
pub struct Received {
    /// Number of the request, from 1, over all requests to this provider.
    pub number: usize,
    /// Wire of the path.
    pub wire: Wire,
    /// Operation of the request.
    pub endpoint: Endpoint,
    pub method: Method,
    /// Path with its query.
    pub path: String,
    pub headers: HeaderMap,
    /// Body as it arrived.
    pub raw: Bytes,
    /// Parsed body without its content-encoding, or `null` if it cannot be parsed.
    pub body: Value,
    /// Part of the transcript that the provider itself stored, before the request's own items (Responses:
    /// `previous_response_id`, `conversation`).
    pub stored_history: Vec<Value>,
    /// Time of arrival, in seconds since 1970.
    pub received: u64,
    /// Data that the provider stores between requests.
    pub(crate) memory: Arc<Memory>,
    /// Reads and answers requests of this wire.
    pub(crate) dialect: &'static dyn Dialect,
}

impl Received {
    /// Transcript in the request's body, unchanged: `messages`, `input` items or `contents`. Empty if it is a
    /// single string.
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

    /// Last text of the user, without tool results.
    pub fn last_user_text(&self) -> Option<String> {
        let turns = self.turns();
        turns
            .iter()
            .rev()
            .filter(|turn| turn.role == Role::User)
            .find_map(|turn| turn.texts.last().cloned())
    }

    /// Client tools on offer.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        self.dialect.tools(self)
    }

    /// Names of the client tools on offer.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools().into_iter().map(|tool| tool.name).collect()
    }

    /// Whether `session_handoff` is on offer.
    pub fn offers_handoff(&self) -> bool {
        self.tools().iter().any(|tool| tool.name == HANDOFF)
    }

    /// Whether the client requested a stream.
    pub fn stream(&self) -> bool {
        self.dialect.streams(self)
    }

    /// A header as a string, or `None` if it is absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Derives an id that no reply to another request has.
///
/// The request's number and bytes determine it, so it is the same in every run of a test, and differs between
/// the sessions of an agent. `slot` distinguishes the ids of one reply.
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

/// A response body before it is written: a content type and events. A JSON body is one event.
pub(crate) struct RenderedBody {
    /// Content type, or `None` for a response without that header.
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

/// Reading, checking and answering of requests on one wire.
pub(crate) trait Dialect: std::fmt::Debug + Sync {
    /// Field that holds the transcript.
    fn transcript_field(&self) -> &'static str {
        "messages"
    }
    /// The stored part of the transcript that `body` continues.
    fn stored_history(&self, _memory: &Memory, _body: &Value) -> Vec<Value> {
        Vec::new()
    }
    /// Transcript that the model reads, in the wire's own shape.
    fn transcript(&self, request: &Received) -> Vec<Value> {
        request.messages().to_vec()
    }
    /// Transcript that the model reads, in the shape that all wires share.
    fn turns(&self, request: &Received) -> Vec<Turn>;
    /// Tools that the client runs.
    fn tools(&self, request: &Received) -> Vec<ToolDefinition>;
    /// Whether the client requested a stream.
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
    /// Response to a token count.
    fn token_count(&self, usage: &Usage) -> Value;
    /// Formats a reply as a response body.
    fn render(&self, request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody;
    /// Response to [`Endpoint::Compact`] and [`Endpoint::Stored`]: a status and a body.
    fn answer(&self, request: &Received, _usage: &Usage) -> (u16, Value) {
        (404, self.error(404, &format!("Not found: {}", request.path)))
    }
    /// Body of an error response.
    fn error(&self, status: u16, message: &str) -> Value;
    /// Body of the response to a request that violates a rule.
    fn refusal(&self, rule: Rule, message: &str) -> Value {
        self.error(rule.status(), message)
    }
    /// The in-stream error event that follows the first `at` events of the stream that answers `request`.
    fn error_event(&self, request: &Received, at: usize, kind: &str, message: &str) -> Bytes;
    /// A harmless event with `size` bytes of padding, at the same position.
    fn padding_event(&self, request: &Received, at: usize, size: usize) -> Bytes;
    /// The list of models.
    fn models(&self) -> Value;
    /// Name of the response header that carries the request's id.
    fn request_id_header(&self) -> &'static str {
        "x-request-id"
    }
}
