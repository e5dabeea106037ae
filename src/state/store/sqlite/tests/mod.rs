//! The file: crashes, damage, batches.

mod flushes;

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::*;
use crate::store::tests::{PutRecords, at_places, conversation, handoff, pair, update};
use baton_core::record::HiddenPair;

impl SqliteStore {
    /// Ends the writer's thread by a panic.
    pub(crate) fn kill_writer(&self) {
        drop(
            self.writer
                .enqueue(Durable::No, "panic", |_| -> rusqlite::Result<()> {
                    panic!("meant by the test")
                }),
        );
    }
}

fn refusal(dir: &Path) -> String {
    let err = SqliteStore::open(dir).err().expect("refused").to_string();
    assert!(err.contains(FILE), "names the file: {err}");
    err
}

async fn put(store: &SqliteStore, created_ms: u64) -> StoreResult<HandoffId> {
    let new = handoff("local", "c", created_ms);
    store
        .put_handoff(&new, None, &update(&conversation("local", "c", created_ms)))
        .await?;
    Ok(new.id)
}

#[tokio::test]
async fn writes_that_wait_share_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let (open_gate, gate) = mpsc::channel::<()>();
    let (at_gate, arrived) = mpsc::channel();
    let blocked = store.writer.enqueue(Durable::No, "hold the writer", move |_| {
        let _ = at_gate.send(());
        let _ = gate.recv();
        Ok(())
    });
    arrived.recv().unwrap();
    let puts = join_all((0..100).map(|at| put(&store, at)));
    let release = async {
        // `join!` has polled every put once, so all of them are queued.
        open_gate.send(()).unwrap();
        blocked.await.unwrap().unwrap();
    };
    let (ids, ()) = tokio::join!(puts, release);
    assert_eq!(
        store.commits(),
        2,
        "the one that blocked, and one for the hundred"
    );
    for id in ids {
        assert!(store.handoff("local", id.unwrap()).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn one_bad_write_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let first = handoff("local", "c", 1);
    store.add_handoff(&first).await;
    let mut foreign = first.clone();
    foreign.principal = "other".into();
    let theirs = update(&conversation("other", "d", 1));
    let (before, bad, after) = tokio::join!(
        put(&store, 2),
        store.put_handoff(&foreign, None, &theirs),
        put(&store, 3)
    );
    assert!(bad.unwrap_err().message.contains("another principal"));
    for id in [before.unwrap(), after.unwrap()] {
        assert!(store.handoff("local", id).await.unwrap().is_some());
    }
    assert_eq!(store.conversation("d").await.unwrap(), None);
}

#[test]
fn threads_write_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let ids: Vec<HandoffId> = std::thread::scope(|scope| {
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let puts = join_all((0..200).map(|at| put(&store, at)));
            runtime.block_on(puts)
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        let results = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        results.map(Result::unwrap).collect()
    });
    assert!(
        store.commits() < 400,
        "{} commits for 400 writes",
        store.commits()
    );
    drop(store);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let found = runtime
        .block_on(store.handoffs(&HandoffFilter::default()))
        .unwrap();
    assert_eq!((ids.len(), found.len()), (400, 400));
}

#[test]
fn first_starts_at_once() {
    for _ in 0..30 {
        let dir = tempfile::tempdir().unwrap();
        let gate = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    gate.wait();
                    if let Err(err) = SqliteStore::open(dir.path()) {
                        panic!("{err}");
                    }
                });
            }
        });
    }
}

#[test]
fn what_is_made_is_whole_and_leaves_nothing_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    let store = SqliteStore::open(dir.path()).unwrap();
    let mode: String = Connection::open(&file)
        .unwrap()
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    drop(store);
    let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), [FILE]);
    // An empty file is filled.
    fs::write(&file, "").unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    assert!(SqliteStore::open_existing(dir.path()).unwrap().is_some());
}

#[test]
fn a_file_of_another_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    for version in [1, 3, -1] {
        let conn = Connection::open(dir.path().join(FILE)).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        drop(conn);
        let existing = SqliteStore::open_existing(dir.path()).err().unwrap();
        for refused in [refusal(dir.path()), existing.to_string()] {
            let told =
                format!("has schema version {version}, and this program knows version 2: use the version");
            assert!(
                refused.contains(&told) && refused.contains("--state-dir"),
                "{refused}"
            );
        }
    }
}

/// Returns the number of log pages that are not in the file yet.
fn log_pages(dir: &Path) -> u32 {
    let conn = Connection::open(dir.join(FILE)).unwrap();
    let pages = |row: &rusqlite::Row<'_>| Ok(row.get::<_, u32>(1)? - row.get::<_, u32>(2)?);
    conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], pages).unwrap()
}

#[tokio::test]
async fn the_log_is_emptied_between_commits() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let mut new = handoff("local", "c", 1);
    new.prompt = "x".repeat(5 * 1024 * 1024);
    store.add_handoff(&new).await;
    let began = Instant::now();
    while log_pages(dir.path()) >= schema::LOG_PAGES {
        assert!(began.elapsed() < Duration::from_secs(20), "never emptied");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(store.handoff("local", new.id).await.unwrap(), Some(new));
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_not_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let kept = put(&store, 1).await.unwrap();
    let pages = |count: u32| {
        let sql = format!("PRAGMA max_page_count = {count}");
        store
            .writer
            .call("limit the file", move |conn| conn.query_row(&sql, [], |_| Ok(())))
    };
    pages(1).await.unwrap();
    let mut long = handoff("local", "c", 2);
    long.prompt = "x".repeat(1 << 20);
    let after = conversation("local", "c", 2);
    let err = store.put_handoff(&long, None, &update(&after)).await.unwrap_err();
    assert!(err.is_full, "{err}");
    assert_eq!(store.handoff("local", long.id).await.unwrap(), None);
    assert!(store.handoff("local", kept).await.unwrap().is_some());
    pages(1 << 20).await.unwrap();
    store.put_handoff(&long, None, &update(&after)).await.unwrap();
    assert!(store.handoff("local", long.id).await.unwrap().is_some());
}

#[test]
fn a_damaged_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join(FILE),
        "not a database, but long enough to be read as one".repeat(99),
    )
    .unwrap();
    assert!(refusal(dir.path()).contains("damaged"));

    // A valid header followed by garbage.
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let mut bytes = fs::read(dir.path().join(FILE)).unwrap();
    bytes[100..].fill(0x5a);
    fs::write(dir.path().join(FILE), bytes).unwrap();
    assert!(refusal(dir.path()).contains("damaged"));
}

#[test]
fn an_unusable_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FILE)).unwrap();
    refusal(dir.path());
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let err = SqliteStore::open(&file).err().unwrap();
    assert!(err.message.contains("--state-dir"), "{err}");
}

#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let store = SqliteStore::open(&state).unwrap();
    put(&store, 1).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for name in ["baton.db", "baton.db-wal", "baton.db-shm"] {
        assert_eq!(mode(&state.join(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn misses_ask_no_sql() {
    let dir = tempfile::tempdir().unwrap();
    let beside = pair("local", "c", Some("call_x"));
    let store = SqliteStore::open(dir.path()).unwrap();
    let known = update(&conversation("local", "c", 1));
    store.put_pair(&beside, &known).await.unwrap();
    drop(store);
    let store = SqliteStore::open(dir.path()).unwrap();
    let mut siblings: Vec<String> = (0..10_000).map(|n| format!("toolu_01{n:020}")).collect();
    let began = Instant::now();
    let mut answer = store.find(PlacedKind::Pair, "local", Lookup::Places(&siblings));
    let waker = futures_util::task::noop_waker();
    let first = answer.as_mut().poll(&mut std::task::Context::from_waker(&waker));
    assert!(first.is_ready(), "answered at once");
    let took = began.elapsed();
    println!("pairs_beside, 10,000 ids, no hit: {took:?}");
    assert!(took < Duration::from_millis(200));
    drop(answer);
    siblings.push("call_x".into());
    assert_eq!(
        at_places::<HiddenPair>(&store, "local", &siblings).await,
        [beside]
    );
}
