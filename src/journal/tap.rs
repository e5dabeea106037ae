//! The end that the hot path holds. Nothing here waits: over a bound the copy is dropped and counted, and the
//! exchange goes on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::Thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::sync::broadcast;

use super::fast::{Beginnings, Key};
use super::note::{Begun, Copied, Note, SentLeg};
use super::packed::PackedHeaders;
use crate::telemetry::{ExchangeEvent, HandoffEvent};
use crate::wire::{Stop, Usage};

/// Notes that may wait; an exchange makes about six.
const QUEUE_NOTES: usize = 16 * 1024;

/// Notes kept free for the ends of exchanges, so that an overflow loses bodies before it loses a row.
const KEPT_FOR_ENDS: usize = 4 * 1024;

/// Notes, and bytes of bodies, that are not left waiting for more to come; or this part of what may wait at all. Bodies are let
/// go while they are in the caches, and their memory is used again for the next. Each time costs the thread's waking, so
/// small bodies are to be many.
const URGENT_NOTES: usize = QUEUE_NOTES / 4;
const URGENT_BYTES: usize = 512 << 10;
const URGENT_PART: usize = 4;

/// Ends that did not come and are still to be written down. More of them come together only while nothing can be
/// written, and then the first ones are those whose beginning stands in the file.
pub(super) const MOST_LOST_ENDS: usize = 16 * 1024;

/// A piece of a body under this size is copied. A piece that is kept keeps the whole buffer that the connection was
/// read into, and the connection then has to make itself another one.
const COPIED: usize = 4096;

/// Copied pieces are joined up to this size.
const JOINED: usize = 32 << 10;

/// Room is taken for so much at a time, so that the counter that all streams share is not touched for each piece.
const ROOM: usize = 16 << 10;

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
    /// A handoff has fired; its exchange goes on.
    Handoff(Box<HandoffEvent>),
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
    partial: Mutex<HashSet<Arc<str>>>,
    queue_bytes: usize,
    response_bytes: usize,
    /// Of the journal's hashes.
    key: Key,
}

/// What waits in the queue.
#[derive(Debug, Default)]
pub(super) struct Load {
    notes: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes of bodies that came since the thread was last told to hurry.
    bodies: AtomicUsize,
    /// Bytes of bodies that are still going by.
    gathering: AtomicUsize,
    /// Copies that were not taken, or could not be written.
    dropped: AtomicU64,
    /// Whether what waits is to be written at once.
    urgent: AtomicBool,
    /// Exchanges whose end did not find room in the queue, so that nobody waits for it.
    lost_ends: Mutex<Vec<String>>,
    keeper: OnceLock<Thread>,
}

impl Load {
    /// The thread that writes.
    pub(super) fn kept_by(&self, keeper: Thread) {
        let _ = self.keeper.set(keeper);
    }

    /// Has it write what waits now.
    fn hurry(&self) {
        if !self.urgent.swap(true, SeqCst)
            && let Some(keeper) = self.keeper.get()
        {
            keeper.unpark();
        }
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.load(SeqCst)
    }

    pub(super) fn calm(&self) {
        self.bodies.store(0, Relaxed);
        self.urgent.store(false, SeqCst);
    }

    /// So many notes could not be written.
    pub(super) fn lost(&self, notes: usize) {
        self.dropped.fetch_add(notes as u64, Relaxed);
    }

    /// The end of this exchange will not come.
    fn lost_end(&self, id: String) {
        let mut lost = self.lock_lost_ends();
        if lost.len() < MOST_LOST_ENDS {
            lost.push(id);
        }
    }

    /// Exchanges whose ends will not come, once.
    pub(super) fn take_lost_ends(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock_lost_ends())
    }

    fn lock_lost_ends(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.lost_ends.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn new(
        queue_bytes: usize,
        response_bytes: usize,
        key: Key,
    ) -> (Self, mpsc::Receiver<Note>, Arc<Load>) {
        let (queue, notes) = mpsc::channel();
        let load = Arc::new(Load::default());
        let shared = Shared {
            queue,
            load: Arc::clone(&load),
            live: broadcast::channel(LIVE_NOTES).0,
            partial: Mutex::default(),
            queue_bytes,
            response_bytes,
            key,
        };
        (Self(Some(Arc::new(shared))), notes, load)
    }

    /// Whether anything is taken.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Takes the hashes of a body's beginnings while it arrives.
    pub fn beginnings(&self) -> Option<Beginnings> {
        self.0.as_ref().map(|shared| Beginnings::new(&shared.key))
    }

    /// The notebook of one exchange.
    pub fn exchange(&self, id: &str) -> Recording {
        Recording(self.0.as_ref().map(|shared| {
            Arc::new(Open {
                shared: Arc::clone(shared),
                id: id.into(),
                begun: AtomicBool::new(false),
                legs: AtomicU32::new(0),
            })
        }))
    }

    /// An exchange is over. Also those without a transcript are noted.
    pub fn end(&self, event: &ExchangeEvent) {
        let Some(shared) = &self.0 else { return };
        let partial = shared.lock_partial().remove(event.id.as_str());
        let end = Note::End {
            event: Box::new(event.clone()),
            partial,
        };
        if !shared.send(end) {
            shared.load.lost_end(event.id.clone());
        }
    }

    /// A handoff has fired: whoever watches hears of it now, and the journal keeps it with its exchange.
    pub fn handoff(&self, event: &HandoffEvent) {
        let live = self.0.as_ref().map(|shared| &shared.live);
        if let Some(live) = live.filter(|live| live.receiver_count() > 0) {
            // Whoever watched may just have gone.
            let _ = live.send(Live::Handoff(Box::new(event.clone())));
        }
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
        let sent = shared.queue.send(note).is_ok();
        shared.load.hurry();
        sent && written.recv_timeout(time).is_ok()
    }
}

impl Shared {
    fn lock_partial(&self) -> std::sync::MutexGuard<'_, HashSet<Arc<str>>> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a note; `false` where it was dropped.
    fn send(&self, note: Note) -> bool {
        let (weight, body) = (note.weight(), note.body_bytes());
        let most = match note {
            Note::End { .. } => QUEUE_NOTES,
            _ => QUEUE_NOTES - KEPT_FOR_ENDS,
        };
        // The end is small, and is taken also where bodies fill the queue.
        let full = !matches!(note, Note::End { .. })
            && self.load.bytes.load(Relaxed).saturating_add(weight) > self.queue_bytes;
        if full || self.load.notes.load(Relaxed) >= most {
            self.load.dropped.fetch_add(1, Relaxed);
            self.load.hurry();
            return false;
        }
        let notes = self.load.notes.fetch_add(1, Relaxed);
        let bytes = self.load.bytes.fetch_add(weight, Relaxed) + weight;
        let bodies = self.load.bodies.fetch_add(body, Relaxed) + body;
        // The thread is gone only when the process ends.
        let sent = self.queue.send(note).is_ok();
        if notes > URGENT_NOTES || bodies > URGENT_BYTES || bytes > self.queue_bytes / URGENT_PART {
            self.load.hurry();
        }
        sent
    }
}

/// The notebook of one exchange. Notes are taken from `begin` on; before it, and when the tap is off, all of
/// this does nothing.
#[derive(Clone, Default)]
pub struct Recording(Option<Arc<Open>>);

struct Open {
    shared: Arc<Shared>,
    id: Arc<str>,
    begun: AtomicBool,
    legs: AtomicU32,
}

impl Open {
    fn send(&self, note: Note) {
        if !self.shared.send(note) {
            self.shared.lock_partial().insert(Arc::clone(&self.id));
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
            open.shared.lock_partial().insert(Arc::clone(&open.id));
        }
    }

    /// A leg goes out.
    pub fn sent(&self, leg: impl FnOnce() -> SentLeg) {
        let Some(open) = self.begun() else { return };
        open.send(Note::Sent {
            id: open.id.clone(),
            leg: open.legs.fetch_add(1, Relaxed),
            at_ms: now_ms(),
            sent: Box::new(leg()),
        });
    }

    /// Upstream has answered the leg that went out last.
    pub fn answered(&self, status: u16, headers: &HeaderMap) {
        if let Some(open) = self.begun() {
            open.answered(Some((status, PackedHeaders::new(headers))));
        }
    }

    /// Upstream gave no answer to the leg that went out last.
    pub fn unanswered(&self) {
        if let Some(open) = self.begun() {
            open.answered(None);
        }
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
        let side = || Side::Shown(PackedHeaders::new(headers));
        Gather::new(self.begun().map(|open| (Arc::clone(open), side())))
    }
}

impl Open {
    fn answered(&self, answer: Option<(u16, PackedHeaders)>) {
        self.send(Note::Answered {
            id: self.id.clone(),
            leg: self.leg(),
            at_ms: now_ms(),
            answer,
        });
    }

    fn leg(&self) -> u32 {
        self.legs.load(Relaxed).saturating_sub(1)
    }
}

enum Side {
    Leg(u32),
    Shown(PackedHeaders),
}

/// Gathers a body's pieces and hands them over when it is dropped, however the body ended.
#[derive(Default)]
pub struct Gather {
    to: Option<(Arc<Open>, Side)>,
    body: Copied,
    /// Small pieces, joined.
    small: BytesMut,
    held: usize,
    /// Bytes that may be held.
    room: usize,
}

impl Gather {
    fn new(to: Option<(Arc<Open>, Side)>) -> Self {
        let mut gather = Self::default();
        gather.to = to;
        gather
    }

    /// A piece went by.
    pub fn push(&mut self, chunk: &Bytes) {
        if self.to.is_none() || self.body.truncated {
            return;
        }
        if self.room - self.held < chunk.len() {
            self.make_room(chunk.len());
        }
        let len = chunk.len().min(self.room - self.held);
        self.body.truncated = len < chunk.len();
        self.held += len;
        if len < COPIED {
            self.small.extend_from_slice(&chunk[..len]);
            if self.small.len() >= JOINED {
                self.join();
            }
        } else {
            self.join();
            self.body.chunks.push(chunk.slice(..len));
        }
    }

    /// Takes room for `wanted` more bytes and some, within what one body and all together may have.
    fn make_room(&mut self, wanted: usize) {
        let Some((Open { shared, .. }, _)) = self.to.as_ref().map(|(open, side)| (&**open, side)) else {
            return;
        };
        let all = shared
            .queue_bytes
            .saturating_sub(shared.load.gathering.load(Relaxed));
        let own = shared.response_bytes.saturating_sub(self.room);
        // A long answer asks rarely, a short one does not take what others need.
        let more = wanted.max(self.held.clamp(ROOM / 16, ROOM)).min(all).min(own);
        shared.load.gathering.fetch_add(more, Relaxed);
        self.room += more;
    }

    fn join(&mut self) {
        if !self.small.is_empty() {
            self.body.chunks.push(std::mem::take(&mut self.small).freeze());
        }
    }

    /// The body was seen to its end.
    pub fn ended(&mut self) {
        self.body.ended = true;
    }
}

impl Drop for Gather {
    fn drop(&mut self) {
        self.join();
        let Some((open, side)) = self.to.take() else {
            return;
        };
        open.shared.load.gathering.fetch_sub(self.room, Relaxed);
        let (id, body) = (open.id.clone(), std::mem::take(&mut self.body));
        open.send(match side {
            Side::Leg(leg) => Note::Received {
                id,
                leg,
                at_ms: now_ms(),
                body,
            },
            Side::Shown(headers) => Note::Shown { id, headers, body },
        });
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_that_nobody_writes_down_are_bounded() {
        let load = Load::default();
        for i in 0..MOST_LOST_ENDS + 100 {
            load.lost_end(i.to_string());
        }
        let lost = load.take_lost_ends();
        assert_eq!(lost.len(), MOST_LOST_ENDS);
        assert_eq!(lost[0], "0");
        assert!(load.take_lost_ends().is_empty());
    }
}
