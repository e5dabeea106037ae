//! The journal's interface for the hot path. It records the events of an exchange and never blocks: above a bound the copy is
//! dropped and counted, and the exchange continues.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::sync::broadcast;

use super::headers::PackedHeaders;
use super::live_bodies::{LiveBodies, LivePart};
use super::note::{CapturedBody, JournalNote, LegNote, ReceivedRequest, SentLeg};
use super::queue::{LiveEvent, NoteQueue, QueueLoad, RecordedExchange};
use crate::sync::locked;
use crate::telemetry::ExchangeEvent;
use baton_core::redact::Redactor;
use baton_core::wire::{StopReason, Usage};

/// Events buffered for live viewers. A viewer that falls further after misses some.
const LIVE_NOTES: usize = 256;

/// Records for the journal. Clones share the queue; the default one records nothing and costs nothing.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<NoteQueue>>);

impl Recorder {
    /// A recorder that records nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// A recorder, and the receiving end of its queue.
    pub(super) fn new(
        queue_bytes: usize,
        response_bytes: usize,
        redactor: Redactor,
    ) -> (Self, mpsc::Receiver<JournalNote>, Arc<QueueLoad>) {
        let (sender, notes) = mpsc::channel();
        let load = Arc::new(QueueLoad::default());
        let queue = NoteQueue {
            sender,
            load: Arc::clone(&load),
            live: broadcast::channel(LIVE_NOTES).0,
            partial: Mutex::default(),
            queue_bytes,
            response_bytes,
            live_bodies: LiveBodies::new(redactor),
        };
        (Self(Some(Arc::new(queue))), notes, load)
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The recording of the exchange with this id.
    pub fn exchange(&self, id: &str) -> Recording {
        Recording(self.0.as_ref().map(|queue| {
            Arc::new(RecordedExchange {
                queue: Arc::clone(queue),
                id: id.into(),
                begun: AtomicBool::new(false),
                legs: AtomicU32::new(0),
            })
        }))
    }

    /// Records the end of an exchange, also of one without a transcript.
    pub fn end(&self, event: &ExchangeEvent) {
        let Some(queue) = &self.0 else { return };
        let partial = locked(&queue.partial).remove(event.id.as_str());
        let end = JournalNote::End {
            event: Box::new(event.clone()),
            partial,
        };
        if !queue.send(end) {
            queue.load.lost_end(event.id.clone());
        }
    }

    /// Notifies live viewers now of something in an exchange that continues: the journal keeps it with its exchange.
    pub fn tell(&self, event: impl FnOnce() -> LiveEvent) {
        let live = self.0.as_ref().map(|queue| &queue.live);
        if let Some(live) = live.filter(|live| live.receiver_count() > 0) {
            // The viewer may have disconnected.
            let _ = live.send(event());
        }
    }

    /// Redacts what is recorded from now on by another config.
    pub fn redact_by(&self, redactor: &Redactor) {
        let Some(queue) = &self.0 else { return };
        queue.live_bodies.redact_by(redactor.clone());
        // Never dropped, like a flush: without it a secret would be written.
        let note = JournalNote::Redact(Box::new(redactor.clone()));
        queue.load.notes.fetch_add(1, Relaxed);
        queue.load.bytes.fetch_add(note.weight(), Relaxed);
        // The thread ends only with the process.
        let _ = queue.sender.send(note);
    }

    /// How many copies were dropped because the queue was full, or could not be written.
    pub fn dropped(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |queue| queue.load.dropped.load(Relaxed))
    }

    /// Events from now on, for a live viewer.
    pub fn watch(&self) -> Option<broadcast::Receiver<LiveEvent>> {
        self.0.as_ref().map(|queue| queue.live.subscribe())
    }

    /// What there is of an answer under way, redacted; for an answer that was not watched before, from the next chunk
    /// on.
    pub fn live_answer(&self, id: &str) -> Vec<LivePart> {
        let queue = self.0.as_ref();
        queue.map_or_else(Vec::new, |queue| queue.live_bodies.watch(id, Instant::now()))
    }

    /// The channel on which the journal's thread announces written events.
    pub(super) fn live_sender(&self) -> Option<broadcast::Sender<LiveEvent>> {
        self.0.as_ref().map(|queue| queue.live.clone())
    }

    /// Blocks until everything recorded so far is written, at most for `time`. For the end of the process and for tests.
    pub fn flush(&self, time: Duration) -> bool {
        let Some(queue) = &self.0 else { return true };
        let (done, written) = mpsc::channel();
        queue.load.notes.fetch_add(1, Relaxed);
        let note = JournalNote::Flush(done);
        queue.load.bytes.fetch_add(note.weight(), Relaxed);
        let sent = queue.sender.send(note).is_ok();
        queue.load.wake_writer();
        sent && written.recv_timeout(time).is_ok()
    }
}

/// Records one exchange. Before [`Self::begin`], and when the recorder is off, all of this does nothing.
#[derive(Clone, Default)]
pub struct Recording(Option<Arc<RecordedExchange>>);

impl Recording {
    fn begun(&self) -> Option<&Arc<RecordedExchange>> {
        self.0.as_ref().filter(|open| open.begun.load(Relaxed))
    }

    /// Whether the recorder is on.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The request was read.
    pub fn begin(&self, begun: impl FnOnce() -> ReceivedRequest) {
        let Some(open) = &self.0 else { return };
        let note = JournalNote::Begin(Box::new(begun()));
        if open.queue.send(note) {
            open.begun.store(true, Relaxed);
        } else {
            // Without its first note only its end can be kept.
            locked(&open.queue.partial).insert(Arc::clone(&open.id));
        }
    }

    /// A leg is sent.
    pub fn sent(&self, leg: impl FnOnce() -> SentLeg) {
        let Some(open) = self.begun() else { return };
        let sent = LegNote::Sent(Box::new(leg()));
        open.send_of_leg(open.legs.fetch_add(1, Relaxed), sent);
    }

    /// Upstream has answered the leg that went out last.
    pub fn answered(&self, status: u16, headers: &HeaderMap) {
        if let Some(open) = self.begun() {
            let answer = Some((status, PackedHeaders::new(headers)));
            open.send_of_leg(open.leg(), LegNote::Answered(answer));
        }
    }

    /// Upstream gave no answer to the leg that went out last.
    pub fn unanswered(&self) {
        if let Some(open) = self.begun() {
            open.send_of_leg(open.leg(), LegNote::Answered(None));
        }
    }

    /// Usage and stop reason of the leg that went out last.
    pub fn counted(&self, usage: Usage, stop: StopReason) {
        if let Some(open) = self.begun() {
            open.send_of_leg(open.leg(), LegNote::Counted(usage, stop));
        }
    }

    /// Captures upstream's body of the leg that went out last.
    pub fn capture_leg(&self) -> BodyCapture {
        BodyCapture::new(
            self.begun()
                .map(|open| (Arc::clone(open), CapturedSide::Leg(open.leg()))),
        )
    }

    /// Captures what the agent is shown under `headers`.
    pub fn capture_shown(&self, headers: &HeaderMap) -> BodyCapture {
        let side = || CapturedSide::Shown(PackedHeaders::new(headers));
        BodyCapture::new(self.begun().map(|open| (Arc::clone(open), side())))
    }
}

/// Chunks under this size are copied. Keeping a slice would keep the whole buffer that the connection was read into, and the
/// connection would have to allocate another.
const COPIED: usize = 4096;

/// Copied chunks are joined up to this size.
const JOINED: usize = 32 << 10;

/// Room is reserved in steps of this size, so that not every chunk touches the counter that all streams share.
const ROOM: usize = 16 << 10;

/// Which body it is.
enum CapturedSide {
    Leg(u32),
    Shown(PackedHeaders),
}

/// Collects a body's chunks, and queues them when it is dropped.
#[derive(Default)]
pub struct BodyCapture {
    to: Option<(Arc<RecordedExchange>, CapturedSide)>,
    body: CapturedBody,
    /// Small chunks, joined.
    small: BytesMut,
    buffered: usize,
    /// Bytes that may be buffered.
    room: usize,
}

impl BodyCapture {
    fn new(to: Option<(Arc<RecordedExchange>, CapturedSide)>) -> Self {
        let mut capture = Self::default();
        capture.to = to;
        capture
    }

    /// Copies the next chunk.
    pub fn push(&mut self, chunk: &Bytes) {
        if self.to.is_none() || self.body.truncated {
            return;
        }
        if self.room - self.buffered < chunk.len() {
            self.make_room(chunk.len());
        }
        let len = chunk.len().min(self.room - self.buffered);
        self.body.truncated = len < chunk.len();
        self.buffered += len;
        if len < COPIED {
            self.small.extend_from_slice(&chunk[..len]);
            if self.small.len() >= JOINED {
                self.join();
            }
        } else {
            self.join();
            self.body.chunks.push(chunk.slice(..len));
        }
        self.publish(&chunk[..len]);
    }

    /// Gives the chunk to a viewer of the answer; mostly there is none.
    fn publish(&self, chunk: &[u8]) {
        let Some((open, CapturedSide::Shown(_))) = &self.to else {
            return;
        };
        let live = &open.queue.live_bodies;
        if live.is_watched() {
            live.push(&open.id, chunk, || {
                let chunks = self.body.chunks.iter().map(|chunk| &chunk[..]);
                chunks.chain([&self.small[..]]).collect::<Vec<_>>().concat()
            });
        }
    }

    /// Reserves room for `wanted` more bytes and some beyond, within the bounds of one body and of all together.
    fn make_room(&mut self, wanted: usize) {
        let Some((RecordedExchange { queue, .. }, _)) = self.to.as_ref().map(|(open, side)| (&**open, side))
        else {
            return;
        };
        let all = queue
            .queue_bytes
            .saturating_sub(queue.load.capturing.load(Relaxed));
        let own = queue.response_bytes.saturating_sub(self.room);
        // A long answer reserves rarely, and a short one does not take what others need.
        let more = wanted.max(self.buffered.clamp(ROOM / 16, ROOM)).min(all).min(own);
        queue.load.capturing.fetch_add(more, Relaxed);
        self.room += more;
    }

    fn join(&mut self) {
        if !self.small.is_empty() {
            self.body.chunks.push(std::mem::take(&mut self.small).freeze());
        }
    }

    /// Marks the body as seen to its end.
    pub fn ended(&mut self) {
        self.body.ended = true;
    }
}

impl Drop for BodyCapture {
    fn drop(&mut self) {
        self.join();
        let Some((open, side)) = self.to.take() else {
            return;
        };
        open.queue.load.capturing.fetch_sub(self.room, Relaxed);
        let (id, body) = (open.id.clone(), std::mem::take(&mut self.body));
        if matches!(side, CapturedSide::Shown(_)) && open.queue.live_bodies.is_watched() {
            open.queue.live_bodies.ended(&id);
        }
        match side {
            CapturedSide::Leg(leg) => open.send_of_leg(leg, LegNote::Received(body)),
            CapturedSide::Shown(headers) => open.send(JournalNote::Shown { id, headers, body }),
        }
    }
}
