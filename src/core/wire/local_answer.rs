//! An answer of baton's own: nothing goes upstream, and the agent gets a message of its wire's own shape.

use uuid::Uuid;

use super::framing::Framing;
use crate::limits::BYTES_PER_TOKEN;

/// What an answer of our own says.
#[derive(Debug, Clone, Copy)]
pub struct LocalAnswer<'a> {
    /// A UUIDv7: the answer's ids and its time are made of it.
    pub id: Uuid,
    /// The model as the request named it.
    pub model: &'a str,
    /// The answer, as the assistant's text.
    pub text: &'a str,
    /// The handoff whose sentinel is in it.
    pub handoff: Option<Uuid>,
    /// Bytes of the request, for its size in tokens.
    pub request_bytes: usize,
}

/// The form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerShape {
    /// In one piece.
    Whole,
    Stream(Framing),
}

impl LocalAnswer<'_> {
    /// Seconds since the Unix epoch.
    pub(super) fn seconds(&self) -> u64 {
        u64::try_from(self.id.as_u128() >> 80).unwrap_or_default() / 1000
    }

    /// Estimated tokens of the request.
    pub(super) fn input(&self) -> u64 {
        (self.request_bytes as u64).div_ceil(BYTES_PER_TOKEN)
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
