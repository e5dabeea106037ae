//! Conversations over restarts, evictions and races.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use uuid::Uuid;

use super::*;
use crate::config::StoreKind;
use crate::store::tests::{handoff, pair};
use crate::store::{self, Store};

fn memory() -> SharedStore {
    store::open(&StoreKind::Memory, Path::new("")).unwrap()
}

/// Waits for a write behind.
async fn until_stored(store: &dyn Store, key: &str, active: Option<HandoffId>) {
    for _ in 0..500 {
        if store
            .conversation(key)
            .await
            .unwrap()
            .is_some_and(|c| c.active == active)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never written");
}

#[tokio::test]
async fn a_restart_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Sessions::new(store::open(&StoreKind::Sqlite, dir.path()).unwrap(), 10);
    let first = handoff("local", "k", 2);
    let (one, two) = (pair("local", "k", Some("call_1")), pair("local", "k", None));

    let sessions = open();
    let live = sessions.open("k", "local", 1).await.unwrap();
    sessions.decide_tooled(&live, true, 1).await.unwrap();
    sessions.add_pairs(&live, vec![one.clone()], 2).await.unwrap();
    drop((live, sessions));

    let sessions = open();
    let live = sessions.open("k", "local", 3).await.unwrap();
    assert_eq!(live.tooled(), Some(true));
    sessions.add_pairs(&live, vec![two.clone()], 3).await.unwrap();
    let pairs = sessions.pairs_of(&live).await.unwrap();
    assert_eq!(pairs.iter().map(|p| p.id).collect::<Vec<_>>(), [one.id, two.id]);
    sessions.fire(&live, first.clone(), 4).await.unwrap();
    assert!(sessions.pairs_of(&live).await.unwrap().is_empty(), "cut");
    drop((live, sessions));

    let sessions = open();
    let live = sessions.open("k", "local", 5).await.unwrap();
    assert_eq!((live.tooled(), live.active()), (Some(true), Some(first.id)));
    assert!(sessions.pairs_of(&live).await.unwrap().is_empty());
    let found = sessions.handoff("local", first.id).await.unwrap().unwrap();
    assert_eq!(*found, first);
    assert!(sessions.handoff("other", first.id).await.unwrap().is_none());
    // Pairs from before the cut stay known by themselves: a rewind needs them.
    assert_eq!(sessions.store().pairs("local", &[one.id]).await.unwrap(), [one]);
}

#[tokio::test]
async fn undecided_is_not_written() {
    let sessions = Sessions::new(memory(), 10);
    let live = sessions.open("k", "local", 1).await.unwrap();
    sessions.follow(&live, None, 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(sessions.store().conversation("k").await.unwrap(), None);
    assert!(sessions.pairs_of(&live).await.unwrap().is_empty());
    sessions.decide_tooled(&live, false, 3).await.unwrap();
    let stored = sessions.store().conversation("k").await.unwrap().unwrap();
    assert_eq!((stored.tooled, stored.updated_ms), (Some(false), 3));
    sessions.decide_tooled(&live, false, 4).await.unwrap();
    let stored = sessions.store().conversation("k").await.unwrap().unwrap();
    assert_eq!(stored.updated_ms, 3, "no change, no write");
}

#[tokio::test]
async fn the_active_handoff_follows_the_transcript() {
    let sessions = Sessions::new(memory(), 10);
    let live = sessions.open("k", "local", 1).await.unwrap();
    let (one, two) = (handoff("local", "k", 1), handoff("local", "k", 2));
    sessions.fire(&live, one.clone(), 1).await.unwrap();
    sessions.fire(&live, two, 2).await.unwrap();
    sessions.follow(&live, Some(one.id), 3);
    assert_eq!(live.active(), Some(one.id), "a rewind");
    until_stored(&**sessions.store(), "k", Some(one.id)).await;
    sessions.follow(&live, None, 4);
    until_stored(&**sessions.store(), "k", None).await;
    // A use now and then keeps the record from being swept.
    sessions.decide_tooled(&live, true, 5).await.unwrap();
    let later = 5 + TOUCH_AFTER_MS + 1;
    sessions.follow(&live, None, later);
    for _ in 0..500 {
        let stored = sessions.store().conversation("k").await.unwrap().unwrap();
        if stored.updated_ms == later {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not touched");
}

#[tokio::test]
async fn writes_behind_never_overtake() {
    let dir = tempfile::tempdir().unwrap();
    let store = store::open(&StoreKind::Sqlite, dir.path()).unwrap();
    let sessions = Sessions::new(store, 10);
    let live = sessions.open("k", "local", 1).await.unwrap();
    for at in 0..50 {
        sessions.follow(&live, Some(Uuid::now_v7()), at);
        let new = handoff("local", "k", at);
        sessions.fire(&live, new.clone(), at).await.unwrap();
        let _turn = live.turn.lock().await;
        let stored = sessions.store().conversation("k").await.unwrap().unwrap();
        assert_eq!(stored, live.record());
        assert_eq!(stored.active, Some(new.id));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_split_store_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(store::open(&StoreKind::Sqlite, dir.path()).unwrap(), 10);
    let live = sessions.open("k", "local", 1).await.unwrap();
    let new = handoff("local", "k", 1);
    {
        let mut fire = Box::pin(sessions.fire(&live, new.clone(), 1));
        let waker = futures_util::task::noop_waker();
        let first = fire.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        assert!(first.is_pending());
    }
    until_stored(&**sessions.store(), "k", Some(new.id)).await;
    let _turn = live.turn.lock().await;
    assert_eq!(live.active(), Some(new.id));
}

#[tokio::test]
async fn eviction_takes_the_idle_and_loses_nothing() {
    let sessions = Sessions::new(memory(), 100);
    let held = sessions.open("held", "local", 1).await.unwrap();
    let old = sessions.open("old", "local", 1).await.unwrap();
    let new = handoff("local", "old", 1);
    sessions.decide_tooled(&old, true, 1).await.unwrap();
    sessions.fire(&old, new.clone(), 1).await.unwrap();
    drop(old);
    for n in 0..1000 {
        sessions.open(&format!("k{n}"), "local", 1).await.unwrap();
    }
    assert!(sessions.len() <= 100, "{}", sessions.len());
    assert!(!sessions.live.contains_key("old") && sessions.live.contains_key("k999"));
    let again = sessions.open("held", "local", 1).await.unwrap();
    assert!(Arc::ptr_eq(&held, &again), "in use, so not evicted");
    let old = sessions.open("old", "local", 1).await.unwrap();
    assert_eq!((old.tooled(), old.active()), (Some(true), Some(new.id)));
}

#[tokio::test]
async fn requests_at_once_share_a_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = Sessions::new(store::open(&StoreKind::Sqlite, dir.path()).unwrap(), 10);
    let all = join_all((0..20).map(|_| sessions.open("k", "local", 1))).await;
    let first = all[0].as_ref().unwrap();
    assert!(all.iter().all(|live| Arc::ptr_eq(live.as_ref().unwrap(), first)));
    assert!(sessions.open("k", "other", 1).await.is_err());
    let puts = (0..20).map(|_| sessions.add_pairs(first, vec![pair("local", "k", None)], 1));
    join_all(puts).await.into_iter().for_each(|put| put.unwrap());
    assert_eq!(sessions.pairs_of(first).await.unwrap().len(), 20);
    let stored = sessions.store().conversation("k").await.unwrap().unwrap();
    assert_eq!(stored.pairs.len(), 20, "none lost");
}

#[tokio::test]
async fn repeats_are_taken_once_and_in_time() {
    let sessions = Sessions::new(memory(), 10);
    let live = sessions.open("k", "local", 1).await.unwrap();
    let id = Uuid::now_v7();
    assert_eq!(live.take_repeat(1, 0), None);
    live.remember_repeat(1, id, 1000);
    assert_eq!(live.take_repeat(2, 1000), None, "another body");
    assert_eq!(live.take_repeat(1, 1000 + REPEAT_WITHIN_MS), Some(id));
    assert_eq!(live.take_repeat(1, 1000), None, "once");
    live.remember_repeat(1, id, 1000);
    assert_eq!(live.take_repeat(1, 1001 + REPEAT_WITHIN_MS), None, "too late");
}

#[tokio::test]
async fn hits_are_cheap() {
    let sessions = Sessions::new(memory(), 20_000);
    let keys: Vec<String> = (0..10_000).map(|n| format!("{n:032x}")).collect();
    for key in &keys {
        sessions.open(key, "local", 1).await.unwrap();
    }
    let began = Instant::now();
    for key in &keys {
        sessions.open(key, "local", 2).await.unwrap();
    }
    let took = began.elapsed();
    println!("10,000 hits: {took:?}");
    assert!(took < Duration::from_millis(500));
}

#[test]
fn calls_are_asked_for_as_far_back_as_they_are_new() {
    let live = Live::new(Conversation::default(), false);
    let all = |calls: &[&str], most: usize| {
        let mut asked = 0;
        let back = calls.iter().rev().inspect(|_| asked += 1);
        let all = live.has_all_pairs(None, || back.map(|c| (*c).to_owned()));
        assert!(asked <= most, "{asked} of {calls:?}");
        all
    };
    assert!(!all(&["a", "b"], 0), "nobody has looked");
    live.looked_up(&["a".to_owned(), "b".to_owned()]);
    assert!(all(&["a", "b"], 1));
    assert!(all(&["a", "b", "c", "d"], 3));
    assert!(all(&["a", "b", "c", "d", "e"], 2), "goes on from there");
    assert!(!all(&["a", "b", "x"], 3), "another branch");
    assert!(all(&["a", "b", "c", "d", "e"], 1));
}
