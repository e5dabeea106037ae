//! The end that the hot path holds. Nothing here waits: over a bound the copy is dropped and counted, and the
//! exchange goes on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::broadcast;

use super::note::{Begun, Copied, Note};
use crate::handoff::plan::Change;
use crate::telemetry::ExchangeEvent;
use crate::wire::{Stop, Usage};

/// Notes that may wait; an exchange makes about six.
const QUEUE_NOTES: usize = 16 * 1024;

/// Notes kept free for the ends of exchanges, so that an overflow loses bodies before it loses a row.
const KEPT_FOR_ENDS: usize = 4 * 1024;

/// What is told to who watches live. Who falls further behind than this many misses some.
const LIVE_NOTES: usize = 256;

/// Something that has been written down.
#[derive(Debug, Clone)]
pub enum Live {
    /// An exchange has begun.
    Begun {
        /// Its id.
        id: String,
        /// Key of its conversation.
        conversation: Option<String>,
        /// Milliseconds since the Unix epoch.
        at_ms: u64,
    },
    /// An exchange has ended, and can be read whole.
    Ended {
        /// Its id.
        id: String,
    },
}

/// Takes notes for the journal. Clones share the queue; the default one takes nothing and costs nothing.
#[derive(Clone, Default)]
pub struct Tap(Option<Arc<Shared>>);

struct Shared {
    queue: mpsc::Sender<Note>,
    load: Arc<Load>,
    live: broadcast::Sender<Live>,
    /// Exchanges of which a note was dropped before their end.
    partial: Mutex<HashSet<String>>,
    queue_bytes: usize,
    response_bytes: usize,
}

/// What waits in the queue.
#[derive(Debug, Default)]
pub(super) struct Load {
    notes: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes of bodies that are still going by.
    gathering: AtomicUsize,
    /// Copies that were not taken, or could not be written.
    dropped: AtomicU64,
}

impl Load {
    /// So many notes could not be written.
    pub(super) fn lost(&self, notes: usize) {
        self.dropped.fetch_add(notes as u64, Relaxed);
    }

    /// A note has left the queue.
    pub(super) fn done(&self, weight: usize) {
        self.notes.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(weight, Relaxed);
    }
}

impl Tap {
    /// A tap that takes nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// A tap, and the end of its queue.
    pub(super) fn new(queue_bytes: usize, response_bytes: usize) -> (Self, mpsc::Receiver<Note>, Arc<Load>) {
        let (queue, notes) = mpsc::channel();
        let load = Arc::new(Load::default());
        let shared = Shared {
            queue,
            load: Arc::clone(&load),
            live: broadcast::channel(LIVE_NOTES).0,
            partial: Mutex::default(),
            queue_bytes,
            response_bytes,
        };
        (Self(Some(Arc::new(shared))), notes, load)
    }

    /// Whether anything is taken.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The notebook of one exchange.
    pub fn exchange(&self, id: &str) -> Recording {
        Recording(self.0.as_ref().map(|shared| {
            Arc::new(Open {
                shared: Arc::clone(shared),
                id: id.to_owned(),
                begun: AtomicBool::new(false),
                legs: AtomicU32::new(0),
            })
        }))
    }

    /// An exchange is over. Also those without a transcript are noted.
    pub fn end(&self, event: &ExchangeEvent) {
        let Some(shared) = &self.0 else { return };
        let partial = shared.lock_partial().remove(&event.id);
        shared.send(Note::End {
            event: Box::new(event.clone()),
            partial,
        });
    }

    /// Copies that were dropped because the queue was full, or could not be written.
    pub fn dropped(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |shared| shared.load.dropped.load(Relaxed))
    }

    /// What is written down from now on.
    pub fn watch(&self) -> Option<broadcast::Receiver<Live>> {
        self.0.as_ref().map(|shared| shared.live.subscribe())
    }

    /// Where the journal's thread tells what it has written.
    pub(super) fn teller(&self) -> Option<broadcast::Sender<Live>> {
        self.0.as_ref().map(|shared| shared.live.clone())
    }

    /// Waits until everything noted so far is written, at most for `time`. For the end of the process and for
    /// tests: it blocks.
    pub fn flush(&self, time: Duration) -> bool {
        let Some(shared) = &self.0 else { return true };
        let (done, written) = mpsc::channel();
        shared.load.notes.fetch_add(1, Relaxed);
        let note = Note::Flush(done);
        shared.load.bytes.fetch_add(note.weight(), Relaxed);
        shared.queue.send(note).is_ok() && written.recv_timeout(time).is_ok()
    }
}

impl Shared {
    fn lock_partial(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a note; `false` where it was dropped.
    fn send(&self, note: Note) -> bool {
        let weight = note.weight();
        let most = match note {
            Note::End { .. } => QUEUE_NOTES,
            _ => QUEUE_NOTES - KEPT_FOR_ENDS,
        };
        // The end is small, and is taken also where bodies fill the queue.
        let full = !matches!(note, Note::End { .. })
            && self.load.bytes.load(Relaxed).saturating_add(weight) > self.queue_bytes;
        if full || self.load.notes.load(Relaxed) >= most {
            self.load.dropped.fetch_add(1, Relaxed);
            return false;
        }
        self.load.notes.fetch_add(1, Relaxed);
        self.load.bytes.fetch_add(weight, Relaxed);
        // The thread is gone only when the process ends.
        self.queue.send(note).is_ok()
    }
}

/// The notebook of one exchange. Notes are taken from `begin` on; before it, and when the tap is off, all of
/// this does nothing.
#[derive(Clone, Default)]
pub struct Recording(Option<Arc<Open>>);

struct Open {
    shared: Arc<Shared>,
    id: String,
    begun: AtomicBool,
    legs: AtomicU32,
}

impl Open {
    fn send(&self, note: Note) {
        if !self.shared.send(note) {
            self.shared.lock_partial().insert(self.id.clone());
        }
    }
}

impl Recording {
    fn begun(&self) -> Option<&Arc<Open>> {
        self.0.as_ref().filter(|open| open.begun.load(Relaxed))
    }

    /// Whether anything would come of a note.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The request was understood.
    pub fn begin(&self, begun: impl FnOnce() -> Begun) {
        let Some(open) = &self.0 else { return };
        let note = Note::Begin(Box::new(begun()));
        if open.shared.send(note) {
            open.begun.store(true, Relaxed);
        } else {
            // Without its beginning nothing else of it can be kept but its end.
            open.shared.lock_partial().insert(open.id.clone());
        }
    }

    /// A leg goes out.
    pub fn sent(&self, rope: &[Bytes], changes: &[Change]) {
        let Some(open) = self.begun() else { return };
        open.send(Note::Sent {
            id: open.id.clone(),
            leg: open.legs.fetch_add(1, Relaxed),
            at_ms: now_ms(),
            rope: rope.to_vec(),
            changes: changes.to_vec(),
        });
    }

    /// Upstream has answered the leg that went out last.
    pub fn answered(&self, status: u16, headers: &HeaderMap) {
        let Some(open) = self.begun() else { return };
        open.send(Note::Answered {
            id: open.id.clone(),
            leg: open.leg(),
            status,
            headers: headers.clone(),
        });
    }

    /// How the leg that went out last came out.
    pub fn counted(&self, usage: Usage, stop: Stop) {
        let Some(open) = self.begun() else { return };
        open.send(Note::Counted {
            id: open.id.clone(),
            leg: open.leg(),
            usage,
            stop,
        });
    }

    /// Gathers upstream's body of the leg that went out last.
    pub fn gather_leg(&self) -> Gather {
        Gather::new(self.begun().map(|open| (Arc::clone(open), Side::Leg(open.leg()))))
    }

    /// Gathers what the agent is shown under `headers`.
    pub fn gather_shown(&self, headers: &HeaderMap) -> Gather {
        let side = || Side::Shown(Box::new(headers.clone()));
        Gather::new(self.begun().map(|open| (Arc::clone(open), side())))
    }
}

impl Open {
    fn leg(&self) -> u32 {
        self.legs.load(Relaxed).saturating_sub(1)
    }
}

enum Side {
    Leg(u32),
    Shown(Box<HeaderMap>),
}

/// Gathers a body's pieces and hands them over when it is dropped, however the body ended.
#[derive(Default)]
pub struct Gather {
    to: Option<(Arc<Open>, Side)>,
    body: Copied,
    held: usize,
}

impl Gather {
    fn new(to: Option<(Arc<Open>, Side)>) -> Self {
        Self {
            to,
            body: Copied::default(),
            held: 0,
        }
    }

    /// A piece went by.
    pub fn push(&mut self, chunk: &Bytes) {
        let Some((open, _)) = &self.to else { return };
        if self.body.truncated {
            return;
        }
        let shared = &open.shared;
        let all = shared
            .queue_bytes
            .saturating_sub(shared.load.gathering.load(Relaxed));
        let room = shared.response_bytes.saturating_sub(self.held).min(all);
        if room < chunk.len() {
            self.body.truncated = true;
        }
        let kept = chunk.slice(..chunk.len().min(room));
        self.held += kept.len();
        shared.load.gathering.fetch_add(kept.len(), Relaxed);
        if !kept.is_empty() {
            self.body.chunks.push(kept);
        }
    }

    /// The body was seen to its end.
    pub fn ended(&mut self) {
        self.body.ended = true;
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        let Some((open, side)) = self.to.take() else {
            return;
        };
        open.shared.load.gathering.fetch_sub(self.held, Relaxed);
        let (id, body) = (open.id.clone(), std::mem::take(&mut self.body));
        open.send(match side {
            Side::Leg(leg) => Note::Received { id, leg, body },
            Side::Shown(headers) => Note::Shown {
                id,
                headers: *headers,
                body,
            },
        });
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
