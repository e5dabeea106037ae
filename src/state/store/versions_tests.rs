//! Records that a newer version of baton has written. The parts that this version does not know survive its writes, so
//! that both may serve one store while a team upgrades.

use std::sync::Arc;

use serde_json::Value;

use super::redis::tests::server::RedisServer;
use super::redis::tests::store_in;
use super::sqlite::{FILE, SqliteStore};
use super::tests::{conversation, cut_point, document, handoff, insertion, pair, update};
use super::{SharedStore, Store};
use baton_core::record::{
    HandoffOrigin, HandoffStatus, PendingUndo, Position, RecordChange, RepeatedAnswer, ThinkingOmission,
    Update,
};

/// What a newer version wrote in front of the fields that this one knows.
const NEWER: &str = r#"{"of_tomorrow":{"a":[1.50,null,"\u00e9"],"n":18446744073709551615},"#;

/// Reads the texts of the records of a kind.
type ReadTexts = Box<dyn Fn(&str) -> Vec<String>>;

/// A store, and the texts in it.
struct Opened {
    store: SharedStore,
    texts: ReadTexts,
    /// Puts something in place of the beginning of each record of a kind.
    newer: Box<dyn Fn(&str)>,
    /// Gives each handoff another origin.
    other_origin: Box<dyn Fn()>,
}

fn in_sqlite(dir: &tempfile::TempDir) -> Opened {
    let file = dir.path().join(FILE);
    let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
    let conn = move || rusqlite::Connection::open(&file).unwrap();
    let (read, write, origin) = (conn.clone(), conn.clone(), conn);
    Opened {
        store,
        texts: Box::new(move |kind| {
            let conn = read();
            let mut all = conn.prepare(&format!("SELECT record FROM {kind}")).unwrap();
            all.query_map([], |row| row.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect()
        }),
        newer: Box::new(move |kind| {
            let sql = format!("UPDATE {kind} SET record = ?1 || substr(record, 2)");
            assert!(write().execute(&sql, [NEWER]).unwrap() > 0, "{kind}");
        }),
        other_origin: Box::new(move || {
            origin()
                .execute("UPDATE handoffs SET origin = 'of_tomorrow'", [])
                .unwrap();
        }),
    }
}

fn in_redis(server: &Arc<RedisServer>) -> Opened {
    let store = Arc::new(store_in(&server.url(), |options| options.prefix = "p".into()));
    let keys = |server: &RedisServer, kind: &str| {
        let kind = match kind {
            "conversations" => "conv",
            "cut_points" => "cut",
            "handoffs" => "handoff",
            "packets" => "packet",
            other => other.trim_end_matches('s'),
        };
        let keys = server.cli(&["KEYS", &format!("{{p}}:{kind}:*")]);
        keys.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (read, write, origin) = (Arc::clone(server), Arc::clone(server), Arc::clone(server));
    Opened {
        store,
        texts: Box::new(move |kind| {
            let keys = keys(&read, kind);
            keys.iter().map(|key| read.cli(&["HGET", key, "r"])).collect()
        }),
        newer: Box::new(move |kind| {
            for key in keys(&write, kind) {
                let record = write.cli(&["HGET", &key, "r"]);
                write.cli(&["HSET", &key, "r", &format!("{NEWER}{}", &record[1..])]);
            }
        }),
        other_origin: Box::new(move || {
            for key in keys(&origin, "handoffs") {
                let record = origin.cli(&["HGET", &key, "r"]);
                let changed = record.replace(r#""origin":"model""#, r#""origin":"of_tomorrow""#);
                assert_ne!(changed, record);
                origin.cli(&["HSET", &key, "r", &changed]);
            }
        }),
    }
}

/// Every change that a conversation's record knows.
fn changes() -> Vec<RecordChange> {
    let id = uuid::Uuid::now_v7;
    let one = id();
    let undo = PendingUndo {
        handoff: one,
        undone: true,
        at_ms: 1,
    };
    vec![
        RecordChange::Tooled {
            from: Some(true),
            to: false,
        },
        RecordChange::Followed {
            from: None,
            to: Some(id()),
            undone: Some(id()),
        },
        RecordChange::Fired {
            handoff: one,
            placed: true,
            pairs: Vec::new(),
            repeat: Some(RepeatedAnswer {
                body_hash: 1,
                handoff: one,
                replaces: Vec::new(),
                at_ms: 1,
            }),
        },
        RecordChange::LeftOut(id()),
        RecordChange::ReliedOn(one),
        RecordChange::Shown(vec![one]),
        RecordChange::Paired(vec![id()]),
        RecordChange::Inserted(vec![id()]),
        RecordChange::ThinkingOmitted(ThinkingOmission {
            handoff: one,
            position: Position {
                turns: 1,
                digest: "d".into(),
            },
        }),
        RecordChange::Pins {
            pinned: Some("p".into()),
            unpinned: None,
        },
        RecordChange::UndoRequested(undo),
        RecordChange::UndoOver(undo),
    ]
}

async fn what_is_not_known_stays(opened: &Opened, kinds: &[&str]) {
    let store: &dyn Store = &*opened.store;
    let known = conversation("a", "c", 10);
    let (fired, beside, text) = (
        handoff("a", "c", 10),
        pair("a", "c", Some("call")),
        insertion("a", "c", "i"),
    );
    let point = cut_point(&fired, "d");
    store
        .put_handoff(&fired, Some(&point), &update(&known))
        .await
        .unwrap();
    let pairs = std::slice::from_ref(&beside);
    store.put_pairs(pairs, &update(&known)).await.unwrap();
    store.put_insertion(&text, &update(&known)).await.unwrap();
    let documents = [document("a", "main", 1), document("a", "main", 2)];
    for document in &documents {
        store.put_document(document).await.unwrap();
    }
    for kind in kinds {
        (opened.newer)(kind);
    }

    // All is read.
    assert_eq!(store.handoff("a", fired.id).await.unwrap(), Some(fired.clone()));
    assert_eq!(
        store.pairs("a", &[beside.id]).await.unwrap(),
        std::slice::from_ref(&beside)
    );
    assert_eq!(store.cut_points("a", &[fired.id]).await.unwrap(), [point]);
    assert_eq!(store.insertions("a", &[text.id]).await.unwrap(), [text]);
    // And changed, by who knows the record and by who knows an older one.
    for change in changes() {
        for known in [store.conversation("c").await.unwrap().unwrap(), known.clone()] {
            let update = Update {
                changes: vec![change.clone()],
                ..update(&known)
            };
            store.change(&update).await.unwrap();
        }
    }
    let other = pair("a", "c", Some("other"));
    let update = update(&store.conversation("c").await.unwrap().unwrap());
    store
        .put_pairs(std::slice::from_ref(&other), &update)
        .await
        .unwrap();
    store
        .put_handoff(&handoff("a", "c", 11), None, &update)
        .await
        .unwrap();
    assert!(store.archive("a", fired.id, true).await.unwrap());
    let resumed = store
        .set_document_status("a", documents[0].handoff, HandoffStatus::Active)
        .await;
    assert_eq!(resumed.unwrap(), Some(vec![documents[1].handoff]));
    assert_eq!(store.documents(&Default::default()).await.unwrap().len(), 2);

    let front: Value = serde_json::from_str(&NEWER.replace("},", "}}")).unwrap();
    for kind in kinds {
        let texts = (opened.texts)(kind).into_iter();
        let records: Vec<Value> = texts.map(|text| serde_json::from_str(&text).unwrap()).collect();
        let kept = records
            .iter()
            .filter(|record| record["of_tomorrow"] == front["of_tomorrow"]);
        let wanted = match *kind {
            "packets" => 2,
            _ => 1,
        };
        assert_eq!(kept.count(), wanted, "{kind} in {}: {records:?}", store.kind());
    }
    // An unknown origin makes no handoff unreadable.
    (opened.other_origin)();
    let found = store.handoff("a", fired.id).await.unwrap().unwrap();
    assert_eq!(
        (found.origin, &found.prompt),
        (HandoffOrigin::Other, &fired.prompt)
    );
    assert_eq!(
        store.handoffs(&Default::default()).await.unwrap().len(),
        1,
        "one is archived"
    );
}

#[tokio::test]
async fn fields_of_a_newer_version_survive_in_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    // Handoffs and documents are columns there.
    what_is_not_known_stays(
        &in_sqlite(&dir),
        &["conversations", "pairs", "cut_points", "insertions"],
    )
    .await;
}

#[tokio::test]
#[cfg_attr(not(has_redis), ignore = "needs redis-server or valkey-server on the PATH")]
async fn fields_of_a_newer_version_survive_in_redis() {
    let server = RedisServer::start(&[]);
    let kinds = [
        "conversations",
        "handoffs",
        "pairs",
        "cut_points",
        "insertions",
        "packets",
    ];
    what_is_not_known_stays(&in_redis(&Arc::new(server)), &kinds).await;
}
