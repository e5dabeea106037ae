//! Responses that do not come from upstream.

use super::framing::Framing;
use crate::limits::BYTES_PER_TOKEN;
use bytes::Bytes;
use uuid::Uuid;

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
