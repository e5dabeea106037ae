//! Text that baton appends to a request stays in every later request of its transcript, byte for byte, until
//! a handoff cuts it off.
//!
//! Here the text is the notice of a full context, on one wire. `nudges` tests its position on each wire.

use std::sync::atomic::Ordering;

use baton_core::text::{Span, json};
use baton_llm::state::store::{SharedStore, Store};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::fixture::FlakyStore;
use crate::harness::{memory, sqlite, temp};
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{ANTHROPIC, Answer, CHAT, Variant};
use crate::nudges::{early, long, say};

const NOTICE: &str = "<context-notice>";

/// A proxy, and a transcript that gets the notice with its next request.
async fn full(variant: Variant, store: &SharedStore) -> (Fixture, Vec<Value>) {
    let stage = Fixture::with(variant, [], store.clone(), early).await;
    let history = filled(&stage).await;
    (stage, history)
}

async fn filled(stage: &Fixture) -> Vec<Value> {
    let mut history = vec![stage.user("Mend the importer.")];
    history.extend(says(stage, &history, Reply::text("Looking.")).await.keep);
    say(stage, &mut history, &long(5_500), Reply::text("Long.")).await;
    history.push(stage.user("Go on."));
    history
}

/// Returns the elements of the last request's transcript, byte for byte as the model received them.
fn elements(stage: &Fixture) -> Vec<String> {
    let seen = stage.provider.generations().last().unwrap().clone();
    let raw: &[u8] = &seen.raw;
    let list = json::get(raw, Span::new(0, raw.len()), "messages").unwrap();
    let all = json::elements(raw, list).into_iter();
    all.map(|span| String::from_utf8(span.of(raw).to_vec()).unwrap())
        .collect()
}

/// Counts the notices in the last request.
fn notices(stage: &Fixture) -> usize {
    elements(stage).concat().matches(NOTICE).count()
}

async fn says(stage: &Fixture, history: &[Value], reply: Reply) -> Answer {
    stage.push(reply);
    stage.ask(history, true).await
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

/// If the store has lost the notice, baton sends the request without it and counts the loss once.
#[tokio::test]
async fn what_the_store_has_lost_is_left_out() {
    let dir = temp();
    let (mut stage, history) = full(ANTHROPIC, &sqlite(dir.path())).await;
    let answer = says(&stage, &history, Reply::text("First.")).await;
    assert_eq!(notices(&stage), 1);
    let db = rusqlite::Connection::open(dir.path().join("baton.db")).unwrap();
    assert_eq!(
        db.execute("DELETE FROM records WHERE kind = 'insertion'", [])
            .unwrap(),
        1
    );
    drop(db);
    stage.restart(sqlite(dir.path()));
    let then = stage.then(&history, &answer, "More.");
    for _ in 0..2 {
        says(&stage, &then, Reply::text("Second.")).await;
        assert_eq!(notices(&stage), 0);
    }
    assert_eq!(lost(&stage, 2).await, [1, 0]);
    stage.assert_clean();
}

async fn lost(stage: &Fixture, exchanges: usize) -> Vec<u32> {
    let events = stage.baton.events(exchanges).await;
    events.iter().map(|e| e.lost_insertions).collect()
}

/// A notice that cannot be stored is not sent. The next request may have it.
#[tokio::test]
async fn what_cannot_be_written_is_not_sent() {
    let store = FlakyStore::new(memory());
    let shared: SharedStore = store.clone();
    let (stage, history) = full(ANTHROPIC, &shared).await;
    store.no_writes.store(true, Ordering::SeqCst);
    let answer = says(&stage, &history, thought("First.")).await;
    assert_eq!(notices(&stage), 0);
    assert!(!store.may_have_insertions() || store.inner.may_have_insertions());
    store.no_writes.store(false, Ordering::SeqCst);
    says(
        &stage,
        &stage.then(&history, &answer, "More."),
        thought("Second."),
    )
    .await;
    assert_eq!(notices(&stage), 1);
    stage.assert_clean();
}

/// An edited history of a named session is reported as lost once, and again after it was found in between.
#[tokio::test]
async fn what_lost_its_place_is_counted_once() {
    const HEADERS: &[(&str, &str)] = &[("authorization", "Bearer sk-agent"), ("x-session-id", "one")];
    let mut stage = Fixture::with(CHAT, [], memory(), early).await;
    stage.variant.headers = HEADERS;
    let history = filled(&stage).await;
    let answer = says(&stage, &history, Reply::text("First.")).await;
    assert_eq!(notices(&stage), 1);
    let then = stage.then(&history, &answer, "More.");
    let mut edited = then.clone();
    edited[0] = stage.user("Mend it.");
    for (history, there) in [(&edited, 0), (&edited, 0), (&then, 1), (&edited, 0)] {
        says(&stage, history, Reply::text("Second.")).await;
        assert_eq!(notices(&stage), there);
    }
    assert_eq!(lost(&stage, 7).await, [0, 0, 0, 1, 0, 0, 1]);
    stage.assert_clean();
}

/// A conversation without insertions causes no hashing of its transcript and no query to the store.
#[tokio::test]
async fn conversations_without_any_pay_nothing() {
    let store = FlakyStore::new(memory());
    let stage = Fixture::with(ANTHROPIC, [], store.clone(), |_| {}).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    says(
        &stage,
        &stage.then(&history, &answer, "More."),
        thought("Second."),
    )
    .await;
    assert_eq!(store.insertion_reads(), 0);
    assert_eq!(stage.sent().len(), 5);
    stage.assert_clean();
}
