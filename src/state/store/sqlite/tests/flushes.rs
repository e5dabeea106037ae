//! Failed flushes, deleted files, and the write probe.

use super::*;

/// A disk whose flushes fail on demand, and that counts how often the process would have ended.
#[derive(Clone, Default)]
struct FailingDisk {
    fails: Arc<std::sync::atomic::AtomicBool>,
    ends: Arc<AtomicU64>,
}

impl FailingDisk {
    fn flush(&self) -> impl Fn(&fs::File) -> std::io::Result<()> + Send + Sync + 'static {
        let fails = Arc::clone(&self.fails);
        move |file| match fails.load(Ordering::SeqCst) {
            true => Err(std::io::Error::other("input/output error")),
            false => file.sync_data(),
        }
    }

    fn open(&self, dir: &Path) -> SqliteStore {
        let ends = Arc::clone(&self.ends);
        let disk = Disk {
            flush: Arc::new(self.flush()),
            lost: Arc::new(move || {
                ends.fetch_add(1, Ordering::SeqCst);
            }),
        };
        SqliteStore::open_on(disk, dir).unwrap()
    }

    fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    async fn ended(&self) {
        let began = Instant::now();
        while self.ends.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "the process goes on");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn after_a_failed_flush_nothing_is_acknowledged_and_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::default();
    let store = disk.open(dir.path());
    let kept = put(&store, 1).await.unwrap();
    disk.fail(true);
    let err = put(&store, 2).await.unwrap_err();
    assert!(err.message.contains("cannot be flushed"), "{err}");
    disk.ended().await;
    // The kernel reports such a failure once: the next flush succeeds without the lost pages.
    disk.fail(false);
    put(&store, 3).await.unwrap_err();
    store
        .change(&update(&conversation("local", "d", 1)))
        .await
        .unwrap_err();
    store.probe().await.unwrap_err();
    assert!(
        store.handoff("local", kept).await.unwrap().is_some(),
        "reads work"
    );
}

#[tokio::test]
async fn a_flush_that_fails_after_its_write_returned_ends_the_process_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FailingDisk::default();
    let store = disk.open(dir.path());
    disk.fail(true);
    store
        .change(&update(&conversation("local", "unflushed", 1)))
        .await
        .unwrap();
    disk.ended().await;
}

#[tokio::test]
async fn a_log_that_is_gone_before_its_first_flush_does_not_end_the_process() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, elsewhere) = (parent.path().join("state"), parent.path().join("away"));
    let disk = FailingDisk::default();
    let store = disk.open(&dir);
    store
        .change(&update(&conversation("local", "soon", 1)))
        .await
        .unwrap();
    fs::rename(&dir, &elsewhere).unwrap();
    put(&store, 1).await.unwrap_err();
    // The delayed flush is due in the meantime.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(disk.ends.load(Ordering::SeqCst), 0);
    fs::rename(&elsewhere, &dir).unwrap();
    put(&store, 2).await.unwrap();
}

/// Runs in a process of its own, below, whose disk dies after one handoff.
#[tokio::test]
async fn child_whose_disk_dies() {
    let Some(dir) = std::env::var_os("BATON_TEST_DYING_DISK") else {
        return;
    };
    let failing = FailingDisk::default();
    let disk = Disk {
        flush: Arc::new(failing.flush()),
        ..Disk::new()
    };
    let store = SqliteStore::open_on(disk, Path::new(&dir)).unwrap();
    println!("kept {}", put(&store, 1).await.unwrap());
    failing.fail(true);
    for at in 2.. {
        if let Ok(id) = put(&store, at).await {
            println!("kept {id}");
        }
    }
}

#[tokio::test]
async fn a_process_whose_disk_dies_ends_and_the_next_one_has_all_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg(format!(
            "{}::child_whose_disk_dies",
            module_path!().split_once("::").unwrap().1
        ))
        .env("BATON_TEST_DYING_DISK", dir.path())
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(74), "{child:?}");
    let printed = String::from_utf8(child.stdout).unwrap();
    let kept: Vec<_> = printed
        .lines()
        .filter_map(|line| line.split_once("kept "))
        .collect();
    assert_eq!(kept.len(), 1, "{printed}");
    let store = SqliteStore::open(dir.path()).unwrap();
    for (_, id) in kept {
        let id = id.parse().unwrap();
        assert!(store.handoff("local", id).await.unwrap().is_some());
    }
    put(&store, 9).await.unwrap();
}

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
    other.execute_batch("ALTER TABLE records RENAME TO gone").unwrap();
    let err = store.probe().await.unwrap_err();
    assert!(err.message.contains("records"), "{err}");
    other.execute_batch("ALTER TABLE gone RENAME TO records").unwrap();
    store.probe().await.unwrap();
    // A panic ends the thread without the reader noticing.
    store.kill_writer();
    let err = store.probe().await.unwrap_err();
    assert!(err.message.contains("has ended"), "{err}");
    store.ping().await.unwrap();
}
