//! The provider's reply, and how it is sent.

use std::time::Duration;

use serde_json::Value;

use super::faults::Fault;

/// Characters in one delta of text or arguments unless the reply says otherwise; about what APIs send.
const DELTA_CHARS: usize = 20;

/// One part of a reply, in the order the model produced it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// Thinking. Anthropic: a signed block. Chat: `reasoning_content`, if [`Delivery::reasoning`] is set.
    /// Responses: a reasoning item, its summary and encrypted content as the request asks for them. Gemini:
    /// a thought, if the request asks for thoughts, and a signature at the end. Ollama: `thinking`.
    Thinking(String),
    /// Thinking that is not shown (Anthropic: `redacted_thinking`, signed like the other; Responses and Gemini:
    /// as above, without its text).
    Redacted,
    Text(String),
    /// A call of a client tool.
    Call {
        /// The call's id; made up when `None`. An empty one is left out where the wire lets it (Gemini, Ollama).
        id: Option<String>,
        /// The tool's name.
        name: String,
        arguments: Arguments,
    },
    /// A complete block in the wire's own shape: a server tool's result (Anthropic), an item (Responses), a part
    /// (Gemini), a message (Ollama, streams only).
    Block(Value),
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// A value, written as compact JSON.
    Value(Value),
    /// The raw text, which may be broken JSON.
    Raw(String),
}

impl Arguments {
    /// The JSON text that is streamed.
    pub fn text(&self) -> String {
        match self {
            Arguments::Value(value) => value.to_string(),
            Arguments::Raw(text) => text.clone(),
        }
    }

    /// The value; an empty object where the text cannot be read.
    pub fn value(&self) -> Value {
        match self {
            Arguments::Value(value) => value.clone(),
            Arguments::Raw(text) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::Object(serde_json::Map::new()))
            }
        }
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The wire's word for "calls were made" or "the turn is over", by what the parts hold.
    #[default]
    Natural,
    /// The output limit was reached.
    MaxTokens,
    /// The model refused.
    Refusal,
    /// A long turn was paused (Anthropic `pause_turn`; elsewhere the natural stop). The client sends the turn
    /// back as it is; that passes the rules if its last part is a [`Part::Block`] of a server tool.
    PauseTurn,
    /// A filter cut the output.
    ContentFilter,
    /// The wire's own word, as it is. Responses: `failed`, or the reason of an incomplete response.
    Word(String),
}

/// How the bytes of the body are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chunks {
    /// One write per event.
    #[default]
    Events,
    /// Writes of this many bytes, across event borders.
    Bytes(usize),
    /// One write.
    Whole,
}

/// How a chat stream spells a tool call; compatible servers differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallStyle {
    /// Id, name and empty arguments first, then arguments in pieces.
    #[default]
    Standard,
    /// The whole call in one chunk.
    OneChunk,
    /// The name split over two deltas.
    SplitName,
    /// The id first, the name in the next delta.
    IdFirst,
}

/// The transport side of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Characters in one delta of text or arguments.
    pub delta: usize,
    /// How bytes are grouped into writes.
    pub chunks: Chunks,
    /// The pause between two writes.
    pub delay: Duration,
    /// The pause before the response head.
    pub head_delay: Duration,
    /// How chat streams spell calls.
    pub call_style: CallStyle,
    /// Whether chat replies show thinking as `reasoning_content`.
    pub reasoning: bool,
    /// Whether the body is gzip, flushed after every event. Not together with faults that write events of
    /// their own.
    pub gzip: bool,
    /// Whether the response has no `content-type`.
    pub untyped: bool,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            delta: DELTA_CHARS,
            chunks: Chunks::Events,
            delay: Duration::ZERO,
            head_delay: Duration::ZERO,
            call_style: CallStyle::Standard,
            reasoning: false,
            gzip: false,
            untyped: false,
        }
    }
}

/// One reply: its parts, why it stopped, how it travels, and what goes wrong with it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// Texts in order.
    pub parts: Vec<Part>,
    /// Why the model stopped.
    pub stop: Stop,
    /// How the reply travels.
    pub delivery: Delivery,
    /// Further response headers, such as rate limits.
    pub headers: Vec<(String, String)>,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Reply::text(text)
    }
}

impl Reply {
    /// An empty reply, to add parts to.
    pub fn new() -> Self {
        Reply::default()
    }

    /// A reply of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Reply::new().say(text)
    }

    /// An error answer.
    pub fn status(status: u16, message: impl Into<String>) -> Self {
        Reply::failing(Fault::Status {
            status,
            retry_after: None,
            message: message.into(),
        })
    }

    /// A reply that is nothing but a fault.
    pub fn failing(fault: Fault) -> Self {
        Reply::new().fault(fault)
    }

    /// Adds thinking.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Thinking(text.into()));
        self
    }

    /// Adds text.
    #[must_use]
    pub fn say(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds a call with these arguments.
    #[must_use]
    pub fn call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.parts.push(Part::Call {
            id: None,
            name: name.into(),
            arguments: Arguments::Value(arguments),
        });
        self
    }

    /// Adds a call with a given id.
    #[must_use]
    pub fn call_as(mut self, id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        let arguments = Arguments::Value(arguments);
        self.parts.push(Part::Call {
            id: Some(id.into()),
            name: name.into(),
            arguments,
        });
        self
    }

    /// Adds a call whose arguments are this text, which may be broken JSON.
    #[must_use]
    pub fn raw_call(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let arguments = Arguments::Raw(arguments.into());
        self.parts.push(Part::Call {
            id: None,
            name: name.into(),
            arguments,
        });
        self
    }

    /// Adds any part.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Sets why the model stopped.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Sets what goes wrong.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Adds a `retry-after` header to an error answer.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Some(Fault::Status { retry_after, .. }) = &mut self.fault {
            *retry_after = Some(seconds);
        }
        self
    }

    /// Splits text and arguments into deltas of this many characters.
    #[must_use]
    pub fn deltas(mut self, chars: usize) -> Self {
        self.delivery.delta = chars;
        self
    }

    /// Writes the body this many bytes at a time.
    #[must_use]
    pub fn in_bytes(mut self, bytes: usize) -> Self {
        self.delivery.chunks = Chunks::Bytes(bytes);
        self
    }

    /// Writes the body in one piece.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.delivery.chunks = Chunks::Whole;
        self
    }

    /// Waits between two writes.
    #[must_use]
    pub fn delay(mut self, time: Duration) -> Self {
        self.delivery.delay = time;
        self
    }

    /// Waits before the response head.
    #[must_use]
    pub fn head_delay(mut self, time: Duration) -> Self {
        self.delivery.head_delay = time;
        self
    }

    /// Sets how chat streams spell calls.
    #[must_use]
    pub fn call_style(mut self, style: CallStyle) -> Self {
        self.delivery.call_style = style;
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Compresses the body, event by event, whether the client requested it or not.
    #[must_use]
    pub fn gzip(mut self) -> Self {
        self.delivery.gzip = true;
        self
    }

    /// Leaves out the `content-type`.
    #[must_use]
    pub fn untyped(mut self) -> Self {
        self.delivery.untyped = true;
        self
    }

    /// Shows thinking as `reasoning_content` in chat replies.
    #[must_use]
    pub fn reasoning(mut self) -> Self {
        self.delivery.reasoning = true;
        self
    }

    /// Whether the reply calls a client tool.
    pub(crate) fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call { .. }))
    }
}

/// Cuts `text` into pieces of `chars` characters (at least one each), never inside a character.
pub(crate) fn pieces(text: &str, chars: usize) -> Vec<&str> {
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(chars.max(1))
            .map_or(rest.len(), |(at, _)| at);
        let (piece, tail) = rest.split_at(end);
        out.push(piece);
        rest = tail;
    }
    out
}
