//! Several processes serve one conversation over one store.

use std::sync::Arc;

use futures_util::future::join_all;
use uuid::Uuid;

use super::tests::{asks, until_stored};
use super::*;
use crate::store::redis::tests::server::RedisServer;
use crate::store::redis::tests::{also_over_redis, store_in};
use crate::store::sqlite::SqliteStore;
use crate::store::tests::{cut_point, handoff, pair};
use baton_core::record::{HiddenPair, RepeatedAnswer};

/// Starts processes that share a store on this server, or in memory without one.
fn processes<const N: usize>(server: Option<&RedisServer>) -> [Sessions; N] {
    let memory: SharedStore = Arc::new(SqliteStore::in_memory().unwrap());
    // Each process has its own connections.
    let sessions = || match server {
        None => Sessions {
            shared: true,
            ..Sessions::new(Arc::clone(&memory), 10)
        },
        Some(server) => {
            let store = store_in(&server.url(), |o| o.prefix = "shared".into());
            Sessions::new(Arc::new(store), 10)
        }
    };
    [(); N].map(|()| sessions())
}

also_over_redis! {
    a_decision_is_made_once
    writes_at_the_same_moment_lose_no_pair_and_no_handoff
    what_was_looked_up_before_another_process_wrote_is_looked_up_again
    a_broken_answer_is_repeated_in_another_process
    a_place_that_was_relied_on_stays_whoever_hands_the_answer_over
    a_store_that_went_back_is_followed
}

async fn opened(sessions: &Sessions) -> Arc<LiveConversation> {
    sessions.open("k", "local", 1).await.unwrap()
}

fn ids(pairs: &[Arc<HiddenPair>]) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = pairs.iter().map(|pair| pair.id).collect();
    ids.sort_unstable();
    ids
}

async fn a_decision_is_made_once(server: Option<RedisServer>) {
    let [one, two] = processes(server.as_ref());
    // Both processes have the conversation, undecided.
    let (at_one, at_two) = (opened(&one).await, opened(&two).await);
    assert!(one.decide_tooled(&at_one, true, 2).await.unwrap());
    assert!(
        two.decide_tooled(&at_two, false, 2).await.unwrap(),
        "the first one stands"
    );
    assert_eq!(at_two.tooled(), Some(true));
    // A process that knows the decision may change it.
    assert!(!two.decide_tooled(&at_two, false, 3).await.unwrap());
    assert_eq!(opened(&one).await.tooled(), Some(false));
}

async fn writes_at_the_same_moment_lose_no_pair_and_no_handoff(server: Option<RedisServer>) {
    let all: [Sessions; 3] = processes(server.as_ref());
    let lives = join_all(all.iter().map(opened)).await;
    let pairs: Vec<HiddenPair> = (0..9)
        .map(|n| pair("local", "k", Some(&format!("c{n}"))))
        .collect();
    let writes = pairs.iter().enumerate().map(|(n, pair)| {
        let (sessions, live) = (&all[n % 3], &lives[n % 3]);
        sessions.add_pairs(live, vec![pair.clone()], 2)
    });
    for written in join_all(writes).await {
        written.unwrap();
    }
    let mut wanted: Vec<Uuid> = pairs.iter().map(|pair| pair.id).collect();
    wanted.sort_unstable();
    for sessions in &all {
        let live = opened(sessions).await;
        assert_eq!(ids(&sessions.pairs_of(&live, 1).await.unwrap()), wanted);
    }

    // A handoff fires in one process. Another one, unaware of it, writes a pair and follows an older
    // transcript.
    let [one, two, three] = &all;
    let (at_one, at_two) = (opened(one).await, opened(two).await);
    let (fired, late) = (handoff("local", "k", 3), pair("local", "k", Some("late")));
    let point = cut_point(&fired, "d");
    let firing = one.fire(&at_one, fired.clone(), Some(point.clone()), None, 3);
    firing.await.unwrap();
    two.follow(&at_two, Some(Uuid::now_v7()), 3);
    two.add_pairs(&at_two, vec![late.clone()], 4).await.unwrap();
    let others = (opened(three).await, opened(one).await);
    for (sessions, live) in [(two, at_two), (three, others.0), (one, others.1)] {
        assert_eq!(live.active(), Some(fired.id));
        assert_eq!(ids(&sessions.pairs_of(&live, 1).await.unwrap()), [late.id]);
        let points = sessions.left_out(&live, 5).await.unwrap();
        assert!(points.iter().map(|p| &**p).eq([&point]));
    }
}

async fn what_was_looked_up_before_another_process_wrote_is_looked_up_again(server: Option<RedisServer>) {
    let [one, two] = processes(server.as_ref());
    let (at_one, at_two) = (opened(&one).await, opened(&two).await);
    let known = async || {
        let live = opened(&two).await;
        asks(&two, &live, None, &["a", "b"], 2).await
    };
    assert!(known().await.2.is_empty());
    assert_eq!(known().await.0, 1, "a checkpoint");
    // The same calls, repeated after a rewind.
    let beside = pair("local", "k", Some("b"));
    one.add_pairs(&at_one, vec![beside.clone()], 3).await.unwrap();
    assert_eq!(known().await.2, [beside.id]);
    drop(at_two);
    // Nothing was written since, so one look at the record is enough.
    assert_eq!(known().await.0, 1);
}

async fn a_broken_answer_is_repeated_in_another_process(server: Option<RedisServer>) {
    let [one, two] = processes(server.as_ref());
    let at_one = opened(&one).await;
    let fired = handoff("local", "k", 3);
    let note = |handoff, replaces, at_ms| RepeatedAnswer {
        body_hash: 7,
        handoff,
        replaces,
        at_ms,
    };
    let first = note(fired.id, Vec::new(), 1000);
    let point = cut_point(&fired, "d");
    let firing = one.fire(&at_one, fired.clone(), Some(point), Some(first), 1000);
    firing.await.unwrap();
    at_one.remember_repeat(7, fired.id, &LiveAnswer::default(), 1000);

    // This process has a clock that is slow by minutes.
    let at_two = opened(&two).await;
    let answer = LiveAnswer::default();
    assert!(at_two.may_repeat());
    assert_eq!(at_two.take_repeat(8, &answer, 10), None);
    let late = at_two.take_repeat(7, &LiveAnswer::default(), 1001 + REPEAT_WITHIN_MS);
    assert_eq!(late, None);
    assert_eq!(at_two.take_repeat(7, &answer, 10), Some(fired.id));
    // The response hands off again, and is interrupted after that.
    let later = handoff("local", "k", 4);
    let second = note(later.id, vec![fired.id], 11);
    let firing = two.fire(&at_two, later.clone(), None, Some(second), 11);
    firing.await.unwrap();
    at_two.remember_repeat(7, later.id, &answer, 11);
    drop(answer);
    let at_one = opened(&one).await;
    assert_eq!(at_one.record().repeats.len(), 1);

    // After the end of a response was delivered, an identical request is new in every process.
    let answer = LiveAnswer::default();
    assert_eq!(at_two.take_repeat(7, &answer, 12), Some(later.id));
    at_two.forget_repeat(&answer);
    two.shown(&at_two, &[later.id]);
    until_stored(&two, |record| record.repeats.is_empty()).await;
    let again = opened(&two).await.take_repeat(7, &LiveAnswer::default(), 13);
    assert_eq!(again, None);
}

async fn a_place_that_was_relied_on_stays_whoever_hands_the_answer_over(server: Option<RedisServer>) {
    let [one, two] = processes(server.as_ref());
    let at_one = opened(&one).await;
    let fired = handoff("local", "k", 3);
    let point = cut_point(&fired, "d");
    let firing = one.fire(&at_one, fired.clone(), Some(point), None, 3);
    firing.await.unwrap();
    let at_two = opened(&two).await;
    two.keep_cut_point(&at_two, fired.id, 4).await.unwrap();
    assert_eq!(opened(&one).await.record().relied_on, [fired.id]);
    one.shown(&at_one, &[fired.id]);
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    assert_eq!(opened(&two).await.record().left_out, [fired.id]);
}

/// A failover may lose writes that were not replicated. The older record in the store must not be confused
/// with the lost one.
async fn a_store_that_went_back_is_followed(server: Option<RedisServer>) {
    let [one] = processes(server.as_ref());
    let live = opened(&one).await;
    let add = async |sibling, at_ms| {
        let pair = pair("local", "k", Some(sibling));
        one.add_pairs(&live, vec![pair], at_ms).await.unwrap();
    };
    add("a", 2).await;
    let kept = live.record();
    add("b", 3).await;
    let known = live.version();
    live.refresh(Some(kept.clone()), known);
    assert_eq!(live.record(), kept);
    // A record read before a write of this process is older than the write.
    add("c", 4).await;
    let newest = live.record();
    live.refresh(Some(kept.clone()), kept.version);
    assert_eq!(live.record(), newest);
}
