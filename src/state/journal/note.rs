//! Messages from the request path to the journal's thread.
//!
//! They consist of shared slices and small values, so nothing is parsed or copied on the request path.

use std::sync::{Arc, OnceLock, mpsc};

use bytes::Bytes;

use super::chunk_store::StoredPiece;
use super::headers::PackedHeaders;
use crate::telemetry::ExchangeEvent;
use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::rewrite::SizeChange;
use baton_core::wire::{LocatedBody, Operation, StopReason, Usage};

/// An event of an exchange.
#[derive(Debug)]
pub(super) enum JournalNote {
    /// A request with a transcript was read.
    Begin(Box<ReceivedRequest>),
    /// An event of a leg.
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
    /// The exchange has ended.
    End {
        event: Box<ExchangeEvent>,
        partial: bool,
    },
    /// Signals the sender once everything queued earlier is written.
    Flush(mpsc::Sender<()>),
    /// Redacts later notes with these rules and secrets.
    Redact(Box<Redactor>),
}

/// An event of a leg.
#[derive(Debug)]
pub(super) enum LegNote {
    /// The request is being sent.
    Sent(Box<SentLeg>),
    /// Upstream responded with this status and these headers. `None` means that it did not respond.
    Answered(Option<(u16, PackedHeaders)>),
    /// Upstream's body ended or was abandoned.
    Received(CapturedBody),
    /// Usage and stop reason of the response.
    Counted(Usage, StopReason),
}

/// Request of a leg as sent.
#[derive(Debug)]
pub struct SentLeg {
    /// URL without its query.
    pub url: String,
    /// Headers without the configured credentials.
    pub headers: PackedHeaders,
    /// Body as a rope of slices.
    pub rope: Vec<Bytes>,
    /// Body that most of the slices belong to.
    pub request: Arc<RecordedBody>,
    /// Edits by reason.
    pub changes: Vec<SizeChange>,
}

/// A request as received from the agent.
#[derive(Debug)]
pub struct ReceivedRequest {
    /// Id of the exchange.
    pub id: String,
    /// When the transcript was read, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Principal that the request belongs to.
    pub principal: String,
    /// Key of the conversation.
    pub conversation: Option<String>,
    /// Wire of the request.
    pub wire: WireId,
    /// Requested operation.
    pub operation: Operation,
    /// Name of the upstream.
    pub upstream: String,
    /// Method and path.
    pub route: String,
    /// Requested model.
    pub model: Option<String>,
    /// The agent's headers.
    pub headers: PackedHeaders,
    /// Decoded body.
    pub received: Arc<RecordedBody>,
}

/// A request's body. The notes of an exchange share it, so that its messages are hashed and looked up once.
#[derive(Debug, Default)]
pub struct RecordedBody {
    pub(super) body: LocatedBody,
    /// Rows of the messages, in order. Set together with the exchange's row, which keeps them.
    pub(super) stored: OnceLock<Vec<StoredPiece>>,
}

impl From<LocatedBody> for RecordedBody {
    fn from(body: LocatedBody) -> Self {
        Self {
            body,
            stored: OnceLock::new(),
        }
    }
}

/// A body as captured, up to the journal's bound.
#[derive(Debug, Default)]
pub struct CapturedBody {
    /// Chunks as they arrived.
    pub chunks: Vec<Bytes>,
    /// Whether the body exceeded the journal's bound and was truncated.
    pub truncated: bool,
    /// Whether the end of the body was reached.
    pub ended: bool,
}

impl CapturedBody {
    /// Returns the number of buffered bytes.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
    }

    /// Whether nothing was captured.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// Bytes that a note counts for in addition to its bodies. Headers and the event are a few kilobytes at most.
const SMALL: usize = 4096;

impl JournalNote {
    /// Returns the exchange that the note belongs to.
    pub(super) fn exchange(&self) -> Option<Arc<str>> {
        match self {
            Self::Begin(begun) => Some(begun.id.as_str().into()),
            Self::Leg { id, .. } | Self::Shown { id, .. } => Some(Arc::clone(id)),
            Self::End { event, .. } => Some(event.id.as_str().into()),
            Self::Flush(_) | Self::Redact(_) => None,
        }
    }

    /// Returns the bytes of a body that no other note contains. A sent body consists mostly of slices of the
    /// received one.
    pub(super) fn body_bytes(&self) -> usize {
        match self {
            Self::Begin(begun) => begun.received.body.text.len(),
            Self::Leg {
                what: LegNote::Received(body),
                ..
            }
            | Self::Shown { body, .. } => body.len(),
            _ => 0,
        }
    }

    /// Returns the bytes that a queued note keeps in memory.
    ///
    /// Slices of one body are counted separately, so the figure may be too high but never too low.
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
