//! A process is killed by SIGKILL at every step of writing a document that supersedes another one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{id, settings, store, stored};
use crate::disk::AT_STAGES;
use crate::files::documents::{DocumentWriter, JSON, MARKDOWN, find, write};
use crate::files::yaml_files::{HandoffDirectory, read_file};
use baton_core::handoffs::document::{HandoffDocument, validate};
use baton_core::record::HandoffStatus;

const DIR: &str = "BATON_TEST_DOCUMENT_DIR";
const STEP: &str = "BATON_TEST_DOCUMENT_STEP";

/// One step for the row, seven for the handoff file, four for each of four files, and one at the end.
const STEPS: usize = 25;

/// Kills this process with a signal that it cannot catch.
fn kill() {
    let _ = Command::new("sh").args(["-c", "kill -KILL $PPID"]).status();
    std::thread::sleep(Duration::from_secs(60));
}

#[tokio::test]
#[ignore = "run by the test below"]
async fn child_that_is_killed() {
    let (Ok(dir), Ok(last)) = (std::env::var(DIR), std::env::var(STEP)) else {
        return;
    };
    let (dir, last): (PathBuf, usize) = (dir.into(), last.parse().unwrap());
    let passed = AtomicUsize::new(0);
    let step = Box::new(move |_: &str| {
        if passed.fetch_add(1, Ordering::Relaxed) == last {
            kill();
        }
    });
    let settings = Arc::new(settings(&dir));
    let store = store(&dir);
    assert!(AT_STAGES.set(step).is_ok());
    write(&settings, &store, stored(2, 2_000_000)).await.unwrap();
}

/// Asserts that each file is complete and has one status: either that before the step or that after it.
fn is_whole(directory: &Path) {
    let (json, markdown) = (directory.join(JSON), directory.join(MARKDOWN));
    let content = std::fs::read_to_string(&json).ok().map(|text| {
        let document =
            HandoffDocument::read(&text).unwrap_or_else(|error| panic!("{}: {error}", json.display()));
        assert_eq!(document.json(), text);
        document
    });
    if let Ok(text) = std::fs::read_to_string(&markdown) {
        let document = content.expect("the JSON is written first");
        let either = [HandoffStatus::Active, HandoffStatus::Superseded];
        let renderings = either.map(|status| document.clone().with_status(status).markdown());
        assert!(renderings.contains(&text), "{}", markdown.display());
    }
}

#[tokio::test]
async fn killed_at_any_step_no_file_is_torn_and_the_next_start_repairs() {
    for last in 0..=STEPS {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let first = Arc::new(settings(dir));
        write(&first, &store(dir), stored(1, 1_000_000)).await.unwrap();
        let done = Command::new(std::env::current_exe().unwrap())
            .args([
                "files::documents::tests::killed::child_that_is_killed",
                "--exact",
                "--ignored",
            ])
            .env(DIR, dir)
            .env(STEP, last.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(done.success(), last == STEPS, "step {last}: {done}");
        let documents = dir.join("handoffs");
        for n in 1..=2 {
            is_whole(&documents.join(id(n).to_string()));
        }
        // After each of these steps the row exists, and the superseded document has its new status.
        let store = store(dir);
        let writer = DocumentWriter::start(Some(settings(dir)), store.clone());
        assert!(writer.flush(Duration::from_secs(20)).await);
        for (n, status) in [(1, HandoffStatus::Superseded), (2, HandoffStatus::Active)] {
            let record = find(&store, "local", id(n)).await.unwrap().unwrap();
            assert_eq!(record.status, status, "step {last}");
            let directory = PathBuf::from(&record.directory);
            let json = std::fs::read_to_string(directory.join(JSON)).unwrap();
            let markdown = std::fs::read_to_string(directory.join(MARKDOWN)).unwrap();
            assert_eq!(validate(&json, Some(&markdown)), [], "step {last}");
            assert_eq!(
                HandoffDocument::read(&json).unwrap().status,
                status,
                "step {last}"
            );
            assert_eq!(handoff_files(&documents, n), 1, "step {last}");
        }
    }
}

/// Counts the handoff files of a document.
fn handoff_files(documents: &Path, n: u128) -> usize {
    let directory = HandoffDirectory::new(documents).unwrap();
    let listed = directory.list(None, 0, false).unwrap().found;
    let read = listed.iter().map(|one| read_file(&one.path).unwrap().file);
    read.filter(|file| file.findings.get("handoff") == Some(&id(n).to_string()))
        .count()
}

/// Files left by a killed process are deleted once they are old, when the document is written again.
#[tokio::test]
async fn what_a_killed_process_left_is_deleted_when_it_is_old() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Arc::new(settings(dir.path()));
    let store = store(dir.path());
    let directory = write(&settings, &store, stored(1, 1_000_000)).await.unwrap();
    let (old, young) = (
        directory.join(".handoff.json.a.tmp"),
        directory.join(".handoff.md.b.tmp"),
    );
    for path in [&old, &young] {
        std::fs::write(path, "half").unwrap();
    }
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    let file = std::fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(hour_ago).unwrap();
    write(&settings, &store, stored(2, 2_000_000)).await.unwrap();
    assert!(!old.exists() && young.exists());
}
