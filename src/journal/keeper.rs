//! The journal's one thread: takes what waits, writes it in small transactions, tidies up in between.
//!
//! It is woken by the first note and then lets more come for a moment. So it stands in a stream's way a few times a
//! second and not at every note, and what a transaction costs is shared by all that happened meanwhile. Only large bodies
//! are taken in at once: kept, each request would be read into memory that the kernel has to find first. It is background
//! work: it has a smaller share of a busy processor, and offers it to others all the time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use super::archive::Archive;
use super::keep::{self, Bounds};
use super::note::Note;
use super::tap::{Live, Load, now_ms};

/// How long notes are gathered before they are written: what a killed process loses at most, and what a viewer waits.
const GATHERED: Duration = Duration::from_millis(250);

/// Most notes in one transaction: bounds what is lost with one that fails.
const BATCH: usize = 4096;

/// How long nothing may happen before the bounds are looked at anyway.
const REST: Duration = Duration::from_secs(60);

/// Transactions between two looks at the bounds.
const LOOK_EVERY: u32 = 16;

/// How long room is made for a transaction. Whoever notes more than can be dropped in that time loses copies.
const MAKING_ROOM: Duration = Duration::from_millis(250);

/// What a note's row takes of a transaction, about.
const ROW: usize = 400;

pub(super) struct Keeper {
    pub(super) archive: Archive,
    pub(super) notes: Receiver<Note>,
    pub(super) load: Arc<Load>,
    pub(super) live: Option<broadcast::Sender<Live>>,
    pub(super) bounds: Bounds,
    /// A note that did not fit into a transaction any more.
    pub(super) next: Option<Note>,
}

/// What was taken in and is not committed yet.
struct Batch {
    taken: usize,
    /// Bytes that were written, about.
    bytes: usize,
    /// Bytes for which there was room under the bound when it was begun.
    room: u64,
    /// Whether anybody watches.
    watched: bool,
    told: Vec<Live>,
    waiting: Vec<mpsc::Sender<()>>,
    written: rusqlite::Result<()>,
}

/// What has come of the work so far.
#[derive(Default)]
struct State {
    batches: u32,
    untidy: bool,
    broken: bool,
    /// Notes that panicked; each is left out.
    odd: u64,
    /// Whether there was no room under the bound.
    full: bool,
}

impl State {
    fn came_to(&mut self, done: rusqlite::Result<()>) {
        match done {
            Err(error) if !self.broken => {
                self.broken = true;
                tracing::error!(%error, "the journal cannot be written; the proxy goes on without");
            }
            Ok(()) if self.broken => {
                self.broken = false;
                tracing::info!("the journal can be written again");
            }
            _ => {}
        }
    }

    fn tidies(&self) -> bool {
        self.untidy && !self.broken
    }

    /// A note's work panicked. The hook has printed why; here it is counted.
    fn is_odd(&mut self) {
        self.odd += 1;
        if self.odd.is_power_of_two() {
            tracing::error!(notes = self.odd, "the journal left out what it could not read");
        }
    }

    fn has_room(&mut self, room: bool) {
        if self.full == room {
            self.full = !room;
            if self.full {
                tracing::warn!(
                    "journal.max_bytes is reached faster than old exchanges can go: copies are dropped"
                );
            }
        }
    }
}

/// What a step of the loop came to.
enum Step {
    Done,
    /// Every tap is gone.
    Over,
}

impl Keeper {
    /// Works until every tap is gone.
    pub(super) fn run(mut self) {
        run_in_background();
        self.load.kept_by(thread::current());
        let mut state = State {
            untidy: true,
            ..State::default()
        };
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.step(&mut state))) {
                Ok(Step::Done) => {}
                Ok(Step::Over) => return,
                Err(_) => {
                    state.is_odd();
                    state.untidy = false;
                    self.roll_back();
                }
            }
        }
    }

    fn step(&mut self, state: &mut State) -> Step {
        let wait = if state.tidies() { Duration::ZERO } else { REST };
        let first = match self.next.take() {
            Some(note) => Ok(note),
            None => self.notes.recv_timeout(wait),
        };
        match first {
            Ok(first) => {
                self.next = Some(first);
                self.gather(state);
            }
            Err(RecvTimeoutError::Timeout) => self.tidy(state),
            Err(RecvTimeoutError::Disconnected) => return Step::Over,
        }
        Step::Done
    }

    /// Lets notes come for a moment and commits what came. Large ones are taken in meanwhile, so that their bodies are let go
    /// while their memory is warm; so are those that somebody waits for.
    fn gather(&mut self, state: &mut State) {
        let until = Instant::now() + GATHERED;
        let mut batch = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.load.is_urgent() {
                // Whoever is in a hurry from now on has his note behind those that wait.
                self.load.calm();
                self.take_in(&mut batch, state);
            }
            if left.is_zero() {
                break;
            }
            if batch.is_none() && state.tidies() {
                self.tidy(state);
            } else if !self.load.is_urgent() {
                thread::park_timeout(left);
            }
        }
        self.commit(batch, state);
    }

    fn tidy(&mut self, state: &mut State) {
        let done = keep::step(&mut self.archive, self.bounds, now_ms(), false);
        if let Ok(more) = done {
            state.untidy = more;
        }
        state.came_to(done.map(drop));
        thread::yield_now();
    }

    /// Takes in all that waits. A transaction that has become large is committed, and the next one begun.
    fn take_in(&mut self, batch: &mut Option<Batch>, state: &mut State) {
        self.archive.pool.slice.begin();
        while let Some(note) = self.take() {
            let weight = note.weight();
            let fits = |open: &Batch| {
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
            open.told.extend(news(&note).filter(|_| open.watched));
            if let Note::Flush(done) = note {
                open.waiting.push(done);
            } else if open.written.is_ok() {
                open.written = self.write(note, state);
            } else {
                self.archive.skip(&note);
            }
            open.bytes += ROW + self.archive.pool.take_fresh();
            self.load.done(weight);
            // Who waits wants it written now.
            if !open.waiting.is_empty() {
                self.commit(batch.take(), state);
            }
            self.archive.pool.slice.look();
        }
    }

    /// Begins a transaction; `None` where there is no room for one.
    fn begin(&mut self, weight: usize, state: &mut State) -> Option<Batch> {
        state.batches = state.batches.wrapping_add(1);
        state.untidy |= state.batches.is_multiple_of(LOOK_EVERY);
        self.archive.lose_ends(self.load.take_lost_ends());
        let room = match self.make_room(weight) {
            Ok(room) => {
                state.has_room(room.is_some());
                room?
            }
            Err(error) => {
                state.came_to(Err(error));
                return None;
            }
        };
        Some(Batch {
            taken: 0,
            bytes: 0,
            room,
            watched: self.live.as_ref().is_some_and(|live| live.receiver_count() > 0),
            told: Vec::new(),
            waiting: Vec::new(),
            written: self.archive.begin_writing(),
        })
    }

    fn commit(&mut self, batch: Option<Batch>, state: &mut State) {
        let Some(batch) = batch else { return };
        let written = batch.written.and_then(|()| self.archive.settle());
        if written.is_err() {
            self.roll_back();
            self.load.lost(batch.taken);
        } else if let Some(live) = &self.live {
            for news in batch.told {
                // Whoever watched may just have gone.
                let _ = live.send(news);
            }
        }
        for done in batch.waiting {
            // Nobody may wait any more.
            let _ = done.send(());
        }
        state.came_to(written);
    }

    /// The next note, if there is one.
    fn take(&mut self) -> Option<Note> {
        self.next.take().or_else(|| self.notes.try_recv().ok())
    }

    /// Has the oldest go until a transaction that begins with so many bytes fits under the bound, or time is up. Returns
    /// the bytes for which there is room then; `None` where they do not suffice.
    fn make_room(&mut self, weight: usize) -> rusqlite::Result<Option<u64>> {
        let until = Instant::now() + MAKING_ROOM;
        let least = (self.bounds.transaction() + weight) as u64;
        loop {
            let room = keep::room(&self.archive.conn, self.bounds)?;
            if room >= least {
                return Ok(Some(room));
            }
            if Instant::now() > until {
                return Ok(None);
            }
            if !keep::step(&mut self.archive, self.bounds, now_ms(), true)? {
                keep::empty_log(&self.archive.conn)?;
                let room = keep::room(&self.archive.conn, self.bounds)?;
                return Ok((room >= least).then_some(room));
            }
            thread::yield_now();
        }
    }

    /// There is no room for a note, or it cannot be written.
    fn leave_out(&mut self, note: Note) {
        self.load.done(note.weight());
        match note {
            // Nobody may wait any more.
            Note::Flush(done) => drop(done.send(())),
            note => {
                self.archive.skip(&note);
                self.load.lost(1);
            }
        }
    }

    /// Writes one note. One that panics is counted and left out; the transaction goes on without.
    fn write(&mut self, note: Note, state: &mut State) -> rusqlite::Result<()> {
        let id = note.exchange();
        let write = AssertUnwindSafe(|| self.archive.write(note));
        let written = catch_unwind(write).unwrap_or_else(|_| {
            state.is_odd();
            self.load.lost(1);
            self.archive.is_odd(id.clone());
            Ok(())
        });
        if written.is_err() {
            self.archive.is_odd(id);
        }
        written
    }

    fn roll_back(&mut self) {
        if !self.archive.conn.is_autocommit() {
            // What cannot be rolled back was not begun.
            let _ = self.archive.conn.execute_batch("ROLLBACK");
        }
        self.archive.rolled_back();
    }
}

/// Lowers this thread's share of a busy processor. Not to the lowest, and not to the idle class: on a machine that compiles, the
/// queue would fill and copies be lost. That it never holds up a stream comes from its short slices.
fn run_in_background() {
    /// A third of the weight of a thread that was not asked.
    #[cfg(all(target_os = "linux", not(test)))]
    const NICE: i32 = 5;
    // On Linux this is of the calling thread alone. Where it is refused the thread goes on as it is.
    #[cfg(all(target_os = "linux", not(test)))]
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Takes notes as long as there are any, and keeps none.
pub(super) fn drop_all(notes: &Receiver<Note>, load: &Load) {
    for note in notes {
        load.done(note.weight());
        match note {
            // Nobody may wait any more.
            Note::Flush(done) => drop(done.send(())),
            _ => load.lost(1),
        }
    }
}

/// What a viewer is told of a note.
fn news(note: &Note) -> Option<Live> {
    match note {
        Note::Begin(begun) => Some(Live::Begun {
            id: begun.id.clone(),
            conversation: begun.conversation.clone(),
            at_ms: begun.at_ms,
        }),
        Note::End { event, .. } => Some(Live::Ended { id: event.id.clone() }),
        _ => None,
    }
}
