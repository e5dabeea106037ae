//! The journal's interface for the hot path.
//!
//! It records the events of an exchange and never blocks. Beyond a bound the copy is dropped and counted, and
//! the exchange continues.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use tokio::sync::broadcast;

use super::headers::PackedHeaders;
use super::live_bodies::{LiveBodies, LivePart};
use super::queue::{
    CapturedBody, JournalNote, LegNote, LiveEvent, NoteQueue, QueueLoad, ReceivedRequest, RecordedExchange,
    SentLeg,
};
use crate::sync::locked;
use crate::telemetry::ExchangeEvent;
use baton_core::redact::Redactor;
use baton_core::wire::{StopReason, Usage};

/// Number of events buffered for live viewers. A viewer that falls further behind misses some.
const LIVE_NOTES: usize = 256;

/// Records for the journal. Clones share the queue. The default recorder records nothing and costs nothing.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<NoteQueue>>);

impl Recorder {
    /// Creates a recorder that records nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Creates a recorder and the receiving end of its queue.
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

    /// Creates the recording of an exchange, which records nothing before [`begin`](Recording::begin).
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

    /// Records the end of an exchange, even of one without a transcript.
    pub fn end(&self, event: impl Into<Box<ExchangeEvent>>) {
        let Some(queue) = &self.0 else { return };
        let event = event.into();
        let partial = locked(&queue.partial).remove(event.id.as_str());
        let id = event.id.clone();
        if !queue.send(JournalNote::End { event, partial }) {
            // The writer ends the row later, without the event.
            queue.load.lost_end(id);
        }
    }

    /// Notifies live viewers of an event in an exchange that continues. The journal stores the event with its
    /// exchange.
    pub fn tell(&self, event: impl FnOnce() -> LiveEvent) {
        let live = self.0.as_ref().map(|queue| &queue.live);
        if let Some(live) = live.filter(|live| live.receiver_count() > 0) {
            // The viewer may have disconnected.
            let _ = live.send(event());
        }
    }

    /// Redacts later records with another config's redactor.
    pub fn redact_by(&self, redactor: &Redactor) {
        let Some(queue) = &self.0 else { return };
        queue.live_bodies.redact_by(redactor.clone());
        // Dropping it would write new secrets in clear text.
        queue.send_past_bound(JournalNote::Redact(Box::new(redactor.clone())));
    }

    /// Returns how many copies were dropped because the queue was full or they could not be written.
    pub fn dropped(&self) -> u64 {
        let queue = self.0.as_ref();
        queue.map_or(0, |queue| queue.load.dropped.load(Relaxed))
    }

    /// Subscribes a live viewer to events from now on.
    pub fn watch(&self) -> Option<broadcast::Receiver<LiveEvent>> {
        self.0.as_ref().map(|queue| queue.live.subscribe())
    }

    /// Returns the response in progress so far, redacted. If it was not watched before, the text starts with
    /// the next chunk.
    pub fn live_answer(&self, id: &str) -> Vec<LivePart> {
        let queue = self.0.as_ref();
        queue.map_or_else(Vec::new, |queue| queue.live_bodies.watch(id, Instant::now()))
    }

    /// Returns the channel on which the journal's thread announces written events.
    pub(super) fn live_sender(&self) -> Option<broadcast::Sender<LiveEvent>> {
        self.0.as_ref().map(|queue| queue.live.clone())
    }

    /// Blocks until everything recorded so far is written, at most for `time`.
    ///
    /// Used at the end of the process and by tests.
    pub fn flush(&self, time: Duration) -> bool {
        let Some(queue) = &self.0 else { return true };
        let (done, written) = mpsc::channel();
        let sent = queue.send_past_bound(JournalNote::Flush(done));
        queue.load.wake_writer();
        sent && written.recv_timeout(time).is_ok()
    }
}

/// Records one exchange. Does nothing before [`Self::begin`], or when the recorder is off.
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

    /// Records the agent's request.
    pub fn begin(&self, begun: impl FnOnce() -> ReceivedRequest) {
        let Some(open) = &self.0 else { return };
        let note = JournalNote::Begin(Box::new(begun()));
        if open.queue.send(note) {
            open.begun.store(true, Relaxed);
        } else {
            // Without its beginning only the end of an exchange can be stored.
            locked(&open.queue.partial).insert(Arc::clone(&open.id));
        }
    }

    /// Records a leg's request.
    pub fn sent(&self, leg: impl FnOnce() -> SentLeg) {
        let Some(open) = self.begun() else { return };
        let sent = LegNote::Sent(Box::new(leg()));
        open.send_of_leg(open.legs.fetch_add(1, Relaxed), sent);
    }

    /// Records the response head of the leg sent last.
    pub fn answered(&self, status: u16, headers: &HeaderMap) {
        if let Some(open) = self.begun() {
            let answer = Some((status, PackedHeaders::new(headers)));
            open.send_of_leg(open.leg(), LegNote::Answered(answer));
        }
    }

    /// Records that upstream did not respond to the leg sent last.
    pub fn unanswered(&self) {
        if let Some(open) = self.begun() {
            open.send_of_leg(open.leg(), LegNote::Answered(None));
        }
    }

    /// Records usage and stop reason of the leg sent last.
    pub fn counted(&self, usage: Usage, stop: StopReason) {
        if let Some(open) = self.begun() {
            open.send_of_leg(open.leg(), LegNote::Counted(usage, stop));
        }
    }

    /// Captures the response body of the leg sent last.
    pub fn capture_leg(&self) -> BodyCapture {
        BodyCapture::new(
            self.begun()
                .map(|open| (Arc::clone(open), CapturedSide::Leg(open.leg()))),
        )
    }

    /// Captures the response to the agent, which has these `headers`.
    pub fn capture_shown(&self, headers: &HeaderMap) -> BodyCapture {
        let side = || CapturedSide::Shown(PackedHeaders::new(headers));
        BodyCapture::new(self.begun().map(|open| (Arc::clone(open), side())))
    }
}

/// Maximum size of a chunk that is copied.
///
/// Keeping a small slice would keep the whole read buffer of the connection alive, and the connection would
/// have to allocate another one.
const COPIED: usize = 4096;

/// Size up to which copied chunks are joined.
const JOINED: usize = 32 << 10;

/// Maximum step for reserving room, unless one chunk needs more. Small steps would make every chunk touch the
/// counter that all streams share.
const ROOM: usize = 16 << 10;

/// The body being captured.
enum CapturedSide {
    Leg(u32),
    Shown(PackedHeaders),
}

/// Collects the chunks of a body and queues them when dropped.
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

    /// Captures the next chunk.
    pub fn push(&mut self, chunk: &Bytes) {
        // After a gap nothing is appended, so the copy stays a prefix of the body.
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

    /// Passes the chunk to a viewer of the response. Usually there is none.
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

    /// Reserves room for at least `wanted` more bytes, within the bounds of one body and of all bodies.
    fn make_room(&mut self, wanted: usize) {
        let Some((open, _)) = &self.to else { return };
        let queue = &open.queue;
        let all = queue
            .queue_bytes
            .saturating_sub(queue.load.capturing.load(Relaxed));
        let own = queue.response_bytes.saturating_sub(self.room);
        // Grows with the body: a long response reserves rarely, and a short one does not take room that
        // others need.
        let more = wanted.max(self.buffered.clamp(ROOM / 16, ROOM)).min(all).min(own);
        queue.load.capturing.fetch_add(more, Relaxed);
        self.room += more;
    }

    fn join(&mut self) {
        if !self.small.is_empty() {
            self.body.chunks.push(std::mem::take(&mut self.small).freeze());
        }
    }

    /// Marks the end of the body as reached.
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
