use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{id, settings, store, stored};
use crate::files::documents::{DocumentWriter, JSON, MARKDOWN, find, set_status, write};
use baton_core::handoffs::document::{HandoffDocument, validate};
use baton_core::record::HandoffStatus;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A superseded document is archived by its age, in the store and in its files. An active one never is.
#[tokio::test]
async fn a_superseded_document_is_archived_after_its_days() {
    let dir = tempfile::tempdir().unwrap();
    let (settings, store) = (settings(dir.path()), store(dir.path()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ago = |days: u32| u64::try_from((now - DAY * days).as_millis()).unwrap();
    let shared = Arc::new(settings.clone());
    for (n, days) in [(1, 40), (2, 31), (3, 29), (4, 28)] {
        let made = stored(n, ago(days));
        store.put_draft(&made.handoff).await.unwrap();
        write(&shared, &store, made).await.unwrap();
    }
    let statuses = async || {
        let mut all = Vec::new();
        for n in 1..=4 {
            let record = find(&store, "local", id(n)).await.unwrap().unwrap();
            let directory = std::path::PathBuf::from(&record.directory);
            let json = std::fs::read_to_string(directory.join(JSON)).unwrap();
            let markdown = std::fs::read_to_string(directory.join(MARKDOWN)).unwrap();
            let differs = validate(&json, Some(&markdown)).len();
            all.push((
                record.status,
                HandoffDocument::read(&json).unwrap().status,
                differs,
            ));
        }
        all
    };
    let is = |status: HandoffStatus| (status, status, 0);
    let (active, superseded, archived) = (
        is(HandoffStatus::Active),
        is(HandoffStatus::Superseded),
        is(HandoffStatus::Archived),
    );
    // Without a configured age nothing is archived.
    let off = DocumentWriter::start(Some(settings.clone()), store.clone());
    assert!(off.flush(Duration::from_secs(20)).await);
    assert_eq!(statuses().await, [superseded, superseded, superseded, active]);
    let on = super::DocumentSettings {
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
