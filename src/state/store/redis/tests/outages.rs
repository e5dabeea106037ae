//! Servers that go offline, come back, or respond too slowly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures_util::future::join_all;

use super::faulty_wire::{Fault, FaultyWire};
use super::*;
use crate::store::redis::shared::WRITERS;

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_server_that_stops_fails_calls_at_once_and_is_found_again_within_a_second() {
    let mut server = RedisServer::durable();
    let store = store_in(&server.url(), |o| o.durability = ServerDurability::Fsync);
    let kept = put(&store).await.unwrap();
    server.kill();
    assert!(put(&store).await.is_err());
    let began = Instant::now();
    for _ in 0..100 {
        assert!(store.conversation("c").await.is_err());
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    server.start_again();
    let began = Instant::now();
    while store.handoff("local", kept).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(1), "not back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        store.handoff("local", kept).await.unwrap().is_some(),
        "flushed before it was acknowledged"
    );
    put(&store).await.unwrap();
}

/// A connection that was cut between two calls is reopened within the next call.
#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_connection_that_was_cut_fails_no_call() {
    let server = RedisServer::start(&[]);
    let store = store_in(&server.url(), |_| {});
    for _ in 0..5 {
        let id = put(&store).await.unwrap();
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        assert!(store.handoff("local", id).await.unwrap().is_some());
    }
}

/// Timeout of a call: long enough for a server, short for a test.
const TIME: Duration = Duration::from_millis(300);

/// Additional time for a machine under load.
const SLACK: Duration = Duration::from_millis(500);

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn whatever_the_network_does_calls_end_in_time_and_leave_no_pile_of_tasks() {
    let server = RedisServer::start(&[]);
    let faults = [
        Fault::Stalled,
        Fault::Swallowed,
        Fault::Trickled(Duration::from_millis(30)),
        Fault::Reset,
        Fault::Torn,
        Fault::Lossy {
            one_in: 20,
            late: Duration::from_millis(200),
        },
    ];
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for fault in faults {
        let wire = FaultyWire::to(server.port);
        let prefix = Uuid::now_v7().to_string();
        let store = store_in(&wire.redis_url(), |o| {
            o.timeout = TIME;
            o.prefix = prefix.clone();
        });
        let direct = store_in(&server.url(), |o| o.prefix = prefix.clone());
        // With a delay the server is slow but works.
        wire.delay(Duration::from_millis(20));
        put(&store).await.unwrap();
        put(&direct).await.unwrap();
        wire.delay(Duration::ZERO);
        let before = tasks();

        wire.fault(fault);
        let mut written = Vec::new();
        let mut answered = 0;
        for _ in 0..3 {
            let began = Instant::now();
            let all = join_all((0..300).map(async |n| {
                let began = Instant::now();
                let done = match n % 3 {
                    0 => put(&store).await.map(Some),
                    _ => store.conversation("c").await.map(|_| None),
                };
                (began.elapsed(), done)
            }));
            // Stores with another path to the server are unaffected.
            let other = async {
                let began = Instant::now();
                put(&direct).await.unwrap();
                began.elapsed()
            };
            let (all, other) = tokio::join!(all, other);
            let longest = all.iter().map(|(time, _)| *time).max().unwrap();
            // Conflicting changes are repeated, but no attempt begins after the first one's timeout.
            assert!(longest < 2 * TIME + SLACK, "{fault:?}: {longest:?}");
            assert!(began.elapsed() < 2 * TIME + SLACK, "{fault:?}");
            assert!(other < SLACK, "{fault:?}: {other:?}");
            answered += all.iter().filter(|(_, done)| done.is_ok()).count();
            written.extend(all.into_iter().filter_map(|(_, done)| done.ok().flatten()));
        }
        // Each link has one task that keeps it open and one that drives its connection.
        let limit = before + 2 * (WRITERS + 1);
        assert!(tasks() <= limit, "{fault:?}: {} after {before}", tasks());
        match fault {
            // A late packet delays all reads after it: one round, or sometimes two, end too late.
            Fault::Lossy { .. } => assert!(answered > 200, "{answered} of 900"),
            Fault::Torn => {}
            _ => assert_eq!((answered, written.len()), (0, 0), "{fault:?}"),
        }

        wire.fault(Fault::None);
        let began = Instant::now();
        while put(&store).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(2), "{fault:?}: not back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for id in written {
            let kept = direct.handoff("local", id).await.unwrap();
            assert!(kept.is_some(), "{fault:?}: {id} is lost");
        }
    }
}

/// The primary is killed under load and its replica takes over. Acknowledged writes are still there.
#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_failover_loses_nothing_that_was_replicated() {
    let mut primary = RedisServer::start(&[]);
    let first = primary.replica(&[]);
    let second = primary.replica(&[]);
    let wire = FaultyWire::to(primary.port);
    let store = store_in(&wire.redis_url(), |o| {
        o.durability = ServerDurability::Replicated;
        o.timeout = Duration::from_millis(500);
    });
    let stop = AtomicBool::new(false);
    let writers = (0..8).map(|_| async {
        let mut written = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match put(&store).await {
                Ok(id) => written.push(id),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        written
    });
    let failover = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        primary.kill();
        // Promotes the replica with more data, like a Sentinel does.
        let offset = |server: &RedisServer| {
            let info = server.cli(&["INFO", "replication"]);
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("slave_repl_offset:"))
                .unwrap()
                .to_owned();
            line.trim().parse::<u64>().unwrap()
        };
        let (new, other) = match offset(&first) >= offset(&second) {
            true => (&first, &second),
            false => (&second, &first),
        };
        assert_eq!(new.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
        other.cli(&["REPLICAOF", "127.0.0.1", &new.port.to_string()]);
        wire.lead_to(new.port);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (written, ()) = tokio::join!(join_all(writers), failover);
    let all: Vec<HandoffId> = written.into_iter().flatten().collect();
    for id in &all {
        let kept = store.handoff("local", *id).await.unwrap();
        assert!(kept.is_some(), "{id} is lost");
    }
    let last = all.iter().max().unwrap();
    let went_on = last.get_timestamp().unwrap().to_unix().0;
    let now = crate::clock::now_ms() / 1000;
    assert!(now - went_on < 2, "writes go on after it: {} in all", all.len());
}
