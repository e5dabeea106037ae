//! Conversations across restarts, evictions and races.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use uuid::Uuid;

use super::*;
use crate::config::StoreKind;
use crate::store;
use crate::store::records::Lookup;
use crate::store::tests::{cut_point, handoff, pair, put_cut_point};

fn memory() -> SharedStore {
    store::open(&StoreKind::Memory.into(), Path::new("")).unwrap()
}

/// Opens the sessions of a store in this directory.
fn in_file(dir: &Path) -> Sessions {
    Sessions::new(store::open(&StoreKind::Sqlite.into(), dir).unwrap(), 10)
}

/// Opens a conversation of a new store.
async fn opened() -> (Sessions, Arc<LiveConversation>) {
    let sessions = Sessions::new(memory(), 10);
    let live = sessions.open("k", "local", 1).await.unwrap();
    (sessions, live)
}

/// Returns the stored record of that conversation.
async fn stored(sessions: &Sessions) -> Option<Conversation> {
    sessions.store().conversation("k").await.unwrap()
}

/// Waits for a background write to that conversation.
pub(super) async fn until_stored(sessions: &Sessions, is_written: impl Fn(&Conversation) -> bool) {
    for _ in 0..500 {
        if stored(sessions).await.is_some_and(|found| is_written(&found)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never written");
}

/// Returns the pairs beside these calls.
async fn pairs_at(sessions: &Sessions, calls: &[String]) -> Vec<Arc<HiddenPair>> {
    let places = Lookup::Places(calls);
    let found = sessions.store().placed("local", places).await.unwrap();
    found.into_iter().map(Arc::new).collect()
}

#[tokio::test]
async fn a_restart_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let open = || in_file(dir.path());
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
    let pairs = sessions.pairs_of(&live, 1).await.unwrap();
    assert_eq!(pairs.iter().map(|p| p.id).collect::<Vec<_>>(), [one.id, two.id]);
    sessions.fire(&live, first.clone(), None, None, 4).await.unwrap();
    assert!(sessions.pairs_of(&live, 1).await.unwrap().is_empty(), "cut");
    drop((live, sessions));

    let sessions = open();
    let live = sessions.open("k", "local", 5).await.unwrap();
    assert_eq!((live.tooled(), live.active()), (Some(true), Some(first.id)));
    assert!(sessions.pairs_of(&live, 1).await.unwrap().is_empty());
    let found = sessions.handoff("local", first.id).await.unwrap().unwrap();
    assert_eq!(*found, first);
    assert!(sessions.handoff("other", first.id).await.unwrap().is_none());
    // Pairs from before the cut stay available by id, because a rewind needs them.
    let ids = [one.id];
    let by_id = sessions.store().placed::<HiddenPair>("local", Lookup::Ids(&ids));
    assert_eq!(by_id.await.unwrap(), [one]);
}

#[tokio::test]
async fn undecided_is_not_written() {
    let (sessions, live) = opened().await;
    sessions.follow(&live, None, 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(stored(&sessions).await, None);
    assert!(sessions.pairs_of(&live, 1).await.unwrap().is_empty());
    sessions.decide_tooled(&live, false, 3).await.unwrap();
    let written = stored(&sessions).await.unwrap();
    assert_eq!((written.tooled, written.updated_ms), (Some(false), 3));
    sessions.decide_tooled(&live, false, 4).await.unwrap();
    let written = stored(&sessions).await.unwrap();
    assert_eq!(written.updated_ms, 3, "no change, no write");
}

#[tokio::test]
async fn the_active_handoff_follows_the_transcript() {
    let (sessions, live) = opened().await;
    let (one, two) = (handoff("local", "k", 1), handoff("local", "k", 2));
    sessions.fire(&live, one.clone(), None, None, 1).await.unwrap();
    sessions.fire(&live, two, None, None, 2).await.unwrap();
    sessions.follow(&live, Some(one.id), 3);
    assert_eq!(live.active(), Some(one.id), "a rewind");
    until_stored(&sessions, |found| found.active == Some(one.id)).await;
    sessions.follow(&live, None, 4);
    until_stored(&sessions, |found| found.active.is_none()).await;
    // Occasional use keeps the record from being swept.
    sessions.decide_tooled(&live, true, 5).await.unwrap();
    let later = 5 + TOUCH_AFTER_MS + 1;
    sessions.follow(&live, None, later);
    until_stored(&sessions, |found| found.updated_ms == later).await;
}

#[tokio::test]
async fn later_writes_never_overtake() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = in_file(dir.path());
    let live = sessions.open("k", "local", 1).await.unwrap();
    for at in 0..50 {
        sessions.follow(&live, Some(Uuid::now_v7()), at);
        let new = handoff("local", "k", at);
        sessions.fire(&live, new.clone(), None, None, at).await.unwrap();
        let _turn = live.turn.lock().await;
        let written = stored(&sessions).await.unwrap();
        assert_eq!(written, live.record());
        assert_eq!(written.active, Some(new.id));
    }
}

#[tokio::test]
async fn a_caller_that_leaves_does_not_split_store_and_memory() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = in_file(dir.path());
    let live = sessions.open("k", "local", 1).await.unwrap();
    let new = handoff("local", "k", 1);
    {
        let mut fire = Box::pin(sessions.fire(&live, new.clone(), None, None, 1));
        let waker = futures_util::task::noop_waker();
        let first = fire.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        assert!(first.is_pending());
    }
    until_stored(&sessions, |found| found.active == Some(new.id)).await;
    let _turn = live.turn.lock().await;
    assert_eq!(live.active(), Some(new.id));
}

#[tokio::test]
async fn eviction_takes_the_idle_and_loses_nothing() {
    let sessions = Sessions::new(memory(), 100);
    let in_use = sessions.open("held", "local", 1).await.unwrap();
    let old = sessions.open("old", "local", 1).await.unwrap();
    let new = handoff("local", "old", 1);
    sessions.decide_tooled(&old, true, 1).await.unwrap();
    sessions.fire(&old, new.clone(), None, None, 1).await.unwrap();
    drop(old);
    for n in 0..1000 {
        sessions.open(&format!("k{n}"), "local", 1).await.unwrap();
    }
    assert!(sessions.live.len() <= 100, "{}", sessions.live.len());
    assert!(!sessions.live.contains_key("old") && sessions.live.contains_key("k999"));
    let again = sessions.open("held", "local", 1).await.unwrap();
    assert!(Arc::ptr_eq(&in_use, &again), "in use, so not evicted");
    let old = sessions.open("old", "local", 1).await.unwrap();
    assert_eq!((old.tooled(), old.active()), (Some(true), Some(new.id)));
}

#[tokio::test]
async fn requests_at_once_share_a_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = in_file(dir.path());
    let all = join_all((0..20).map(|_| sessions.open("k", "local", 1))).await;
    let first = all[0].as_ref().unwrap();
    assert!(all.iter().all(|live| Arc::ptr_eq(live.as_ref().unwrap(), first)));
    assert!(sessions.open("k", "other", 1).await.is_err());
    let puts = (0..20).map(|_| sessions.add_pairs(first, vec![pair("local", "k", None)], 1));
    join_all(puts).await.into_iter().for_each(|put| put.unwrap());
    assert_eq!(sessions.pairs_of(first, 1).await.unwrap().len(), 20);
    assert_eq!(stored(&sessions).await.unwrap().pairs.len(), 20, "none lost");
}

#[tokio::test]
async fn repeats_are_taken_once_and_in_time() {
    let (_, live) = opened().await;
    let id = Uuid::now_v7();
    let answer = LiveAnswer::default;
    assert_eq!(live.take_repeat(1, &answer(), 0), None);
    live.remember_repeat(1, id, &answer(), 1000);
    assert_eq!(live.take_repeat(2, &answer(), 1000), None, "another body");
    let again = answer();
    assert_eq!(live.take_repeat(1, &again, 1000 + REPEAT_WITHIN_MS), Some(id));
    live.forget_repeat(&again);
    assert!(!live.may_repeat(), "answered");
    live.remember_repeat(1, id, &answer(), 1000);
    assert_eq!(
        live.take_repeat(1, &answer(), 1001 + REPEAT_WITHIN_MS),
        None,
        "too late"
    );
}

#[tokio::test]
async fn answers_that_break_off_at_the_same_time_are_all_remembered() {
    let (_, live) = opened().await;
    let ids: Vec<_> = (0..4).map(|_| Uuid::now_v7()).collect();
    let answers: Vec<_> = (0..4).map(|_| LiveAnswer::default()).collect();
    // Two of them respond to the same request: conversations may begin with identical bytes.
    for (n, hash) in [1, 2, 3, 3].into_iter().enumerate() {
        live.remember_repeat(hash, ids[n], &answers[n], n as u64);
    }
    live.forget_repeat(&answers[1]);
    drop(answers);
    let again: Vec<_> = (0..5).map(|_| LiveAnswer::default()).collect();
    assert_eq!(live.take_repeat(1, &again[0], 10), Some(ids[0]));
    assert_eq!(
        live.take_repeat(2, &again[1], 10),
        None,
        "its end was handed over"
    );
    // Each is taken by one request, and only once.
    assert_eq!(live.take_repeat(3, &again[2], 10), Some(ids[2]));
    assert_eq!(live.take_repeat(3, &again[3], 10), Some(ids[3]));
    live.forget_repeat(&again[2]);
    // The last one is interrupted again.
    drop(again);
    let last = LiveAnswer::default();
    assert_eq!(live.take_repeat(3, &last, 11), Some(ids[3]));
    live.forget_repeat(&last);
    assert_eq!(live.take_repeat(3, &LiveAnswer::default(), 12), None);
}

#[tokio::test]
async fn the_end_of_one_answer_is_not_the_end_of_its_twin() {
    let (_, live) = opened().await;
    let (id, first, second) = (Uuid::now_v7(), LiveAnswer::default(), LiveAnswer::default());
    live.remember_repeat(1, id, &first, 1);
    assert_eq!(live.take_repeat(1, &second, 2), Some(id), "still under way");
    live.forget_repeat(&first);
    drop(second);
    let third = LiveAnswer::default();
    assert_eq!(live.take_repeat(1, &third, 3), Some(id), "the second broke off");
    live.forget_repeat(&third);
    // The other way round: the repeat of an impatient agent completes, and the first response turns out to be
    // dead.
    let (first, second) = (LiveAnswer::default(), LiveAnswer::default());
    live.remember_repeat(1, id, &first, 4);
    assert_eq!(live.take_repeat(1, &second, 5), Some(id));
    drop(first);
    live.forget_repeat(&second);
    assert!(!live.may_repeat());
}

/// Returns the transcript's calls after its checkpoints. A name that occurs twice belongs to a call and its
/// result.
fn unknown(
    live: &LiveConversation,
    cut: Option<HandoffId>,
    calls: &[&str],
    now_ms: u64,
    mut look: impl FnMut(),
) -> NewCalls {
    let bytes: Vec<String> = (0..calls.len()).map(|n| calls[..=n].join(" ")).collect();
    let turn = |name: &str| calls.iter().position(|c| *c == name).unwrap();
    let transcript = CallsAfterCut {
        newest_first: calls.iter().rev().map(|name| {
            look();
            (turn(name), (*name).to_owned())
        }),
        up_to: &|turn| bytes[turn].as_bytes(),
    };
    live.unknown_calls(cut, transcript, now_ms)
}

/// Simulates a request. Returns how many calls it examines, how many it looks up in the store, and the pairs
/// it then knows.
pub(super) async fn asks(
    sessions: &Sessions,
    live: &LiveConversation,
    cut: Option<HandoffId>,
    calls: &[&str],
    now_ms: u64,
) -> (usize, usize, Vec<Uuid>) {
    let mut looked = 0;
    let unknown = unknown(live, cut, calls, now_ms, || looked += 1);
    let requested = unknown.calls().len();
    let found = pairs_at(sessions, unknown.calls()).await;
    let mut all: Vec<_> = unknown.known().iter().chain(&found).map(|p| p.id).collect();
    live.record_lookup(unknown, &found);
    all.sort_unstable();
    (looked, requested, all)
}

#[tokio::test]
async fn calls_are_looked_up_as_far_back_as_they_are_new() {
    let (sessions, live) = opened().await;
    let asks = async |calls: &[&str]| {
        let (looked, requested, _) = asks(&sessions, &live, None, calls, 1).await;
        (looked, requested)
    };
    assert_eq!(asks(&[]).await, (0, 0));
    assert_eq!(asks(&["a", "b"]).await, (2, 2), "nobody has looked");
    assert_eq!(asks(&["a", "b"]).await, (1, 0));
    assert_eq!(asks(&["a", "b", "c", "d", "d"]).await, (4, 2));
    assert_eq!(
        asks(&["a", "b", "c", "d", "e"]).await,
        (2, 1),
        "goes on from there"
    );
    assert_eq!(asks(&["a", "b", "x"]).await, (3, 3), "another branch");
    assert_eq!(asks(&["a", "b", "c", "d", "e"]).await, (1, 0), "both are known");
    assert_eq!(asks(&["a", "b", "x"]).await, (1, 0));
}

/// Names that a server counts, or that consist of arguments and positions, may be equal across branches.
#[tokio::test]
async fn an_equal_call_of_another_branch_is_no_checkpoint() {
    let (sessions, live) = opened().await;
    let mine = pair("local", "k", Some("b"));
    sessions.add_pairs(&live, vec![mine.clone()], 1).await.unwrap();
    asks(&sessions, &live, None, &["a", "c", "d"], 1).await;
    for n in 0..2 {
        let (looked, requested, known) = asks(&sessions, &live, None, &["b", "c", "d"], 1).await;
        assert_eq!(known, [mine.id]);
        assert_eq!(
            (looked, requested),
            [(3, 3), (1, 0)][n],
            "each branch has its own"
        );
    }
    // A random name identifies the call, regardless of edits before it.
    let drawn = "toolu_01A09q90qw90lq917835lq9";
    asks(&sessions, &live, None, &["a", drawn], 1).await;
    let (looked, ..) = asks(&sessions, &live, None, &["edited", drawn], 1).await;
    assert_eq!(looked, 1);
}

#[tokio::test]
async fn what_stands_beside_a_known_call_stays_known() {
    let (sessions, live) = opened().await;
    let one = pair("local", "k", Some("b"));
    let two = pair("local", "elsewhere", Some("d"));
    let elsewhere = sessions.open("elsewhere", "local", 1).await.unwrap();
    for (live, pair) in [(&live, &one), (&elsewhere, &two)] {
        sessions.add_pairs(live, vec![pair.clone()], 1).await.unwrap();
    }
    let known = async |cut, calls: &[&str], now_ms| asks(&sessions, &live, cut, calls, now_ms).await.2;
    assert!(known(None, &["a"], 1).await.is_empty());
    // A handoff on another branch removes the pair from the list.
    let new = handoff("local", "k", 2);
    sessions.fire(&live, new.clone(), None, None, 2).await.unwrap();
    assert!(known(None, &["a"], 3).await.is_empty());
    assert_eq!(known(None, &["a", "b", "c"], 3).await, [one.id]);
    assert!(known(Some(new.id), &["c"], 3).await.is_empty(), "after the cut");
    assert_eq!(known(None, &["a", "b", "c", "d"], 3).await, [one.id, two.id]);
    assert_eq!(known(None, &["a", "b", "c", "d", "e"], 3).await, [one.id, two.id]);
    // Read again once a day, which marks the pair as used.
    let later = 4 + TOUCH_AFTER_MS;
    for expected in [5, 1] {
        let (looked, ..) = asks(&sessions, &live, None, &["a", "b", "c", "d", "e"], later).await;
        assert_eq!(looked, expected);
    }
}

/// Two conversations share a key, or a pair is written while its sibling is looked up.
#[tokio::test]
async fn nothing_that_happens_during_a_look_up_is_missed() {
    let (sessions, live) = opened().await;
    let one = pair("local", "k", Some("b"));
    sessions.add_pairs(&live, vec![one.clone()], 1).await.unwrap();
    let looked_up = unknown(&live, None, &["a", "b"], 1, || ());
    let found = pairs_at(&sessions, looked_up.calls()).await;
    let new = handoff("local", "k", 2);
    sessions.fire(&live, new, None, None, 2).await.unwrap();
    live.record_lookup(looked_up, &found);
    let listed = sessions.pairs_of(&live, 1).await.unwrap();
    assert!(listed.is_empty(), "off the list");
    let known = asks(&sessions, &live, None, &["a", "b"], 3).await;
    assert_eq!(known, (1, 0, vec![one.id]));

    let looked_up = unknown(&live, None, &["a", "b", "c"], 3, || ());
    assert_eq!(looked_up.calls(), ["c"]);
    let two = pair("local", "k", Some("c"));
    sessions.add_pairs(&live, vec![two.clone()], 3).await.unwrap();
    live.record_lookup(looked_up, &[]);
    let (.., known) = asks(&sessions, &live, None, &["a", "b", "c"], 3).await;
    assert_eq!(known, [one.id, two.id]);
}

#[tokio::test]
async fn checkpoints_are_few_and_the_oldest_goes_first() {
    let (sessions, live) = opened().await;
    let branches: Vec<String> = (0..20).map(|n| format!("b{n}")).collect();
    for branch in &branches {
        asks(&sessions, &live, None, &["a", branch], 1).await;
        asks(&sessions, &live, None, &["a", "b0"], 1).await;
    }
    let looked = async |branch: &str| asks(&sessions, &live, None, &["a", branch], 1).await.0;
    assert_eq!(looked("b0").await, 1, "in use");
    assert_eq!(looked("b19").await, 1);
    assert_eq!(looked("b1").await, 2, "gone");
}

/// A copied session lists another conversation's cut point. Reading marks it as used, or else it would be
/// swept.
#[tokio::test]
async fn cut_points_are_read_anew_once_a_day() {
    let sessions = Sessions::new(memory(), 10);
    let origin = sessions.open("origin", "local", 1).await.unwrap();
    let fired = handoff("local", "origin", 1);
    let point = cut_point(&fired, "d1");
    sessions
        .fire(&origin, fired.clone(), Some(point.clone()), None, 1)
        .await
        .unwrap();
    let copy = sessions.open("copy", "local", 1).await.unwrap();
    assert!(sessions.left_out(&copy, 1).await.unwrap().is_empty());
    // Nothing was adopted before: the known list is empty and was not read recently.
    let taken = 5 * TOUCH_AFTER_MS;
    sessions.take_over(&copy, point.clone(), taken).await.unwrap();
    // A different record in the store shows whether it was queried.
    let again = cut_point(&fired, "d2");
    put_cut_point(&**sessions.store(), &again).await.unwrap();
    let known = async |now_ms| {
        let points = sessions.left_out(&copy, now_ms).await.unwrap();
        points
            .iter()
            .map(|p| p.position.digest.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(known(taken + TOUCH_AFTER_MS).await, ["d1"]);
    assert_eq!(known(taken + TOUCH_AFTER_MS + 1).await, ["d2"]);
    put_cut_point(&**sessions.store(), &point).await.unwrap();
    assert_eq!(known(taken + TOUCH_AFTER_MS + 2).await, ["d2"]);
    assert_eq!(known(taken + 2 * TOUCH_AFTER_MS + 2).await, ["d1"]);
}
