//! A document that hangs does not delay the others.

use std::sync::mpsc;
use std::time::Duration;

use super::{id, settings, store, stored};
use crate::files::documents::{DocumentWriter, find};

const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_document_that_hangs_is_given_up_and_the_next_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut quick = settings(dir.path());
    // The next document needs some of it on a busy machine.
    quick.limit = Duration::from_secs(3);
    let writer = DocumentWriter::start(Some(quick), store.clone());
    let (go, hangs) = mpsc::channel::<()>();
    let mut hanging = stored(1, 1_000_000);
    hanging.transcript = Box::new(move || {
        let _ = hangs.recv();
        None
    });
    writer.handoff(hanging);
    writer.handoff(stored(2, 2_000_000));
    assert!(writer.flush(TIMEOUT).await);
    assert_eq!(writer.counts(), [1, 1, 0]);
    assert!(find(&store, "local", id(2)).await.unwrap().is_some());
    drop(go);
}

/// A FIFO in place of a directory's lock. Opening it would wait for a writer.
#[tokio::test]
async fn a_fifo_as_a_lock_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let writer = DocumentWriter::start(Some(settings(dir.path())), store.clone());
    let session = dir.path().join("handoffs/general");
    std::fs::create_dir_all(&session).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(session.join(".lock"))
        .status();
    assert!(made.unwrap().success());
    for n in 1..=2 {
        writer.handoff(stored(n, u64::try_from(n).unwrap() * 1_000_000));
    }
    assert!(writer.flush(TIMEOUT).await);
    assert_eq!(
        writer.counts(),
        [2, 0, 0],
        "the documents are there, without handoff files"
    );
    assert!(std::fs::read_dir(&session).unwrap().count() == 1);
}
