//! Messages from the request path to the journal's thread: shared slices and small values. Nothing is read or copied.

use std::sync::{Arc, mpsc};

use bytes::Bytes;

use super::headers::PackedHeaders;
use crate::telemetry::ExchangeEvent;
use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::rewrite::SizeChange;
use baton_core::wire::{LocatedBody, Operation, StopReason, Usage};

/// One event of an exchange.
#[derive(Debug)]
pub(super) enum JournalNote {
    /// A request with a transcript was read.
    Begin(Box<ReceivedRequest>),
    /// Something about a leg.
    Leg {
        id: Arc<str>,
        leg: u32,
        at_ms: u64,
        what: LegNote,
    },
    /// The response to the agent.
    Shown {
        id: Arc<str>,
        headers: PackedHeaders,
        body: CapturedBody,
    },
    /// The exchange is over.
    End {
        event: Box<ExchangeEvent>,
        partial: bool,
    },
    /// Answers once everything queued before it is written.
    Flush(mpsc::Sender<()>),
    /// Later notes are redacted by these rules and secrets.
    Redact(Box<Redactor>),
}

/// What has become of a leg.
#[derive(Debug)]
pub(super) enum LegNote {
    /// It is sent.
    Sent(Box<SentLeg>),
    /// Upstream has answered, with this status and these headers; `None`: it gave no answer.
    Answered(Option<(u16, PackedHeaders)>),
    /// Upstream's body has ended or was abandoned.
    Received(CapturedBody),
    /// Usage and stop reason of its answer.
    Counted(Usage, StopReason),
}

/// A leg's request as it is sent.
#[derive(Debug)]
pub struct SentLeg {
    /// Its URL, without the query.
    pub url: String,
    /// Its headers, without the credentials of the config.
    pub headers: PackedHeaders,
    /// Its body, as a rope of slices.
    pub rope: Vec<Bytes>,
    /// The body that most of the slices are of.
    pub request: LocatedBody,
    /// The edits, by reason.
    pub changes: Vec<SizeChange>,
}

/// A request as the agent sent it.
#[derive(Debug)]
pub struct ReceivedRequest {
    /// Id of the exchange.
    pub id: String,
    /// When its transcript was read, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The principal that it belongs to.
    pub principal: String,
    /// Key of the conversation.
    pub conversation: Option<String>,
    /// Its wire.
    pub wire: WireId,
    /// The requested operation.
    pub operation: Operation,
    /// Name of the upstream.
    pub upstream: String,
    /// Method and path.
    pub route: String,
    /// Model as requested.
    pub model: Option<String>,
    /// The agent's headers.
    pub headers: PackedHeaders,
    /// The body, decoded.
    pub received: LocatedBody,
}

/// A captured body.
#[derive(Debug, Default)]
pub struct CapturedBody {
    /// Its chunks, as they arrived.
    pub chunks: Vec<Bytes>,
    /// Whether the journal's bound cut it off.
    pub truncated: bool,
    /// Whether its end was seen.
    pub ended: bool,
}

impl CapturedBody {
    /// Bytes buffered.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// Bytes that a note counts for besides its bodies: headers and the event are some kilobytes at most.
const SMALL: usize = 4096;

impl JournalNote {
    /// The exchange that it belongs to.
    pub(super) fn exchange(&self) -> Option<Arc<str>> {
        match self {
            Self::Begin(begun) => Some(begun.id.as_str().into()),
            Self::Leg { id, .. } | Self::Shown { id, .. } => Some(Arc::clone(id)),
            Self::End { event, .. } => Some(event.id.as_str().into()),
            Self::Flush(_) | Self::Redact(_) => None,
        }
    }

    /// Bytes of a body that no other note has: what is sent is mostly slices of what was received.
    pub(super) fn body_bytes(&self) -> usize {
        match self {
            Self::Begin(begun) => begun.received.text.len(),
            Self::Leg {
                what: LegNote::Received(body),
                ..
            }
            | Self::Shown { body, .. } => body.len(),
            _ => 0,
        }
    }

    /// Bytes that it keeps in memory while it is queued. Slices of one body are counted each, so the figure may be too high and
    /// is never too low.
    pub(super) fn weight(&self) -> usize {
        let slices = match self {
            Self::Leg {
                what: LegNote::Sent(sent),
                ..
            } => sent.rope.iter().map(Bytes::len).sum(),
            _ => 0,
        };
        SMALL + self.body_bytes() + slices
    }
}
