//! Documents: at most one is active for each repository, branch and topic.

use super::*;

/// Creation times and statuses of all documents.
async fn statuses(store: &dyn Store) -> Vec<(u64, &'static str)> {
    let all = store.documents(&DocumentFilter::default()).await.unwrap();
    all.iter().map(|p| (p.created_ms, p.status.name())).collect()
}

pub(super) async fn one_document_of_a_kind_is_active(store: &dyn Store) {
    let none: [HandoffId; 0] = [];
    let [one, two, three] = [1, 2, 3].map(|at| document("a", "main", at));
    for alone in [&one, &document("a", "other", 9), &document("b", "main", 8)] {
        assert_eq!(store.put_document(alone).await.unwrap(), none);
    }
    assert_eq!(store.put_document(&two).await.unwrap(), [one.handoff]);
    assert_eq!(store.put_document(&two).await.unwrap(), none, "written again");
    assert_eq!(store.put_document(&three).await.unwrap(), [two.handoff]);
    let all = [
        (9, "active"),
        (8, "active"),
        (3, "active"),
        (2, "superseded"),
        (1, "superseded"),
    ];
    assert_eq!(statuses(store).await, all);
    // Resumed by id.
    let active = HandoffStatus::Active;
    let resumed = store.set_document_status("a", one.handoff, active).await.unwrap();
    assert_eq!(resumed, Some(vec![three.handoff]));
    let strange = store.set_document_status("b", one.handoff, active).await.unwrap();
    assert_eq!(strange, None, "another principal");
    let archived = store.set_document_status("a", one.handoff, HandoffStatus::Archived);
    assert_eq!(archived.await.unwrap(), Some(vec![]));
    let filter = DocumentFilter {
        principal: Some("a".into()),
        status: Some(active),
        topic: Some("c".into()),
        ..DocumentFilter::default()
    };
    let found = store.documents(&filter).await.unwrap();
    assert_eq!(found.len(), 1, "the other branch");
    let one_of = DocumentFilter {
        handoff: Some(three.handoff),
        limit: 1,
        ..DocumentFilter::default()
    };
    let found = store.documents(&one_of).await.unwrap();
    let superseded = DocumentRecord {
        status: HandoffStatus::Superseded,
        ..three.clone()
    };
    assert_eq!(found, [superseded]);
    let stolen = DocumentRecord {
        principal: "b".into(),
        ..three
    };
    assert!(store.put_document(&stolen).await.is_err());
}

/// Concurrent writers, resumers and readers: superseding and superseded documents change atomically.
///
/// A store whose lists take several steps can only be checked at the end.
pub(super) async fn no_moment_has_two_active_documents_or_none(store: &SharedStore, lists_at_once: bool) {
    const EACH: u64 = 25;
    let first = document("a", "main", 1);
    store.put_document(&first).await.unwrap();
    let writers = (0..4u64).map(|writer| {
        let (store, first) = (Arc::clone(store), first.handoff);
        tokio::spawn(async move {
            for n in 0..EACH {
                match writer {
                    0 => {
                        let resumed = store.set_document_status("a", first, HandoffStatus::Active).await;
                        assert!(resumed.unwrap().is_some());
                    }
                    _ => {
                        let new = document("a", "main", 10 + writer * EACH + n);
                        store.put_document(&new).await.unwrap();
                    }
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let active = DocumentFilter {
        status: Some(HandoffStatus::Active),
        ..DocumentFilter::default()
    };
    while writers.iter().any(|writer| !writer.is_finished()) {
        // Listing a shared store takes several steps, listing the others a single one.
        let found = store.documents(&active).await.unwrap().len();
        assert!(found == 1 || !lists_at_once, "{found} are active");
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(store.documents(&active).await.unwrap().len(), 1);
    let all = store.documents(&DocumentFilter::default()).await.unwrap();
    assert_eq!(all.len() as u64, 1 + 3 * EACH);
}

pub(super) async fn superseded_documents_are_archived_by_age(store: &dyn Store) {
    let [old, older, young] = [3, 1, 7].map(|at| document("a", "main", at));
    let other = document("b", "main", 2);
    for document in [&older, &old, &young, &other] {
        store.put_document(document).await.unwrap();
    }
    let newest = document("a", "main", 9);
    store.put_document(&newest).await.unwrap();
    let mut archived = store.archive_documents(5).await.unwrap();
    archived.sort();
    let mut expected = [old.handoff, older.handoff].map(|id| ("a".to_owned(), id));
    expected.sort();
    assert_eq!(archived, expected);
    let all = [
        (9, "active"),
        (7, "superseded"),
        (3, "archived"),
        (2, "active"),
        (1, "archived"),
    ];
    assert_eq!(statuses(store).await, all);
    assert_eq!(store.archive_documents(5).await.unwrap(), []);
    // The document can be resumed, and its replacement becomes superseded again.
    let resumed = store.set_document_status("a", old.handoff, HandoffStatus::Active);
    assert_eq!(resumed.await.unwrap(), Some(vec![newest.handoff]));
}
