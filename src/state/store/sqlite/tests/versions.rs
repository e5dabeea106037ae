//! Files of other versions.

use super::*;

/// A file without cut points, with a handoff in it.
#[tokio::test]
async fn a_file_without_cut_points_is_brought_forward() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let kept = put(&store, 1).await.unwrap();
    drop(store);
    let conn = Connection::open(dir.path().join(FILE)).unwrap();
    conn.execute_batch(
        "DROP TABLE packets; DROP TABLE cut_points; DROP TABLE insertions; ALTER TABLE handoffs DROP COLUMN spelled_out;
        ALTER TABLE handoffs DROP COLUMN recall; ALTER TABLE handoffs DROP COLUMN routed;
        PRAGMA user_version = 2;",
    )
    .unwrap();
    drop(conn);
    let err = SqliteStore::open_existing(dir.path()).err().unwrap();
    assert!(err.message.contains("baton serve"), "{err}");
    let store = SqliteStore::open(dir.path()).unwrap();
    let handoff = store.handoff("local", kept).await.unwrap().unwrap();
    assert_eq!(handoff.spelled_out, None, "not known");
    assert!(
        store
            .conversation("c")
            .await
            .unwrap()
            .unwrap()
            .left_out
            .is_empty()
    );
    put_cut_point(&store, &cut_point(&handoff, "d")).await.unwrap();
    assert_eq!(store.cut_points("local", &[kept]).await.unwrap().len(), 1);
}

/// A file of the version before insertions, with a pair and a cut point as that version wrote them.
#[tokio::test]
async fn a_file_without_insertions_is_brought_forward() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    put(&store, 1).await.unwrap();
    drop(store);
    let conn = Connection::open(dir.path().join(FILE)).unwrap();
    let id = Uuid::now_v7();
    let pair = format!(
        r#"{{"id":"{id}","principal":"local","conversation":"c","wire":"anthropic","call_id":"h","call":"{{}}","answer":"queued","place":{{"beside":{{"sibling":"t","offset":0}}}},"pending":null,"created_ms":7}}"#
    );
    let point = format!(
        r#"{{"handoff":"{id}","principal":"local","conversation":"c","turns":3,"digest":"d","texts":[],"created_ms":1}}"#
    );
    conn.execute(
        "INSERT INTO pairs VALUES (?1, 'local', 'c', 't', 7, ?2)",
        rusqlite::params![id.as_bytes(), pair],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO cut_points VALUES (?1, 'local', 'c', 'd', 7, ?2)",
        rusqlite::params![id.as_bytes(), point],
    )
    .unwrap();
    conn.execute_batch(
        "DROP TABLE packets; DROP TABLE insertions; ALTER TABLE handoffs DROP COLUMN recall; ALTER TABLE handoffs DROP COLUMN routed;
        PRAGMA user_version = 4;",
    )
    .unwrap();
    drop(conn);
    let store = SqliteStore::open(dir.path()).unwrap();
    let pairs = store.pairs_beside("local", &["t".to_owned()]).await.unwrap();
    assert_eq!((pairs.len(), pairs[0].id), (1, id));
    let points = store.cut_points_at("local", &["d".to_owned()]).await.unwrap();
    assert_eq!((points.len(), points[0].position.turns), (1, 3));
    assert!(!store.may_have_insertions());
    let text = insertion("local", "c", "d");
    store
        .put_insertion(&text, &update(&conversation("local", "c", 9)))
        .await
        .unwrap();
    drop(store);
    let store = SqliteStore::open(dir.path()).unwrap();
    assert!(store.may_have_insertions());
    assert_eq!(
        store.insertions_at("local", &["d".to_owned()]).await.unwrap(),
        [text]
    );
}

#[test]
fn a_newer_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let conn = Connection::open(dir.path().join(FILE)).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();
    drop(conn);
    let err = refusal(dir.path());
    assert!(err.contains("newer version") && err.contains("99"), "{err}");
    let err = SqliteStore::open_existing(dir.path()).err().unwrap();
    assert!(err.message.contains("newer version"), "{err}");
}
