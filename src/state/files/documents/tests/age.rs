use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{DocumentSettings, id, settings, store, stored};
use crate::files::documents::{
    DocumentWriter, JSON, MARKDOWN, delete_files, filed, find, set_status, sweep_files, write,
};
use crate::files::yaml_files::HandoffDirectory;
use crate::store::SharedStore;
use crate::store::records::Retention;
use baton_core::handoffs::document::{HandoffDocument, validate};
use baton_core::record::HandoffStatus;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Milliseconds since the Unix epoch that many days ago.
fn ago(days: u32) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from((now - DAY * days).as_millis()).unwrap()
}

/// Writes handoffs of these ages in days, with their documents.
async fn write_aged(settings: &Arc<DocumentSettings>, store: &SharedStore, all: &[(u128, u32)]) {
    for (n, days) in all {
        let made = stored(*n, ago(*days));
        store.put_draft(&made.handoff).await.unwrap();
        write(settings, store, made).await.unwrap();
    }
}

/// A superseded document is archived by its age, in the store and in its files. An active one never is.
#[tokio::test]
async fn a_superseded_document_is_archived_after_its_days() {
    let dir = tempfile::tempdir().unwrap();
    let (settings, store) = (settings(dir.path()), store(dir.path()));
    let shared = Arc::new(settings.clone());
    write_aged(&shared, &store, &[(1, 40), (2, 31), (3, 29), (4, 28)]).await;
    let statuses = async || {
        let mut all = Vec::new();
        for n in 1..=4 {
            let record = find(&store, "local", id(n)).await.unwrap().unwrap();
            let directory = std::path::PathBuf::from(&record.directory);
            let json = std::fs::read_to_string(directory.join(JSON)).unwrap();
            let markdown = std::fs::read_to_string(directory.join(MARKDOWN)).unwrap();
            let differs = validate(&json, Some(&markdown)).len();
            let in_file = HandoffDocument::read(&json).unwrap().status;
            all.push((record.status, in_file, differs));
        }
        all
    };
    let is = |status: HandoffStatus| (status, status, 0);
    let statuses_of = [
        HandoffStatus::Active,
        HandoffStatus::Superseded,
        HandoffStatus::Archived,
    ];
    let [active, superseded, archived] = statuses_of.map(is);
    // Without a configured age nothing is archived.
    let off = DocumentWriter::start(Some(settings.clone()), store.clone());
    assert!(off.flush(Duration::from_secs(20)).await);
    assert_eq!(statuses().await, [superseded, superseded, superseded, active]);
    let on = DocumentSettings {
        archive_after: Some(DAY * 30),
        ..settings
    };
    let writer = DocumentWriter::start(Some(on), store.clone());
    for _ in 0..1000 {
        if statuses().await[1] == archived {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(writer.flush(Duration::from_secs(20)).await);
    assert_eq!(statuses().await, [archived, archived, superseded, active]);
    // A handoff and its document are archived together, and leave the archive together.
    let in_archive = async || {
        let mut all = Vec::new();
        for n in 1..=4 {
            all.push(store.handoff("local", id(n)).await.unwrap().unwrap().archived);
        }
        all
    };
    assert_eq!(in_archive().await, [true, true, false, false]);
    let set = async |n, status| set_status(&store, "local", id(n), status).await.unwrap().unwrap();
    assert_eq!(set(1, HandoffStatus::Active).await.superseded, [id(4)]);
    assert_eq!(in_archive().await, [false, true, false, false]);
    set(4, HandoffStatus::Archived).await;
    assert_eq!(in_archive().await, [false, true, false, true]);
    assert_eq!(statuses().await, [active, archived, superseded, archived]);
}

/// All files below a directory, with their contents, without locks.
fn contents(dir: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => text.push_str(&contents(&path)),
            false => text.push_str(&std::fs::read_to_string(&path).unwrap_or_default()),
        }
    }
    text
}

/// Retention deletes an old handoff's document, YAML file and ledger entry, and no others.
#[tokio::test]
async fn a_handoffs_files_are_deleted_with_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let (settings, store) = (Arc::new(settings(dir.path())), store(dir.path()));
    write_aged(&settings, &store, &[(1, 400), (2, 300), (3, 3)]).await;
    let directory = HandoffDirectory::new(&settings.dir).unwrap();
    let text = || {
        ["handoffs", "ledgers"]
            .map(|name| contents(&dir.path().join(name)))
            .concat()
    };
    let names = |text: &str| [1, 2, 3].map(|n| text.contains(&format!("task {n}")));
    assert_eq!(names(&text()), [true; 3]);
    let swept = async |days| sweep_files(directory.clone(), &store, ago(days)).await.unwrap();
    assert_eq!(swept(100).await, 0, "the store has all of them");
    let expiring = Retention {
        handoffs: Some(ago(350)),
        ..Retention::before(0)
    };
    let gone = store.sweep(&expiring).await.unwrap();
    assert_eq!(gone, 2, "a handoff and its document");
    assert_eq!(swept(350).await, 2, "a directory and a YAML file");
    assert_eq!(names(&text()), [false, true, true]);
    // A file in a document's directory that another program wrote stays.
    let foreign = settings.dir.join(id(2).to_string()).join("notes.txt");
    std::fs::write(&foreign, "mine").unwrap();
    let all = HashSet::from([id(2), id(3)]);
    assert_eq!(delete_files(&directory, &all, None, true).unwrap().len(), 4);
    assert_eq!(names(&text()), [false, true, true], "a dry run");
    delete_files(&directory, &all, None, false).unwrap();
    assert_eq!(names(&text()), [false; 3]);
    assert!(foreign.is_file() && !settings.dir.join(id(3).to_string()).exists());
    assert!(filed(&directory).unwrap().is_empty());
    let ledger = dir.path().join("ledgers/CONTINUITY_importer.md");
    assert!(!ledger.exists(), "the whole ledger");
}

/// Whoever writes to the store's server must not have files written wherever they like.
#[tokio::test]
async fn a_status_is_written_only_to_a_documents_own_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (settings, store) = (settings(dir.path()), store(dir.path()));
    let made = stored(1, 1_000_000);
    store.put_draft(&made.handoff).await.unwrap();
    let own = write(&Arc::new(settings), &store, made).await.unwrap();
    let mut record = find(&store, "local", id(1)).await.unwrap().unwrap();
    let elsewhere = dir.path().join("commands");
    std::fs::create_dir(&elsewhere).unwrap();
    record.directory = elsewhere.to_str().unwrap().to_owned();
    store.put_document(&record).await.unwrap();
    let set = async |status| set_status(&store, "local", id(1), status).await.unwrap();
    set(HandoffStatus::Archived).await;
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    record.directory = own.to_str().unwrap().to_owned();
    store.put_document(&record).await.unwrap();
    set(HandoffStatus::Undone).await;
    let json = std::fs::read_to_string(own.join(JSON)).unwrap();
    let status = HandoffDocument::read(&json).unwrap().status;
    assert_eq!(status, HandoffStatus::Undone);
}
