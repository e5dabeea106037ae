//! The queue between the hot path and the journal's thread, bounded in notes and in bytes.
//!
//! Nothing here waits. A copy that does not fit is dropped and counted.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::Thread;

use tokio::sync::broadcast;

use super::chunk_store::StoredPiece;
use super::headers::PackedHeaders;
use super::live_bodies::LiveBodies;
use crate::clock::now_ms;
use crate::sync::locked;
use crate::telemetry::{ExchangeEvent, HandoffEvent};
use baton_core::record::WireId;
use baton_core::redact::Redactor;
use baton_core::rewrite::SizeChange;
use baton_core::wire::{LocatedBody, Operation, StopReason, Usage};
use bytes::Bytes;

/// Maximum number of queued notes. An exchange creates about six.
const QUEUE_NOTES: usize = 16 * 1024;

/// Slots reserved for the ends of exchanges, so that an overflow loses bodies before it loses rows.
const RESERVED_FOR_ENDS: usize = 4 * 1024;

/// Thresholds for waking the writer at once: notes, bytes of bodies, and a fraction of the byte bound.
///
/// Bodies are then freed while they are still in the processor's caches. Each wake-up has a cost, so small
/// bodies are left to accumulate.
const URGENT_NOTES: usize = QUEUE_NOTES / 4;
const URGENT_BYTES: usize = 512 << 10;
const URGENT_PART: usize = 4;

/// Maximum number of lost ends remembered until they are written.
///
/// There are more only while nothing can be written. Then the first ones matter most, because their rows are
/// in the file.
pub(super) const MAX_LOST_ENDS: usize = 16 * 1024;

/// An event for live viewers, sent after it was written.
#[derive(Debug, Clone)]
pub enum LiveEvent {
    /// An exchange began.
    Begun {
        /// Id of the exchange.
        id: String,
        /// Key of the conversation.
        conversation: Option<String>,
        /// When the exchange began, in milliseconds since the Unix epoch.
        at_ms: u64,
    },
    /// A handoff fired. Its exchange continues.
    Handoff(Box<HandoffEvent>),
    /// A model is writing a draft while an agent waits.
    Draft {
        /// Id of the `baton run` that started the agent.
        run: Option<String>,
    },
    /// An exchange ended and can be read in full.
    Ended {
        /// Id of the exchange.
        id: String,
    },
}

/// The queue, and the state that its users share.
pub(super) struct NoteQueue {
    pub(super) sender: mpsc::Sender<JournalNote>,
    pub(super) load: Arc<QueueLoad>,
    pub(super) live: broadcast::Sender<LiveEvent>,
    /// Open exchanges that have lost a note.
    pub(super) partial: Mutex<HashSet<Arc<str>>>,
    pub(super) queue_bytes: usize,
    pub(super) response_bytes: usize,
    /// Responses in progress that are watched.
    pub(super) live_bodies: LiveBodies,
}

/// Fill level of the queue.
#[derive(Debug, Default)]
pub(super) struct QueueLoad {
    pub(super) notes: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    /// Bytes of bodies queued since the writer was last woken early.
    pub(super) bodies: AtomicUsize,
    /// Bytes reserved by bodies being captured.
    pub(super) capturing: AtomicUsize,
    /// Copies that were dropped or could not be written.
    pub(super) dropped: AtomicU64,
    /// Whether to flush the queue immediately.
    pub(super) urgent: AtomicBool,
    /// Exchanges whose end did not fit into the queue.
    pub(super) lost_ends: Mutex<Vec<String>>,
    pub(super) writer: OnceLock<Thread>,
}

impl QueueLoad {
    /// Sets the writer thread.
    pub(super) fn written_by(&self, writer: Thread) {
        let _ = self.writer.set(writer);
    }

    /// Wakes the writer to write the queued notes now.
    pub(super) fn wake_writer(&self) {
        // Only the first caller unparks the thread, since a system call for each note would slow streams
        // down.
        if !self.urgent.swap(true, SeqCst)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(SeqCst)
    }

    pub(super) fn clear_urgent(&self) {
        self.bodies.store(0, Relaxed);
        self.urgent.store(false, SeqCst);
    }

    /// Counts notes that could not be written.
    pub(super) fn lost(&self, notes: usize) {
        self.dropped.fetch_add(notes as u64, Relaxed);
    }

    /// Remembers an exchange whose end was lost.
    pub(super) fn lost_end(&self, id: String) {
        let mut lost = locked(&self.lost_ends);
        if lost.len() < MAX_LOST_ENDS {
            lost.push(id);
        }
    }

    /// Takes the exchanges whose ends were lost.
    pub(super) fn take_lost_ends(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.lost_ends))
    }

    /// Records that a note has left the queue.
    pub(super) fn done(&self, weight: usize) {
        self.notes.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(weight, Relaxed);
    }
}

impl NoteQueue {
    /// Queues a note regardless of the bounds. Returns `false` if the writer has ended.
    pub(super) fn send_past_bound(&self, note: JournalNote) -> bool {
        self.load.notes.fetch_add(1, Relaxed);
        self.load.bytes.fetch_add(note.weight(), Relaxed);
        self.sender.send(note).is_ok()
    }

    /// Queues a note. Returns `false` if it was dropped.
    pub(super) fn send(&self, note: JournalNote) -> bool {
        let (weight, body) = (note.weight(), note.body_bytes());
        let most = match note {
            JournalNote::End { .. } => QUEUE_NOTES,
            _ => QUEUE_NOTES - RESERVED_FOR_ENDS,
        };
        // Ends are small and are accepted even if bodies fill the queue.
        let full = !matches!(note, JournalNote::End { .. })
            && self.load.bytes.load(Relaxed).saturating_add(weight) > self.queue_bytes;
        if full || self.load.notes.load(Relaxed) >= most {
            self.load.dropped.fetch_add(1, Relaxed);
            self.load.wake_writer();
            return false;
        }
        // Not atomic with the check above, so concurrent callers may exceed the bound by a few notes.
        let notes = self.load.notes.fetch_add(1, Relaxed);
        let bytes = self.load.bytes.fetch_add(weight, Relaxed) + weight;
        let bodies = self.load.bodies.fetch_add(body, Relaxed) + body;
        // Fails only after the writer thread ended, which is at the end of the process.
        let sent = self.sender.send(note).is_ok();
        if notes > URGENT_NOTES || bodies > URGENT_BYTES || bytes > self.queue_bytes / URGENT_PART {
            self.load.wake_writer();
        }
        sent
    }
}

/// An exchange whose notes go into the queue.
pub(super) struct RecordedExchange {
    pub(super) queue: Arc<NoteQueue>,
    pub(super) id: Arc<str>,
    pub(super) begun: AtomicBool,
    pub(super) legs: AtomicU32,
}

impl RecordedExchange {
    pub(super) fn send(&self, note: JournalNote) {
        if !self.queue.send(note) {
            locked(&self.queue.partial).insert(Arc::clone(&self.id));
        }
    }

    pub(super) fn send_of_leg(&self, leg: u32, what: LegNote) {
        self.send(JournalNote::Leg {
            id: self.id.clone(),
            leg,
            at_ms: now_ms(),
            what,
        });
    }

    /// Returns the number of the leg sent last.
    pub(super) fn leg(&self) -> u32 {
        self.legs.load(Relaxed).saturating_sub(1)
    }
}

/// An event of an exchange.
///
/// It consists of shared slices and small values, so nothing is parsed or copied on the request path.
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
    fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_nobody_writes_down_are_bounded() {
        let load = QueueLoad::default();
        for i in 0..MAX_LOST_ENDS + 100 {
            load.lost_end(i.to_string());
        }
        let lost = load.take_lost_ends();
        assert_eq!(lost.len(), MAX_LOST_ENDS);
        assert_eq!(lost[0], "0");
        assert!(load.take_lost_ends().is_empty());
    }
}
