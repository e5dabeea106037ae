//! The journal's thread: writes queued notes in small transactions and runs retention in between.
//!
//! The first note wakes it. It then waits a moment for more, so that it interrupts streams only a few times a
//! second and one transaction covers many notes. Large bodies are written at once: if they waited, the next
//! requests would need fresh memory from the kernel. As background work the thread has a lower priority.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use super::archive::Archive;
use super::queue::{JournalNote, LiveEvent, QueueLoad};
use super::retention::{self, JournalBounds};
use crate::clock::now_ms;
use crate::database::empty_log;

/// How long notes are collected before they are written. A killed process loses at most these, and viewers
/// wait this long.
const GATHER_TIME: Duration = Duration::from_millis(250);

/// Maximum number of notes in one transaction, which bounds the loss if it fails.
const BATCH: usize = 4096;

/// Idle time after which retention runs anyway.
const IDLE_RETENTION_INTERVAL: Duration = Duration::from_secs(60);

/// Number of transactions between two runs of retention.
const RETENTION_EVERY_BATCHES: u32 = 16;

/// Maximum time for freeing space before a transaction. If it does not suffice, copies are dropped.
const MAX_FREEING_TIME: Duration = Duration::from_millis(250);

/// Approximate bytes that the row of a note adds to a transaction.
const ROW: usize = 400;

pub(super) struct JournalWriter {
    pub(super) archive: Archive,
    pub(super) notes: Receiver<JournalNote>,
    pub(super) load: Arc<QueueLoad>,
    pub(super) live: Option<broadcast::Sender<LiveEvent>>,
    pub(super) bounds: JournalBounds,
    /// A note that did not fit into the last transaction.
    pub(super) next: Option<JournalNote>,
}

/// An open transaction.
struct JournalBatch {
    taken: usize,
    /// Approximate bytes written in the transaction.
    bytes: usize,
    /// Bytes that fit under the bound when the transaction began.
    room: u64,
    /// Whether there are live viewers.
    watched: bool,
    events: Vec<LiveEvent>,
    waiting: Vec<mpsc::Sender<()>>,
    written: rusqlite::Result<()>,
}

/// The writer's state between transactions.
#[derive(Default)]
struct WriterState {
    batches: u32,
    untidy: bool,
    broken: bool,
    /// Number of notes that caused a panic. Each of them is skipped.
    odd: u64,
    /// Whether the last transaction found no room under the bound.
    full: bool,
}

impl WriterState {
    fn note_result(&mut self, done: rusqlite::Result<()>) {
        match done {
            Err(error) if !self.broken => {
                self.broken = true;
                tracing::error!(%error, "failed to write the journal; continuing without it");
            }
            Ok(()) if self.broken => {
                self.broken = false;
                tracing::info!("the journal can be written again");
            }
            _ => {}
        }
    }

    fn may_tidy(&self) -> bool {
        self.untidy && !self.broken
    }

    /// Counts a note that caused a panic. The panic hook has printed the reason.
    fn note_oddity(&mut self) {
        self.odd += 1;
        // Logged at 1, 2, 4, 8, …: a note that fails in every exchange must not flood the log.
        if self.odd.is_power_of_two() {
            tracing::error!(
                notes = self.odd,
                "writing notes to the journal panicked; skipping them"
            );
        }
    }

    fn has_room(&mut self, room: bool) {
        if self.full == room {
            self.full = !room;
            if self.full {
                tracing::warn!(
                    "failed to delete old exchanges as fast as journal.max_bytes is reached; dropping copies"
                );
            }
        }
    }
}

/// The result of one step of the loop.
enum WriterStep {
    Done,
    /// All recorders were dropped.
    Over,
}

impl JournalWriter {
    /// Runs until all recorders are dropped.
    pub(super) fn run(mut self) {
        run_in_background();
        self.load.written_by(thread::current());
        let mut state = WriterState {
            untidy: true,
            ..WriterState::default()
        };
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.step(&mut state))) {
                Ok(WriterStep::Done) => {}
                Ok(WriterStep::Over) => return,
                Err(_) => {
                    state.note_oddity();
                    // Retention may have caused the panic. It is not retried before some more transactions.
                    state.untidy = false;
                    self.roll_back();
                }
            }
        }
    }

    fn step(&mut self, state: &mut WriterState) -> WriterStep {
        // While retention has work to do, the queue is only polled.
        let wait = if state.may_tidy() {
            Duration::ZERO
        } else {
            IDLE_RETENTION_INTERVAL
        };
        let first = match self.next.take() {
            Some(note) => Ok(note),
            None => self.notes.recv_timeout(wait),
        };
        match first {
            Ok(first) => {
                self.next = Some(first);
                self.capture(state);
            }
            Err(RecvTimeoutError::Timeout) => self.tidy(state),
            Err(RecvTimeoutError::Disconnected) => return WriterStep::Over,
        }
        WriterStep::Done
    }

    /// Collects notes for a moment and commits them.
    ///
    /// Notes with large bodies, and those that somebody waits for, are written meanwhile. Their memory is
    /// then freed while it is still in the processor's caches.
    fn capture(&mut self, state: &mut WriterState) {
        let until = Instant::now() + GATHER_TIME;
        let mut batch = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.load.is_urgent() {
                // Cleared first: notes that become urgent from here on are queued after the present ones.
                self.load.clear_urgent();
                self.fill_batch(&mut batch, state);
            }
            if left.is_zero() {
                break;
            }
            if batch.is_none() && state.may_tidy() {
                self.tidy(state);
            } else if !self.load.is_urgent() {
                // `wake_writer` unparks the thread once notes become urgent.
                thread::park_timeout(left);
            }
        }
        // The queue has been emptied, so a lost end that still has no row will never get one.
        if self.commit(batch, state) {
            self.archive.unended.clear();
        }
    }

    fn tidy(&mut self, state: &mut WriterState) {
        let done = retention::step(&mut self.archive, self.bounds, now_ms(), false);
        if let Ok(more) = done {
            state.untidy = more;
        }
        state.note_result(done.map(drop));
        thread::yield_now();
    }

    /// Applies all queued notes. A transaction that has become large is committed, and another one begins.
    fn fill_batch(&mut self, batch: &mut Option<JournalBatch>, state: &mut WriterState) {
        while let Some(note) = self.take() {
            let weight = note.weight();
            let fits = |open: &JournalBatch| {
                open.taken < BATCH
                    && open.bytes <= self.bounds.transaction()
                    && (open.bytes + weight) as u64 <= open.room
            };
            if batch.as_ref().is_some_and(|open| !fits(open)) {
                self.commit(batch.take(), state);
            }
            if batch.is_none() {
                *batch = self.begin(weight, state);
            }
            let Some(open) = batch else {
                self.leave_out(note);
                continue;
            };
            open.taken += 1;
            open.events.extend(live_event(&note).filter(|_| open.watched));
            if let JournalNote::Flush(done) = note {
                open.waiting.push(done);
            } else if open.written.is_ok() {
                open.written = self.write(note, state);
            } else {
                self.archive.skip(&note);
            }
            open.bytes += ROW + self.archive.chunk_store.take_fresh();
            self.load.done(weight);
            // Somebody waits for a flush.
            if !open.waiting.is_empty() {
                self.commit(batch.take(), state);
            }
        }
    }

    /// Begins a transaction. Returns `None` if there is no room for one.
    fn begin(&mut self, weight: usize, state: &mut WriterState) -> Option<JournalBatch> {
        state.batches = state.batches.wrapping_add(1);
        state.untidy |= state.batches.is_multiple_of(RETENTION_EVERY_BATCHES);
        for id in self.load.take_lost_ends() {
            self.archive.lose_end(id.into());
        }
        let room = match self.make_room(weight) {
            Ok(room) => {
                state.has_room(room.is_some());
                room?
            }
            Err(error) => {
                state.note_result(Err(error));
                return None;
            }
        };
        Some(JournalBatch {
            taken: 0,
            bytes: 0,
            room,
            watched: self.live.as_ref().is_some_and(|live| live.receiver_count() > 0),
            events: Vec::new(),
            waiting: Vec::new(),
            written: self.archive.begin_writing(),
        })
    }

    /// Commits a transaction. Returns false if there is none or it failed.
    fn commit(&mut self, batch: Option<JournalBatch>, state: &mut WriterState) -> bool {
        let Some(batch) = batch else { return false };
        let written = batch.written.and_then(|()| self.archive.settle());
        if written.is_err() {
            self.roll_back();
            self.load.lost(batch.taken);
        } else if let Some(live) = &self.live {
            for live_event in batch.events {
                // The viewer may have disconnected.
                let _ = live.send(live_event);
            }
        }
        for done in batch.waiting {
            // The caller may have given up.
            let _ = done.send(());
        }
        let committed = written.is_ok();
        state.note_result(written);
        committed
    }

    /// Returns the next queued note.
    fn take(&mut self) -> Option<JournalNote> {
        self.next.take().or_else(|| self.notes.try_recv().ok())
    }

    /// Deletes the oldest exchanges until a transaction of this size fits under the bound, or the time is up.
    ///
    /// Returns the bytes that fit then, or `None` if they do not suffice.
    fn make_room(&mut self, weight: usize) -> rusqlite::Result<Option<u64>> {
        let until = Instant::now() + MAX_FREEING_TIME;
        let least = (self.bounds.transaction() + weight) as u64;
        loop {
            let room = retention::room(&self.archive.conn, self.bounds)?;
            if room >= least {
                return Ok(Some(room));
            }
            if Instant::now() > until {
                return Ok(None);
            }
            if !retention::step(&mut self.archive, self.bounds, now_ms(), true)? {
                // Nothing is left to delete, but truncating the log may still free space.
                empty_log(&self.archive.conn)?;
                let room = retention::room(&self.archive.conn, self.bounds)?;
                return Ok((room >= least).then_some(room));
            }
            thread::yield_now();
        }
    }

    /// Skips a note that does not fit or cannot be written.
    fn leave_out(&mut self, note: JournalNote) {
        self.load.done(note.weight());
        match note {
            // The caller may have given up.
            JournalNote::Flush(done) => drop(done.send(())),
            note => {
                self.archive.skip(&note);
                self.load.lost(1);
            }
        }
    }

    /// Applies one note. A note that causes a panic is counted and skipped, and the transaction continues.
    fn write(&mut self, note: JournalNote, state: &mut WriterState) -> rusqlite::Result<()> {
        let (id, is_end) = (note.exchange(), matches!(note, JournalNote::End { .. }));
        let write = AssertUnwindSafe(|| self.archive.write(note));
        let written = catch_unwind(write);
        if !matches!(written, Ok(Ok(()))) {
            self.archive.lost(id, is_end);
        }
        written.unwrap_or_else(|_| {
            state.note_oddity();
            self.load.lost(1);
            Ok(())
        })
    }

    fn roll_back(&mut self) {
        if !self.archive.conn.is_autocommit() {
            // The rollback fails if no transaction was open, which is fine.
            let _ = self.archive.conn.execute_batch("ROLLBACK");
        }
        self.archive.rolled_back();
    }
}

/// Lowers this thread's priority.
///
/// Not to the lowest one or to the idle class: on a busy machine the queue would overflow and copies would be
/// dropped.
fn run_in_background() {
    /// The nice value: a third of the weight of a thread with the default priority.
    #[cfg(target_os = "linux")]
    const NICE: i32 = 5;
    // On Linux this affects only the calling thread. If it is refused, the thread keeps its priority.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Drops all notes of a journal that could not be opened.
pub(super) fn drop_all(notes: &Receiver<JournalNote>, load: &QueueLoad) {
    for note in notes {
        load.done(note.weight());
        match note {
            // The caller may have given up.
            JournalNote::Flush(done) => drop(done.send(())),
            _ => load.lost(1),
        }
    }
}

/// Returns the event that live viewers get for a note.
fn live_event(note: &JournalNote) -> Option<LiveEvent> {
    match note {
        JournalNote::Begin(begun) => Some(LiveEvent::Begun {
            id: begun.id.clone(),
            conversation: begun.conversation.clone(),
            at_ms: begun.at_ms,
        }),
        JournalNote::End { event, .. } => Some(LiveEvent::Ended { id: event.id.clone() }),
        _ => None,
    }
}
