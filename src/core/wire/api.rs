//! Traits that each wire implements, one per file of its directory. Pure.

use super::aside::{SplitTurn, SyntheticTurn};
use super::error::ProxyError;
use super::facts::WireFacts;
use super::framing::Framing;
use super::leg::{HiddenCall, LegOutput};
use super::sibling_calls::SiblingPair;
use super::view::{LocatedBody, Operation, TurnChange, TurnContent, Turns, UnreadReason, View};
use crate::limits::BYTES_PER_TOKEN;
use crate::marker::gap;
use crate::record::{HiddenPair, WireId};
use crate::text::splice::Edit;
use crate::tools::ToolNames;
use bytes::Bytes;
use uuid::Uuid;

/// A provider API.
pub trait Wire: Requests + Turns + Pairs + AskAgain + Compose + Send + Sync + 'static {
    /// Constants of the wire.
    fn facts(&self) -> &'static WireFacts;
}

/// Reading a request, and edits that concern it as a whole.
pub trait Requests: Turns {
    /// Parses a request body into spans.
    ///
    /// # Errors
    /// The body is not JSON, does not have this wire's shape, or repeats a key that a rewrite would touch.
    fn read(&self, body: &Bytes, operation: Operation) -> Result<View, UnreadReason>;

    /// Builds the carry-over message: the preamble blocks unchanged, then the prompt.
    fn carry_over(&self, blocks: &[String], prompt: &str) -> String;

    /// Returns the edits that append one of baton's messages to a user message. `None` means that it has to
    /// become a message of its own.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>>;
}

/// Names and finds the calls next to hidden pairs, and restores the pairs.
pub trait Pairs: Turns {
    /// Serializes the call for the upstream request: as a block, an element, an item or a part.
    fn hidden_call(&self, call: &HiddenCall) -> String;

    /// For each pair, returns the changes that put it back next to its sibling. Empty if the pair has no
    /// position there.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>>;

    /// Returns the turns that replace a turn with an aside: both halves, with the hidden pair between them.
    fn put_between(&self, split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn>;
}

/// Asks the model again after baton has answered its call.
pub trait AskAgain {
    /// Returns the elements to append to the transcript: the model's message as it was streamed, then the
    /// results.
    ///
    /// `pairs` belong to the first of baton's calls, in order; further calls are omitted. `ours` lists the
    /// names of baton's tools.
    fn ask_again(&self, spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String>;
}

/// Creates responses that do not come from upstream.
pub trait Compose {
    /// Creates a complete response in this wire's success shape. Nothing is sent upstream.
    fn compose(&self, view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes;

    /// Creates the frames before the first text of a synthetic stream. The wire's decoder takes the identity
    /// of the response from them.
    fn stream_opening(&self, view: &View, answer: &SyntheticResponse<'_>, framing: Framing) -> StreamOpening;
}

/// Opening frames of a synthetic stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOpening {
    /// Frames as upstream would send them.
    pub frames: Bytes,
    /// Whether the agent receives them. On wires without an empty frame they only initialize the decoder.
    pub is_shown: bool,
}

impl StreamOpening {
    pub(super) fn shown(frames: impl Into<Bytes>) -> Self {
        Self {
            frames: frames.into(),
            is_shown: true,
        }
    }
}

/// Methods that every wire derives from its facts.
impl dyn Wire + '_ {
    /// Identifies the wire.
    pub fn id(&self) -> WireId {
        self.facts().id
    }

    /// Locates the turns in a body. An unreadable body has none.
    pub fn located(&self, body: &Bytes, operation: Operation) -> LocatedBody {
        match self.read(body, operation) {
            Ok(view) => (&view).into(),
            Err(_) => LocatedBody {
                text: body.clone(),
                ..LocatedBody::default()
            },
        }
    }

    /// Creates a plain user message, for example from the rest of a preamble that was part of a string.
    pub fn user_text(&self, text: &str) -> String {
        self.carry_over(&[], text)
    }

    /// Adds the line breaks that this wire streams around a sentinel or an aside.
    pub fn sentinel_text(&self, mark: &str) -> String {
        gap::spaced(mark)
    }

    /// Serializes an error from baton in the provider's error shape.
    pub fn error_body(&self, error: ProxyError<'_>) -> String {
        (self.facts().error_body)(error)
    }

    /// Creates the error event that ends a stream. `begun` tells whether anything was sent before it.
    pub fn stream_error(&self, framing: Framing, error: &str, begun: bool) -> String {
        match framing {
            Framing::Sse => (self.facts().error_event)(error),
            Framing::Lines => format!("{error}\n"),
            // An array that has begun is closed after its next element; otherwise the error is the whole
            // array.
            Framing::JsonArray if begun => format!("\n,\n{error}\n]\n"),
            Framing::JsonArray => format!("[{error}]"),
        }
    }
}

/// Content of a synthetic response.
#[derive(Debug, Clone, Copy)]
pub struct SyntheticResponse<'a> {
    /// UUIDv7 that determines the response's ids and its timestamp.
    pub id: Uuid,
    /// Model as requested.
    pub model: &'a str,
    /// Text of the assistant.
    pub text: &'a str,
    /// The handoff whose sentinel the text contains.
    pub handoff: Option<Uuid>,
    /// Bytes of the view that the model would have received. The response reports them as its input tokens.
    pub view_bytes: usize,
}

/// Form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerShape {
    /// A complete body.
    Whole,
    Stream(Framing),
}

impl SyntheticResponse<'_> {
    /// Seconds since the Unix epoch, from the UUIDv7.
    pub(super) fn seconds(&self) -> u64 {
        // The upper 48 bits of a UUIDv7 are milliseconds since the epoch (RFC 9562, section 5.7).
        u64::try_from(self.id.as_u128() >> 80).unwrap_or_default() / 1000
    }

    /// Estimated input tokens.
    pub(super) fn input(&self) -> u64 {
        (self.view_bytes as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// Estimated output tokens.
    pub(super) fn output(&self) -> u64 {
        (self.text.len() as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// Builds an id with the wire's prefix.
    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}baton_{}", self.id.simple())
    }
}
