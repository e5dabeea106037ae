//! The store on real servers: settings, replicas, logins, Sentinels, clusters, and outages.

mod answers;
#[expect(unreachable_pub, reason = "shared with the benches")]
#[allow(dead_code, reason = "the benches use all of it")]
mod faulty_wire;
mod outages;
#[expect(unreachable_pub, reason = "shared with the suite")]
#[allow(dead_code, reason = "the suite and the benches use all of it")]
#[path = "../../../../../tests/suite/harness/redis.rs"]
pub(crate) mod server;
mod topologies;

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use self::server::RedisServer;
use super::*;
use crate::config::{Config, ServerDurability, StoreAddress, StoreConfig};
use crate::store::tests::{PutRecords, at_places, conforms, conversation, handoff, pair, update};
use baton_core::record::HiddenPair;

/// Generates variants of tests that accept a server: `local` without one, `redis` with one.
macro_rules! also_over_redis {
    ($($test:ident)*) => {
        mod local {
            $(#[tokio::test]
            async fn $test() { super::$test(None).await; })*
        }

        mod redis {
            use crate::store::redis::tests::server::RedisServer;

            $(#[tokio::test]
            #[ignore = "needs Redis: .ci/full redis"]
            async fn $test() { super::$test(Some(RedisServer::start(&[]))).await; })*
        }
    };
}
pub(crate) use also_over_redis;

/// Creates a store on that server. `change` adjusts the settings that most tests share.
pub(crate) fn store_in(url: &str, change: impl FnOnce(&mut StoreConfig)) -> RedisStore {
    let mut settings = StoreConfig {
        address: Some(StoreAddress::parse(url).unwrap()),
        durability: ServerDurability::Memory,
        prefix: Uuid::now_v7().to_string(),
        timeout: Duration::from_secs(2),
        ..Config::default_for_tests().store
    };
    change(&mut settings);
    RedisStore::new(&settings).unwrap()
}

/// Writes a handoff.
async fn put(store: &RedisStore) -> StoreResult<HandoffId> {
    let new = handoff("local", "c", 1);
    let update = update(&conversation("local", "c", 1));
    store.put_handoff(&new, None, &update).await.map(|_| new.id)
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn redis_conforms() {
    let server = RedisServer::start(&[]);
    conforms(|| Arc::new(store_in(&server.url(), |_| {}))).await;
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_store_of_another_schema_is_refused() {
    let server = RedisServer::start(&[]);
    server.cli(&["SET", "{p}:schema", "2"]);
    let refused = store_in(&server.url(), |o| o.prefix = "p".into()).ping().await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("has schema version 2, and this program knows version 1")
            && refused.contains("store.prefix"),
        "{refused}"
    );
    assert!(store_in(&server.url(), |_| {}).ping().await.is_ok());
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn settings_that_hold_no_handoff_are_named() {
    let server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    let verify = async |durability| {
        let store = store_in(&server.url(), |o| o.durability = durability);
        let written = put(&store).await;
        (store.settings_problem().await.unwrap(), written.is_ok())
    };
    assert_eq!(verify(ServerDurability::Memory).await, (None, true));
    // A server that supports waiting for its file keeps the promise.
    let (named, written) = verify(ServerDurability::Fsync).await;
    let waits = server.is_version(7, 2);
    assert_eq!((named.is_none(), written), (waits, waits), "{named:?}");
    assert!(waits || named.unwrap().contains("appendfsync is everysec"));
    let (named, written) = verify(ServerDurability::Replicated).await;
    assert!(named.unwrap().contains("no replica"));
    assert!(!written);
    server.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    assert_eq!(verify(ServerDurability::Fsync).await, (None, true));
    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (named, _) = verify(ServerDurability::Fsync).await;
    assert!(named.unwrap().contains("maxmemory-policy is allkeys-lru"));
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    assert_eq!(verify(ServerDurability::Fsync).await, (None, true));
}

/// On a server that flushes every second and supports waiting for it, acknowledged writes survive a kill.
#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_server_that_waits_for_its_file_loses_nothing_that_it_acknowledged() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    if !server.is_version(7, 2) {
        return;
    }
    let store = store_in(&server.url(), |o| {
        o.durability = ServerDurability::Fsync;
        o.timeout = Duration::from_secs(10);
    });
    let mut kept = Vec::new();
    for _ in 0..3 {
        let some = futures_util::future::join_all((0..8).map(|_| put(&store))).await;
        kept.extend(some.into_iter().map(Result::unwrap));
    }
    server.start_again();
    for id in kept {
        let began = Instant::now();
        while store.handoff("local", id).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(5), "not back");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(
            store.handoff("local", id).await.unwrap().is_some(),
            "{id} is lost"
        );
    }
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_replicated_write_is_on_the_replica() {
    let primary = RedisServer::start(&[]);
    let mut replica = primary.replica(&[]);
    let prefix = "replicated".to_owned();
    let store = store_in(&primary.url(), |o| {
        o.durability = ServerDurability::Replicated;
        o.prefix = prefix.clone();
        o.timeout = Duration::from_secs(2);
    });
    assert_eq!(store.settings_problem().await.unwrap(), None);
    for _ in 0..20 {
        let id = put(&store).await.unwrap();
        let there = replica.cli(&["EXISTS", &format!("{{replicated}}:handoff:{id}")]);
        assert_eq!(there, "1");
    }
    replica.kill();
    // The server waits three quarters of a call's time. Under load it may report later, and then the call
    // times out.
    let began = Instant::now();
    let error = put(&store).await.unwrap_err();
    let messages = ["no replica", "takes too long"];
    assert!(
        messages.iter().any(|message| error.message.contains(message)),
        "{error}"
    );
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // Reads do not queue after the write.
    let (write, read_was_first) = tokio::join!(
        async {
            let error = put(&store).await;
            (error, Instant::now())
        },
        async {
            store.conversation("c").await.unwrap();
            Instant::now()
        }
    );
    assert!(write.0.is_err() && read_was_first < write.1);
    let replica = primary.replica(&[]);
    let began = Instant::now();
    while put(&store).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(10), "the replica is back");
    }
    drop(replica);
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn an_older_use_does_not_replace_a_newer_one_and_indexes_follow() {
    let server = RedisServer::start(&[]);
    let store = store_in(&server.url(), |o| o.prefix = "p".into());
    put(&store).await.unwrap();
    let mut beside = pair("local", "c", Some("one\ntwo"));
    let known = update(&conversation("local", "c", 1));
    store.put_pair(&beside, &known).await.unwrap();
    let siblings = ["one\ntwo", "three"].map(String::from);
    let found = async |siblings| at_places::<HiddenPair>(&store, "local", siblings).await;
    assert_eq!(found(&siblings).await, std::slice::from_ref(&beside));
    // A read updates the last use in the background.
    let used = async || server.cli(&["ZSCORE", "{p}:i:pair:used", &beside.id.to_string()]);
    while used().await == "7" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    beside.place = baton_core::record::InsertionPoint::Beside {
        sibling: "three".into(),
        offset: 0,
    };
    store.put_pair(&beside, &known).await.unwrap();
    assert_ne!(
        server.cli(&["ZSCORE", "{p}:i:pair:used", &beside.id.to_string()]),
        "7"
    );
    assert_eq!(found(&siblings[..1]).await, []);
    assert_eq!(found(&siblings[1..]).await, [beside]);
    // No key expires, and no key lacks the prefix.
    let keys = server.cli(&["KEYS", "*"]);
    for key in keys.lines() {
        assert!(key.starts_with("{p}:"), "{key}");
        assert_eq!(server.cli(&["TTL", key]), "-1", "{key}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let server = RedisServer::start(&[]);
    let store = store_in(&server.url(), |_| {});
    put(&store).await.unwrap();
    server.cli(&["SCRIPT", "FLUSH"]);
    let id = put(&store).await.unwrap();
    assert!(store.handoff("local", id).await.unwrap().is_some());
}
