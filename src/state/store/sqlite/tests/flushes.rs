//! Failed flushes, deleted files, and the write probe.

use super::*;

/// A disk whose flushes fail on demand.
#[derive(Clone, Default)]
struct Disk {
    fails: Arc<std::sync::atomic::AtomicBool>,
    flushes: Arc<AtomicU64>,
}

impl Disk {
    fn open(&self, dir: &Path) -> SqliteStore {
        let disk = self.clone();
        let flush = move |file: &fs::File| {
            disk.flushes.fetch_add(1, Ordering::SeqCst);
            match disk.fails.load(Ordering::SeqCst) {
                true => Err(std::io::Error::other("input/output error")),
                false => file.sync_data(),
            }
        };
        SqliteStore::open_flushed_by(dir, Arc::new(flush)).unwrap()
    }

    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Waits for this many further flushes.
    async fn flushed(&self, times: u64) {
        let before = self.flushes.load(Ordering::SeqCst);
        let began = Instant::now();
        while self.flushes.load(Ordering::SeqCst) < before + times {
            assert!(began.elapsed() < Duration::from_secs(20), "no flush");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Makes a flush fail after its write was acknowledged. The kernel reports such a failure only once.
async fn a_flush_fails_unseen(disk: &Disk, store: &SqliteStore) {
    disk.fail(true);
    store
        .change(&update(&conversation("local", "unflushed", 1)))
        .await
        .unwrap();
    disk.flushed(1).await;
}

#[tokio::test]
async fn after_a_failed_flush_nothing_is_acknowledged_until_the_file_is_verified() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let store = disk.open(dir.path());
    let kept = put(&store, 1).await.unwrap();
    a_flush_fails_unseen(&disk, &store).await;
    for _ in 0..3 {
        let err = put(&store, 2).await.unwrap_err();
        assert!(err.message.contains("cannot be flushed"), "{err}");
        let err = store.change(&update(&conversation("local", "d", 1))).await;
        assert!(err.is_err(), "also what is flushed after its answer");
        assert!(store.probe().await.is_err());
    }
    assert!(
        store.handoff("local", kept).await.unwrap().is_some(),
        "reads go on"
    );
    disk.fail(false);
    let began = Instant::now();
    let again = loop {
        match put(&store, 3).await {
            Ok(id) => break id,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        assert!(began.elapsed() < Duration::from_secs(20), "never verified");
    };
    // Only the two files, like a start after a power loss finds them.
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE.to_owned(), format!("{FILE}-wal")] {
        fs::copy(dir.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let found = SqliteStore::open(copy.path()).unwrap();
    for id in [kept, again] {
        assert!(found.handoff("local", id).await.unwrap().is_some());
    }
    assert!(found.conversation("unflushed").await.unwrap().is_some());
}

#[tokio::test]
async fn a_store_heals_by_itself_when_the_disk_does() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let store = disk.open(dir.path());
    a_flush_fails_unseen(&disk, &store).await;
    disk.fail(false);
    // Nobody writes meanwhile.
    disk.flushed(1).await;
    put(&store, 1).await.unwrap();
}

#[tokio::test]
async fn nothing_is_written_after_a_hole_in_the_log() {
    use std::io::{Seek, Write};
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::default();
    let store = disk.open(dir.path());
    for at in 0..10 {
        put(&store, at).await.unwrap();
    }
    a_flush_fails_unseen(&disk, &store).await;
    // As if the kernel had reread a page of the log that the disk did not have.
    let mut log = fs::OpenOptions::new()
        .write(true)
        .open(schema::log_of(&dir.path().join(FILE)))
        .unwrap();
    log.seek(std::io::SeekFrom::Start(3 * 4120)).unwrap();
    log.write_all(&[0; 4096]).unwrap();
    disk.fail(false);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let err = put(&store, 11).await.unwrap_err();
    assert!(err.message.contains("whole frames"), "{err}");
    assert!(store.probe().await.is_err());
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_written_to_a_file_that_is_gone_is_an_error() {
    let write = async |store: &SqliteStore| {
        let durable = put(store, 2).await;
        let soon = store.change(&update(&conversation("local", "d", 1))).await;
        assert_eq!(durable.is_err(), soon.is_err());
        assert_eq!(durable.is_err(), store.probe().await.is_err());
        durable.map(|_| ()).map_err(|err| err.message)
    };
    let parent = tempfile::tempdir().unwrap();
    let (dir, elsewhere) = (parent.path().join("state"), parent.path().join("away"));
    let store = SqliteStore::open(&dir).unwrap();
    assert_eq!(write(&store).await, Ok(()));
    fs::rename(&dir, &elsewhere).unwrap();
    let err = write(&store).await.unwrap_err();
    assert!(err.contains("was deleted"), "{err}");
    fs::rename(&elsewhere, &dir).unwrap();
    assert_eq!(write(&store).await, Ok(()), "put back");
    // Only the log, which holds the newest acknowledged writes.
    let log = schema::log_of(&dir.join(FILE));
    fs::rename(&log, &elsewhere).unwrap();
    assert!(write(&store).await.unwrap_err().contains("-wal"));
    fs::rename(&elsewhere, &log).unwrap();
    assert_eq!(write(&store).await, Ok(()));
    // Another file with this name, even with the same bytes.
    fs::copy(dir.join(FILE), &elsewhere).unwrap();
    fs::rename(&elsewhere, dir.join(FILE)).unwrap();
    assert!(write(&store).await.unwrap_err().contains("another file"));
    fs::remove_dir_all(&dir).unwrap();
    assert!(write(&store).await.is_err());
}

#[tokio::test]
async fn the_probe_goes_the_way_of_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let before = store.commits();
    store.probe().await.unwrap();
    assert_eq!(store.commits(), before + 1);
    let other = Connection::open(dir.path().join(FILE)).unwrap();
    let tables = ["handoffs", "pairs", "cut_points", "conversations", "response_ids"];
    for table in tables {
        other
            .execute_batch(&format!("ALTER TABLE {table} RENAME TO gone"))
            .unwrap();
        let err = store.probe().await.unwrap_err();
        assert!(err.message.contains(table), "{err}");
        other
            .execute_batch(&format!("ALTER TABLE gone RENAME TO {table}"))
            .unwrap();
        store.probe().await.unwrap();
    }
    // A panic ends the thread without the reader noticing.
    store.kill_writer();
    let err = store.probe().await.unwrap_err();
    assert!(err.message.contains("has ended"), "{err}");
    store.ping().await.unwrap();
}
