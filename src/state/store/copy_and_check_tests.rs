//! Copies between stores of every kind, and checks of stored records.

use std::sync::Arc;

use uuid::Uuid;

use super::copy_and_check::{check, copy};
use super::records::{RecordKind, Retention, StoredRecord};
use super::redis::tests::server::RedisServer;
use super::redis::tests::{also_over_redis, store_in};
use super::sqlite::SqliteStore;
use super::tests::{
    PutRecords, at_places, conversation, cut_point, document, handoff, insertion, pair, update,
};
use super::{SharedStore, Store};
use baton_core::record::{
    CutPoint, DocumentRecord, HandoffId, HandoffStatus, HiddenPair, RecordChange, Update,
};

/// Creates empty stores of one kind.
type StoreMaker<'a> = Box<dyn Fn() -> SharedStore + 'a>;

/// Returns every kind of store, including one on a server if there is one.
fn kinds<'a>(dir: &'a tempfile::TempDir, server: Option<&'a RedisServer>) -> Vec<StoreMaker<'a>> {
    let mut all: Vec<StoreMaker<'a>> = vec![
        Box::new(|| Arc::new(SqliteStore::in_memory().unwrap())),
        Box::new(|| {
            let dir = dir.path().join(Uuid::now_v7().to_string());
            Arc::new(SqliteStore::open(&dir).unwrap())
        }),
    ];
    if let Some(server) = server {
        all.push(Box::new(|| Arc::new(store_in(&server.url(), |_| {}))));
    }
    all
}

also_over_redis! {
    every_kind_is_copied_to_every_kind_and_back
    a_check_names_what_is_missing_and_what_cannot_be_read
    a_copy_of_a_store_in_use_may_be_broken_off_and_begun_again
    a_copied_document_supersedes_no_newer_one
    handoffs_expire_where_nothing_goes_on_from_them
}

/// Writes `n` conversations with every record that a conversation may have.
async fn fill(store: &dyn Store, n: usize) -> Vec<HandoffId> {
    let mut ids = Vec::new();
    for n in 0..n {
        let key = format!("c{n}");
        let fired = handoff("a", &key, 10 + n as u64);
        let known = conversation("a", &key, 20);
        let with = |changes: Vec<RecordChange>| Update {
            changes,
            ..update(&known)
        };
        let beside = pair("a", &key, Some(&format!("call_{n}")));
        let text = insertion("a", &key, &format!("i{n}"));
        let paired = with(vec![RecordChange::Paired(vec![beside.id])]);
        let fires = RecordChange::Fired {
            handoff: fired.id,
            placed: true,
            pairs: Vec::new(),
            repeat: None,
        };
        store.put_pair(&beside, &paired).await.unwrap();
        let point = cut_point(&fired, &format!("d{n}"));
        let fires = with(vec![fires]);
        store.put_handoff(&fired, Some(&point), &fires).await.unwrap();
        let inserted = with(vec![RecordChange::Inserted(vec![text.id])]);
        store.put_insertion(&text, &inserted).await.unwrap();
        let (shown, upstream) = (format!("resp_{n}"), format!("handoff:{}", fired.id));
        store.put_response_id("a", &shown, &upstream).await.unwrap();
        if n % 7 == 0 {
            assert!(store.archive("a", fired.id, true).await.unwrap());
        }
        let pinned = RecordChange::Pins {
            pinned: Some(format!("Mind {n}.")),
            unpinned: None,
        };
        store.change(&with(vec![pinned])).await.unwrap();
        // Three consecutive documents share the same key.
        let document = DocumentRecord {
            handoff: fired.id,
            document: format!("{{\"n\": {n}}}"),
            ..document("a", &format!("branch {}", n / 3), 10 + n as u64)
        };
        store.put_document(&document).await.unwrap();
        if n % 11 == 0 {
            let archived = HandoffStatus::Archived;
            store.set_document_status("a", fired.id, archived).await.unwrap();
        }
        // A draft that awaits the user's approval.
        if n % 5 == 0 {
            store.put_draft(&handoff("a", &key, 12 + n as u64)).await.unwrap();
        }
        ids.push(fired.id);
    }
    ids
}

/// Returns all records in a fixed order, without their last use.
async fn all(store: &dyn Store) -> Vec<String> {
    let mut found = Vec::new();
    for kind in RecordKind::ALL {
        let mut next = Some(String::new());
        while let Some(after) = next {
            let page = store.page(kind, &after).await.unwrap();
            assert_eq!(page.unreadable, []);
            found.extend(page.records.iter().map(|record| match record {
                StoredRecord::Handoff(record) => format!("{record:?}"),
                StoredRecord::Placed { record, .. } => format!("{record:?}"),
                StoredRecord::ResponseId { record, .. } => format!("{record:?}"),
                StoredRecord::Conversation(record) => format!("{record:?}"),
                StoredRecord::Document(record) => format!("{record:?}"),
            }));
            next = page.next;
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

async fn every_kind_is_copied_to_every_kind_and_back(server: Option<RedisServer>) {
    let dir = tempfile::tempdir().unwrap();
    // More than one page of each kind.
    let filled = SqliteStore::in_memory().unwrap();
    let ids = fill(&filled, 300).await;
    let wanted = all(&filled).await;
    for from in kinds(&dir, server.as_ref()) {
        let source = from();
        assert!(copy(&filled, &*source).await.unwrap().is_whole());
        assert_eq!(all(&*source).await, wanted);
        for to in kinds(&dir, server.as_ref()) {
            let target = to();
            let which = format!("{} to {}", source.kind(), target.kind());
            // An interrupted copy, and a target in use.
            let page = source.page(RecordKind::Handoff, "").await.unwrap();
            target.import(&page.records[..10]).await.unwrap();
            let copied = copy(&*source, &*target).await.unwrap();
            assert!(copied.is_whole(), "{which}: {copied:?}");
            assert_eq!(copied.kinds[&RecordKind::Handoff].0.records, 300 + 60);
            assert_eq!(copied.kinds[&RecordKind::Document].1, 300);
            assert_eq!(all(&*target).await, wanted, "{which}");
            let checked = check(&*target).await.unwrap();
            assert_eq!(checked.count, 0, "{:?}", checked.problems);
            // The target works: lookups by index find records.
            let beside = at_places::<HiddenPair>(&*target, "a", &["call_7".to_owned()]).await;
            assert_eq!(beside.len(), 1);
            assert!(target.handoff("a", ids[7]).await.unwrap().unwrap().archived);
            let pinned = target.conversation("c5").await.unwrap().unwrap();
            assert_eq!(pinned.pins, ["Mind 5."]);
            for (id, superseded) in [(ids[3], ids[5]), (ids[5], ids[3])] {
                let again = target.set_document_status("a", id, HandoffStatus::Active);
                let again = again.await.unwrap();
                assert_eq!(again, Some(vec![superseded]), "what it is about is known");
            }
            let points = at_places::<CutPoint>(&*target, "a", &["d9".to_owned()]).await;
            assert_eq!(points.len(), 1);
            // A newer record in the target stays.
            let known = target.conversation("c3").await.unwrap().unwrap();
            let newer = Update {
                changes: vec![RecordChange::Tooled {
                    from: known.tooled,
                    to: false,
                }],
                ..update(&known)
            };
            target.change(&newer).await.unwrap();
            copy(&*source, &*target).await.unwrap();
            let kept = target.conversation("c3").await.unwrap().unwrap();
            assert_eq!(kept.tooled, Some(false));
        }
    }
}

#[tokio::test]
async fn what_is_written_while_a_copy_runs_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (
        SqliteStore::open(&dir.path().join("a")).unwrap(),
        SqliteStore::in_memory().unwrap(),
    );
    fill(&from, 300).await;
    let (copied, late) = tokio::join!(copy(&from, &to), fill(&from, 20));
    let copied = copied.unwrap();
    assert!(copied.is_whole());
    let again = copy(&from, &to).await.unwrap();
    assert!(again.is_whole() && again.kinds[&RecordKind::Handoff].0.records == 320 + 64);
    assert!(to.handoff("a", late[19]).await.unwrap().is_some());
}

async fn a_check_names_what_is_missing_and_what_cannot_be_read(server: Option<RedisServer>) {
    let dir = tempfile::tempdir().unwrap();
    for make in kinds(&dir, server.as_ref()) {
        let store = make();
        fill(&*store, 3).await;
        assert_eq!(check(&*store).await.unwrap().count, 0);
        let lost: HiddenPair = pair("a", "c1", None);
        let listed = Update {
            changes: vec![
                RecordChange::Paired(vec![lost.id]),
                RecordChange::LeftOut(Uuid::nil()),
            ],
            ..update(&conversation("a", "c1", 20))
        };
        store.change(&listed).await.unwrap();
        let checked = check(&*store).await.unwrap();
        assert_eq!(checked.count, 3, "{:?}", checked.problems);
        assert!(checked.problems.iter().any(|p| p.contains(&lost.id.to_string())));
    }
    // Damaged manually.
    let file = dir.path().join("damaged");
    let store = SqliteStore::open(&file).unwrap();
    fill(&store, 3).await;
    let conn = rusqlite::Connection::open(file.join(super::sqlite::FILE)).unwrap();
    conn.execute_batch(
        "UPDATE records SET record = '{' WHERE rowid = (SELECT min(rowid) FROM records WHERE kind = 'pair')",
    )
    .unwrap();
    let checked = check(&store).await.unwrap();
    // One problem for the record, and one for the reference to it.
    assert_eq!(checked.count, 2, "{:?}", checked.problems);
    assert!(checked.problems[0].contains("cannot be read"));
    let copied = copy(&store, &SqliteStore::in_memory().unwrap()).await.unwrap();
    assert_eq!(copied.unreadable.len(), 1);
    let Some(server) = server else { return };
    let store = store_in(&server.url(), |o| o.prefix = "damaged".into());
    fill(&store, 3).await;
    let key = server.cli(&["KEYS", "{damaged}:pair:*"]);
    server.cli(&["HSET", key.lines().next().unwrap(), "r", "{"]);
    assert_eq!(check(&store).await.unwrap().count, 2);
}

/// A copy is interrupted at any point while its source is in use, and then repeated.
async fn a_copy_of_a_store_in_use_may_be_broken_off_and_begun_again(server: Option<RedisServer>) {
    let dir = tempfile::tempdir().unwrap();
    for from in &kinds(&dir, server.as_ref())[1..] {
        for to in &kinds(&dir, server.as_ref())[1..] {
            let (source, target) = (from(), to());
            fill(&*source, 60).await;
            let mut whole = false;
            for moment in 1..60 {
                let time = std::time::Duration::from_millis(2 * moment * moment);
                // Meanwhile existing conversations change and get more records.
                let (broken_off, _) = tokio::join!(
                    tokio::time::timeout(time, copy(&*source, &*target)),
                    fill(&*source, 3)
                );
                if let Ok(copied) = broken_off {
                    whole = copied.unwrap().is_whole();
                    break;
                }
                // No reference dangles, except those written after their kind was copied.
                let checked = check(&*target).await.unwrap();
                assert!(
                    checked.problems.iter().all(|p| p.contains("missing")),
                    "{:?}",
                    checked.problems
                );
            }
            assert!(whole, "{} to {}", source.kind(), target.kind());
            // Once the source is idle, nothing is left to copy.
            assert!(copy(&*source, &*target).await.unwrap().is_whole());
            assert_eq!(all(&*target).await, all(&*source).await, "{}", target.kind());
            let problems = async |store: SharedStore| check(&*store).await.unwrap().problems;
            assert_eq!(problems(target).await, problems(source).await);
        }
    }
}

/// A target in use has its own documents. Newer ones stay in force.
async fn a_copied_document_supersedes_no_newer_one(server: Option<RedisServer>) {
    let dir = tempfile::tempdir().unwrap();
    for to in kinds(&dir, server.as_ref()) {
        let (source, target) = (SqliteStore::in_memory().unwrap(), to());
        let [older, newer] = [document("a", "main", 5), document("a", "main", 6)];
        source.put_document(&older).await.unwrap();
        target.put_document(&newer).await.unwrap();
        for _ in 0..2 {
            assert!(copy(&source, &*target).await.unwrap().is_whole());
            let found = target.documents(&Default::default()).await.unwrap();
            let found: Vec<_> = found.iter().map(|p| (p.handoff, p.status)).collect();
            let wanted = [
                (newer.handoff, HandoffStatus::Active),
                (older.handoff, HandoffStatus::Superseded),
            ];
            assert_eq!(found, wanted, "{}", target.kind());
        }
        let page = source.page(RecordKind::Document, "").await.unwrap();
        let imported = target.import(&page.records).await.unwrap();
        assert_eq!(imported, 0, "nothing is left to do");
        // A newer document of the source supersedes the target's one.
        let newest = document("a", "main", 7);
        source.put_document(&newest).await.unwrap();
        copy(&source, &*target).await.unwrap();
        let active = target.documents(&Default::default()).await.unwrap();
        let active: Vec<_> = active
            .iter()
            .filter(|p| p.status == HandoffStatus::Active)
            .collect();
        assert_eq!(active, [&newest], "{}", target.kind());
    }
}

/// Records that expire, and records in use.
async fn handoffs_expire_where_nothing_goes_on_from_them(server: Option<RedisServer>) {
    let dir = tempfile::tempdir().unwrap();
    for make in kinds(&dir, server.as_ref()) {
        let store = make();
        let made = async |key: &str, at| {
            let new = handoff("x", key, at);
            store.put_draft(&new).await.unwrap();
            new.id
        };
        let unused = made("gone", 10).await;
        let of_unused = DocumentRecord {
            handoff: unused,
            ..document("x", "main", 10)
        };
        store.put_document(&of_unused).await.unwrap();
        let (resumed, left_out) = (made("gone", 11).await, made("gone", 12).await);
        let (own, new) = (made("user", 13).await, made("gone", 6000).await);
        let in_use = Update {
            changes: vec![
                RecordChange::Followed {
                    from: None,
                    to: Some(resumed),
                },
                RecordChange::LeftOut(left_out),
            ],
            ..update(&conversation("x", "user", 9000))
        };
        store.change(&in_use).await.unwrap();
        let there = async || {
            let mut found = Vec::new();
            for id in [unused, resumed, left_out, own, new] {
                found.push(store.handoff("x", id).await.unwrap().is_some());
            }
            found
        };
        let retention = Retention::before(5000);
        assert_eq!(store.sweep(&retention).await.unwrap(), 0);
        assert_eq!(there().await, [true; 5], "for ever, unless it is requested");
        let expiring = Retention {
            handoffs: Some(5000),
            ..retention
        };
        assert_eq!(store.sweep(&expiring).await.unwrap(), 2, "{}", store.kind());
        assert_eq!(there().await, [false, true, true, true, true], "{}", store.kind());
        let documents = store.documents(&Default::default()).await.unwrap();
        assert_eq!(documents, [], "deleted with their handoff");
        // The conversation expires as well.
        let all = Retention {
            handoffs: Some(20_000),
            ..Retention::before(20_000)
        };
        assert_eq!(store.sweep(&all).await.unwrap(), 5, "{}", store.kind());
        assert_eq!(there().await, [false; 5]);
    }
}
