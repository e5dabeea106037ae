//! What a wire has to know of itself, and the one shape in which every wire shows a transcript.

use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use super::anthropic::Anthropic;
use super::complaint::{Findings, Rule};
use super::gemini::Gemini;
use super::model::Seen;
use super::ollama::Ollama;
use super::openai_chat::OpenAiChat;
use super::openai_responses::OpenAiResponses;
use super::reply::Reply;
use super::usage::{Segment, Usage};

/// A provider API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Gemini `generateContent`, also as Vertex spells its paths.
    Gemini,
    /// Ollama `/api/chat`.
    Ollama,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Anthropic => "anthropic",
            Wire::OpenAiChat => "openai_chat",
            Wire::OpenAiResponses => "openai_responses",
            Wire::Gemini => "gemini",
            Wire::Ollama => "ollama",
        })
    }
}

impl Wire {
    pub(crate) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Wire::Anthropic => &Anthropic,
            Wire::OpenAiChat => &OpenAiChat,
            Wire::OpenAiResponses => &OpenAiResponses,
            Wire::Gemini => &Gemini,
            Wire::Ollama => &Ollama,
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// A reply of the model.
    Generate,
    /// The size of a request.
    CountTokens,
    /// A shorter transcript in place of a long one (`POST /v1/responses/compact`).
    Compact,
    /// What the provider keeps: a response, its input, a conversation; also its version (Ollama).
    Stored,
    /// The list of models.
    Models,
    /// Its own body back (`POST /v1/embeddings`).
    Echo,
    /// Anything else: answered 404.
    Other,
}

impl Endpoint {
    /// Whether requests of this kind are held to the rules.
    pub(crate) fn is_checked(self) -> bool {
        matches!(
            self,
            Endpoint::Generate | Endpoint::CountTokens | Endpoint::Compact
        )
    }
}

/// Whose turn it is. Tool results are the user's on every wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// System or developer.
    System,
    /// The user, and tool results.
    User,
    /// The model.
    Assistant,
}

/// One message of a transcript, whatever its wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Whose it is.
    pub role: Role,
    /// Its texts, in order.
    pub texts: Vec<String>,
    /// The calls in it, in order.
    pub calls: Vec<Called>,
    /// The tool results in it, in order.
    pub results: Vec<Answered>,
}

/// A call in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, parsed; `null` where they cannot be read.
    pub arguments: Value,
}

/// A tool result in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// The id of the call that it answers.
    pub id: String,
    /// Its text.
    pub text: String,
}

/// A tool that a request offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// The JSON schema of its arguments; `null` where the provider knows it.
    pub schema: Value,
}

/// A body as it will be written: a content type and its events. A JSON body is one event.
pub(crate) struct Rendered {
    pub(crate) content_type: &'static str,
    pub(crate) events: Vec<Bytes>,
    /// Whether the body is sent with a content-length.
    pub(crate) sized: bool,
}

impl Rendered {
    pub(crate) fn json(value: &Value) -> Self {
        Rendered {
            content_type: "application/json",
            events: vec![value.to_string().into()],
            sized: true,
        }
    }

    pub(crate) fn stream(events: Vec<Bytes>) -> Self {
        Rendered {
            content_type: "text/event-stream; charset=utf-8",
            events,
            sized: false,
        }
    }
}

/// One wire.
pub(crate) trait Dialect: Sync {
    /// The field that holds the transcript.
    fn transcript(&self) -> &'static str {
        "messages"
    }
    /// The transcript, with what the provider itself held of it.
    fn turns(&self, seen: &Seen) -> Vec<Turn>;
    /// The tools that clients run.
    fn tools(&self, seen: &Seen) -> Vec<Offered>;
    /// Whether the reply is to be streamed.
    fn streams(&self, seen: &Seen) -> bool {
        seen.body.get("stream").and_then(Value::as_bool).unwrap_or(false)
    }
    /// Whether the model thinks before it speaks.
    fn thinks(&self, _body: &Value) -> bool {
        false
    }
    /// Holds a request to the rules.
    fn check(&self, seen: &Seen, findings: &mut Findings<'_>);
    /// What the prompt cache sees of a request, in its order.
    fn segments(&self, seen: &Seen) -> Vec<Segment>;
    /// The answer to a token count.
    fn counted(&self, usage: &Usage) -> Value;
    /// A reply as a body.
    fn render(&self, seen: &Seen, reply: &Reply, usage: &Usage) -> Rendered;
    /// The answer to [`Endpoint::Compact`] and [`Endpoint::Stored`]: a status and a body.
    fn answer(&self, seen: &Seen, _usage: &Usage) -> (u16, Value) {
        (404, self.error(404, &format!("Not found: {}", seen.path)))
    }
    /// The body of an error answer.
    fn error(&self, status: u16, message: &str) -> Value;
    /// The body of the answer to a request that breaks a rule.
    fn refusal(&self, rule: Rule, message: &str) -> Value {
        self.error(rule.status(), message)
    }
    /// The in-stream error event behind the first `at` events of the stream that `seen` gets.
    fn error_event(&self, seen: &Seen, at: usize, kind: &str, message: &str) -> Bytes;
    /// A harmless event with so many bytes of padding, at the same place.
    fn padding_event(&self, seen: &Seen, at: usize, size: usize) -> Bytes;
    /// The list of models.
    fn models(&self) -> Value;
    /// The name of the header that carries the request's id.
    fn request_id_header(&self) -> &'static str;
}
