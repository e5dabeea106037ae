//! The differences between APIs: one trait for each file of a wire's directory. Pure.

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

/// One provider API.
pub trait Wire: Requests + Turns + Pairs + AskAgain + Compose + Send + Sync + 'static {
    /// What of it is a value.
    fn facts(&self) -> &'static WireFacts;
}

/// A request as a whole: read, and the edits of a rewrite that are not about one turn.
pub trait Requests: Turns {
    /// Indexes a request body.
    ///
    /// # Errors
    /// It is not JSON, not of this wire's shape, or repeats a key that a rewrite would touch.
    fn read(&self, body: &Bytes, operation: Operation) -> Result<View, UnreadReason>;

    /// The carry-over message: preamble blocks as they were, the prompt as the last one.
    fn carry_over(&self, blocks: &[String], prompt: &str) -> String;

    /// The edits that make a text of ours the last one of a message of the user's; `None`: it becomes a message.
    fn text_inside(&self, content: &TurnContent, text: &str) -> Option<Vec<Edit>>;
}

/// Hidden pairs: how their siblings are named and found, and how they are restored.
pub trait Pairs: Turns {
    /// The call as restored in the upstream view: a block, an element, an item or a part.
    fn hidden_call(&self, call: &HiddenCall) -> String;

    /// The changes that put each of these pairs back next to its sibling; none for one that has no place there.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>>;

    /// The turns that take the place of one with an aside: the two halves around the aside's line, and the hidden pair
    /// between them.
    fn put_between(&self, split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn>;
}

/// Asks the model again after a refused call.
pub trait AskAgain {
    /// The elements to append to the transcript: the model's own message as it streamed it, then the results. `pairs` are of its first calls of ours, in order;
    /// further ones are left out. `ours`: the names of our tools.
    fn ask_again(&self, spoken: &LegOutput, pairs: &[HiddenPair], ours: ToolNames) -> Option<String>;
}

/// Answers of our own.
pub trait Compose {
    /// A whole answer of our own, in this wire's success shape: nothing goes upstream.
    fn compose(&self, view: &View, answer: &SyntheticResponse<'_>, shape: AnswerShape) -> Bytes;

    /// What a stream of our own begins with, in front of its first text; a dialect takes the answer's identity from it.
    fn stream_opening(&self, view: &View, answer: &SyntheticResponse<'_>, framing: Framing) -> StreamOpening;
}

/// The beginning of a stream of our own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOpening {
    /// Frames as upstream would send them.
    pub frames: Bytes,
    /// Whether the agent gets them: some wires have no empty frame.
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

/// What follows for every wire from what it is.
impl dyn Wire + '_ {
    /// Which one it is.
    pub fn id(&self) -> WireId {
        self.facts().id
    }

    /// A body with its turns; one that cannot be read has none.
    pub fn located(&self, body: &Bytes, operation: Operation) -> LocatedBody {
        match self.read(body, operation) {
            Ok(view) => (&view).into(),
            Err(_) => LocatedBody {
                text: body.clone(),
                ..LocatedBody::default()
            },
        }
    }

    /// A user message of plain text: what is left of a preamble that was in a string.
    pub fn user_text(&self, text: &str) -> String {
        self.carry_over(&[], text)
    }

    /// A sentinel or aside as this wire streams it.
    pub fn sentinel_text(&self, mark: &str) -> String {
        gap::spaced(mark)
    }

    /// The body of an error of our own, as JSON in the provider's error shape.
    pub fn error_body(&self, error: ProxyError<'_>) -> String {
        (self.facts().error_body)(error)
    }

    /// The event of an error that ends a stream; `begun`: something is in front of it.
    pub fn stream_error(&self, framing: Framing, error: &str, begun: bool) -> String {
        match framing {
            Framing::Sse => (self.facts().error_event)(error),
            Framing::Lines => format!("{error}\n"),
            Framing::JsonArray if begun => format!("\n,\n{error}\n]\n"),
            Framing::JsonArray => format!("[{error}]"),
        }
    }
}

/// What an answer of our own says.
#[derive(Debug, Clone, Copy)]
pub struct SyntheticResponse<'a> {
    /// A UUIDv7: the answer's ids and its time are made of it.
    pub id: Uuid,
    /// The model as the request named it.
    pub model: &'a str,
    /// The answer, as the assistant's text.
    pub text: &'a str,
    /// The handoff whose sentinel is in it.
    pub handoff: Option<Uuid>,
    /// Bytes of what the model would see, which the response reports as its input.
    pub view_bytes: usize,
}

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerShape {
    /// In one piece.
    Whole,
    Stream(Framing),
}

impl SyntheticResponse<'_> {
    /// Seconds since the Unix epoch.
    pub(super) fn seconds(&self) -> u64 {
        u64::try_from(self.id.as_u128() >> 80).unwrap_or_default() / 1000
    }

    /// Estimated tokens of what the model would see.
    pub(super) fn input(&self) -> u64 {
        (self.view_bytes as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// Estimated tokens of the answer.
    pub(super) fn output(&self) -> u64 {
        (self.text.len() as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// The answer's id after a wire's prefix.
    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}baton_{}", self.id.simple())
    }
}
