//! Text that baton appends to a request stays in every later request of its transcript, byte for byte, until
//! a handoff cuts it off.
//!
//! Here the text is the notice of a full context, on one wire. `nudges` tests its position on each wire.

use std::sync::atomic::Ordering;

use baton_llm::state::store::{SharedStore, Store};
use pretty_assertions::assert_eq;

use crate::harness::fixture::FlakyStore;
use crate::harness::{memory, sqlite, temp};
use crate::matrix::fixture::{Fixture, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{ANTHROPIC, CHAT, Variant};
use crate::nudges::{early, long};

/// Returns a conversation whose next request gets the notice.
async fn full(variant: Variant, store: SharedStore) -> Talk {
    let mut talk = Talk::new(Fixture::with(variant, [], store, early).await);
    talk.says("Mend the importer.", "Looking.").await;
    talk.says(&long(5_500), "Long.").await;
    talk
}

/// Counts the notices in the last request.
fn notices(talk: &Talk) -> usize {
    talk.elements().concat().matches("<context-notice>").count()
}

async fn lost(talk: &Talk, exchanges: usize) -> Vec<u32> {
    let events = talk.baton.events(exchanges).await;
    events.iter().map(|e| e.lost_insertions).collect()
}

/// If the store has lost the notice, baton sends the request without it and counts the loss once.
#[tokio::test]
async fn what_the_store_has_lost_is_left_out() {
    let dir = temp();
    let mut talk = full(ANTHROPIC, sqlite(dir.path())).await;
    talk.says("Go on.", "First.").await;
    assert_eq!(notices(&talk), 1);
    let db = rusqlite::Connection::open(dir.path().join("baton.db")).unwrap();
    let deleted = db.execute("DELETE FROM records WHERE kind = 'insertion'", []);
    assert_eq!(deleted.unwrap(), 1);
    drop(db);
    talk.restart(sqlite(dir.path()));
    for text in ["More.", "And?"] {
        talk.says(text, "Second.").await;
        assert_eq!(notices(&talk), 0);
    }
    assert_eq!(lost(&talk, 2).await, [1, 0]);
    talk.assert_clean();
}

/// A notice that cannot be stored is not sent. The next request may have it.
#[tokio::test]
async fn what_cannot_be_written_is_not_sent() {
    let store = FlakyStore::new(memory());
    let mut talk = full(ANTHROPIC, store.clone()).await;
    for (is_down, sent) in [(true, 0), (false, 1)] {
        store.no_writes.store(is_down, Ordering::SeqCst);
        talk.says("Go on.", thought("So.")).await;
        assert_eq!(notices(&talk), sent);
        assert!(!store.may_have_insertions() || store.inner.may_have_insertions());
    }
    talk.assert_clean();
}

/// An edited history of a named session is reported as lost once, and again after it was found in between.
#[tokio::test]
async fn what_lost_its_place_is_counted_once() {
    let mut talk = full(CHAT.in_session("one"), memory()).await;
    talk.says("Go on.", "First.").await;
    assert_eq!(notices(&talk), 1);
    let then = talk.history.clone();
    for (is_edited, there) in [(true, 0), (true, 0), (false, 1), (true, 0)] {
        talk.history.clone_from(&then);
        if is_edited {
            talk.history[0] = talk.user("Mend it.");
        }
        talk.says("More.", "Second.").await;
        assert_eq!(notices(&talk), there);
    }
    assert_eq!(lost(&talk, 7).await, [0, 0, 0, 1, 0, 0, 1]);
    talk.assert_clean();
}

/// A conversation without insertions causes no hashing of its transcript and no query to the store.
#[tokio::test]
async fn conversations_without_any_pay_nothing() {
    let store = FlakyStore::new(memory());
    let mut talk = Talk::worked_in(Fixture::with(ANTHROPIC, [], store.clone(), |_| {}).await).await;
    talk.says("More.", thought("Second.")).await;
    assert_eq!(store.insertion_reads(), 0);
    assert_eq!(talk.sent().len(), 5);
    talk.assert_clean();
}
