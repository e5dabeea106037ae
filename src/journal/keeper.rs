//! The journal's one thread: takes what waits, writes it in one transaction, tidies up in between.
//!
//! It is woken by the first note and then lets more come for a moment. So it stands in a stream's way a few times a
//! second and not at every note, and what a transaction costs is shared by all that happened meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
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

pub(super) struct Keeper {
    pub(super) archive: Archive,
    pub(super) notes: Receiver<Note>,
    pub(super) load: Arc<Load>,
    pub(super) live: Option<broadcast::Sender<Live>>,
    pub(super) bounds: Bounds,
}

/// What has come of the work so far.
#[derive(Default)]
struct State {
    batches: u32,
    untidy: bool,
    broken: bool,
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
}

impl Keeper {
    /// Works until every tap is gone.
    pub(super) fn run(mut self) {
        self.load.kept_by(thread::current());
        let mut state = State {
            untidy: true,
            ..State::default()
        };
        loop {
            let wait = if state.tidies() { Duration::ZERO } else { REST };
            match self.notes.recv_timeout(wait) {
                Ok(first) => {
                    self.gather(&mut state);
                    self.write_all(first, &mut state);
                }
                Err(RecvTimeoutError::Timeout) => self.tidy(&mut state),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Lets notes come for a moment, unless somebody waits for what they say or they become too many.
    fn gather(&mut self, state: &mut State) {
        let until = Instant::now() + GATHERED;
        while !self.load.is_urgent() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if state.tidies() {
                self.tidy(state);
            } else {
                thread::park_timeout(left);
            }
        }
    }

    fn tidy(&mut self, state: &mut State) {
        let done = keep::step(&mut self.archive, self.bounds, now_ms());
        if let Ok(more) = done {
            state.untidy = more;
        }
        state.came_to(done.map(drop));
    }

    /// Writes this note and all that wait behind it.
    fn write_all(&mut self, first: Note, state: &mut State) {
        // Whoever is in a hurry from now on has his note behind those that wait.
        self.load.calm();
        let mut next = Some(first);
        while let Some(note) = next {
            state.batches = state.batches.wrapping_add(1);
            state.untidy |= state.batches.is_multiple_of(LOOK_EVERY);
            let done = self.batch(note);
            state.came_to(done);
            next = self.notes.try_recv().ok();
        }
    }

    /// Writes this note and what waits behind it in one transaction.
    fn batch(&mut self, first: Note) -> rusqlite::Result<()> {
        let watched = self.live.as_ref().is_some_and(|live| live.receiver_count() > 0);
        let mut taken = 0;
        let mut told = Vec::new();
        let mut waiting = Vec::new();
        let mut written = self.archive.begin_writing();
        let mut next = Some(first);
        while let Some(note) = next {
            taken += 1;
            let weight = note.weight();
            told.extend(news(&note).filter(|_| watched));
            if let Note::Flush(done) = note {
                waiting.push(done);
            } else if written.is_ok() {
                written = self.archive.write(note);
            }
            self.load.done(weight);
            // Who waits wants it written now.
            next = if taken < BATCH && waiting.is_empty() {
                self.notes.try_recv().ok()
            } else {
                None
            };
        }
        let written = written.and_then(|()| self.archive.settle());
        if written.is_err() {
            if !self.archive.conn.is_autocommit() {
                // What cannot be rolled back was not begun.
                let _ = self.archive.conn.execute_batch("ROLLBACK");
            }
            self.archive.rolled_back();
            self.load.lost(taken);
        } else if let Some(live) = &self.live {
            for news in told {
                // Whoever watched may just have gone.
                let _ = live.send(news);
            }
        }
        for done in waiting {
            // Nobody may wait any more.
            let _ = done.send(());
        }
        written
    }
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
