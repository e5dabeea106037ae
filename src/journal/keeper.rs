//! The journal's one thread: takes what waits, writes it in one transaction, tidies up in between.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::broadcast;

use super::archive::Archive;
use super::keep::{self, Bounds};
use super::note::Note;
use super::tap::{Live, Load, now_ms};

/// Most notes in one transaction: bounds how long readers wait for what they show.
const BATCH: usize = 64;

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

impl Keeper {
    /// Works until every tap is gone.
    pub(super) fn run(mut self) {
        let mut untidy = true;
        let mut batches = 0u32;
        let mut broken = false;
        loop {
            let wait = if untidy && !broken { Duration::ZERO } else { REST };
            let first = match self.notes.recv_timeout(wait) {
                Ok(note) => Some(note),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let done = match first {
                Some(note) => {
                    batches = batches.wrapping_add(1);
                    untidy |= batches.is_multiple_of(LOOK_EVERY);
                    self.batch(note)
                }
                None => keep::step(&mut self.archive, self.bounds, now_ms()).map(|more| untidy = more),
            };
            match done {
                Err(error) if !broken => {
                    broken = true;
                    tracing::error!(%error, "the journal cannot be written; the proxy goes on without");
                }
                Ok(()) if broken => {
                    broken = false;
                    tracing::info!("the journal can be written again");
                }
                _ => {}
            }
        }
    }

    /// Writes this note and what waits behind it.
    fn batch(&mut self, first: Note) -> rusqlite::Result<()> {
        let mut weights = Vec::new();
        let mut told = Vec::new();
        let mut waiting = Vec::new();
        let mut written = self.archive.conn.execute_batch("BEGIN IMMEDIATE");
        let mut next = Some(first);
        while let Some(note) = next {
            weights.push(note.weight());
            told.extend(news(&note));
            if let Note::Flush(done) = note {
                waiting.push(done);
                // Who waits wants it written now.
                break;
            }
            if written.is_ok() {
                written = self.archive.write(note);
            }
            next = if weights.len() < BATCH {
                self.notes.try_recv().ok()
            } else {
                None
            };
        }
        let written = written.and_then(|()| self.archive.conn.execute_batch("COMMIT"));
        if written.is_err() {
            if !self.archive.conn.is_autocommit() {
                // What cannot be rolled back was not begun.
                let _ = self.archive.conn.execute_batch("ROLLBACK");
            }
            self.archive.rolled_back();
            self.load.lost(weights.len());
        }
        for weight in weights {
            self.load.done(weight);
        }
        if written.is_ok() {
            self.tell(told);
        }
        for done in waiting {
            // Nobody may wait any more.
            let _ = done.send(());
        }
        written
    }

    fn tell(&self, told: Vec<(String, bool)>) {
        let Some(live) = self.live.as_ref().filter(|live| live.receiver_count() > 0) else {
            return;
        };
        for (id, ended) in told {
            let news = match ended {
                true => Some(Live::Ended { id }),
                false => self
                    .archive
                    .conversation(&id)
                    .map(|(conversation, at_ms)| Live::Begun {
                        id,
                        conversation,
                        at_ms,
                    }),
            };
            // Whoever watched may just have gone.
            let _ = news.map(|news| live.send(news));
        }
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

/// Id, and whether it is over.
fn news(note: &Note) -> Option<(String, bool)> {
    match note {
        Note::Begin(begun) => Some((begun.id.clone(), false)),
        Note::End { event, .. } => Some((event.id.clone(), true)),
        _ => None,
    }
}
