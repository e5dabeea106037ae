//! What every store must do, run over each of them.

use std::sync::Arc;

use uuid::Uuid;

use super::memory::MemoryStore;
use super::sqlite::SqliteStore;
use super::*;
use crate::record::WireId;
use crate::record::{self, Change, Content, CutPoint, Insertion, Origin, Place, Position, UndoAnswer};

/// A handoff with every field filled.
pub(crate) fn handoff(principal: &str, conversation: &str, created_ms: u64) -> Handoff {
    Handoff {
        id: Uuid::now_v7(),
        principal: principal.into(),
        conversation: conversation.into(),
        wire: WireId::OpenaiResponses,
        prompt: "Next: \"tests\"\n\u{0}\u{1f680}".into(),
        reason: Some("done".into()),
        head: r#"{"role":"user","content":1.50}"#.into(),
        parent: Some(Uuid::now_v7()),
        model: Some("model-1".into()),
        created_ms,
        history_bytes: 123_456,
        origin: Origin::Model,
        recall: false,
        archived: false,
        spelled_out: Some(true),
    }
}

pub(crate) fn conversation(principal: &str, key: &str, updated_ms: u64) -> Conversation {
    Conversation {
        key: key.into(),
        principal: principal.into(),
        tooled: Some(true),
        created_ms: 5,
        updated_ms,
        ..Conversation::default()
    }
}

/// A write of this record where there is none, and of nothing where there is one.
pub(crate) fn update(known: &Conversation) -> Update {
    Update {
        known: known.clone(),
        changes: Vec::new(),
        now_ms: known.updated_ms,
    }
}

/// The record of a conversation, without its version.
async fn stored(store: &dyn Store, key: &str) -> Option<Conversation> {
    let found = store.conversation(key).await.unwrap();
    found.map(|record| Conversation { version: 0, ..record })
}

pub(crate) fn pair(principal: &str, conversation: &str, sibling: Option<&str>) -> HiddenPair {
    HiddenPair {
        id: Uuid::now_v7(),
        principal: principal.into(),
        conversation: conversation.into(),
        wire: WireId::Anthropic,
        tool: "session_handoff".into(),
        call_id: "toolu_1".into(),
        call: r#"{"type": "tool_use"}"#.into(),
        answer: record::HiddenResult::QUEUED,
        place: match sibling {
            Some(sibling) => Place::Beside {
                sibling: sibling.into(),
                offset: -1,
            },
            None => Place::Aside,
        },
        pending: Some(("prompt".into(), None)),
        created_ms: 7,
    }
}

async fn handoffs_are_kept(store: &dyn Store) {
    let mut one = handoff("a", "c", 10);
    let mut after = conversation("a", "c", 10);
    after.active = Some(one.id);
    store.put_handoff(&one, None, &update(&after)).await.unwrap();
    assert_eq!(store.handoff("a", one.id).await.unwrap().as_ref(), Some(&one));
    assert_eq!(
        store.handoff("b", one.id).await.unwrap(),
        None,
        "another principal"
    );
    assert_eq!(store.handoff("a", Uuid::now_v7()).await.unwrap(), None);
    assert_eq!(stored(store, "c").await, Some(after.clone()));

    // Neither half of a write to a foreign id is done.
    let mut stolen = one.clone();
    stolen.principal = "b".into();
    stolen.prompt = "stolen".into();
    let other = conversation("b", "c-b", 11);
    assert!(store.put_handoff(&stolen, None, &update(&other)).await.is_err());
    assert_eq!(stored(store, "c-b").await, None);
    let seized = conversation("b", "c", 11);
    let new = handoff("b", "c", 11);
    assert!(store.put_handoff(&new, None, &update(&seized)).await.is_err());
    assert_eq!(store.handoff("b", new.id).await.unwrap(), None);
    assert_eq!(stored(store, "c").await, Some(after.clone()));

    // One that no conversation stands at.
    let waiting = handoff("a", "none", 12);
    store.put_draft(&waiting).await.unwrap();
    assert_eq!(
        store.handoff("a", waiting.id).await.unwrap().as_ref(),
        Some(&waiting)
    );
    assert_eq!(stored(store, "none").await, None);
    let taken = Handoff {
        principal: "b".into(),
        ..waiting
    };
    assert!(store.put_draft(&taken).await.is_err(), "another's id");

    // Written again, it stays put away.
    assert!(!store.archive("b", one.id, true).await.unwrap());
    assert!(!store.archive("a", Uuid::now_v7(), true).await.unwrap());
    assert!(store.archive("a", one.id, true).await.unwrap());
    store.put_handoff(&one, None, &update(&after)).await.unwrap();
    one.archived = true;
    assert_eq!(store.handoff("a", one.id).await.unwrap(), Some(one));
}

async fn handoffs_are_listed(store: &dyn Store) {
    let mut made = Vec::new();
    for (at, key) in [(3, "x"), (1, "y"), (2, "x"), (2, "x")] {
        let new = handoff("list", key, at);
        store
            .put_handoff(&new, None, &update(&conversation("list", key, at)))
            .await
            .unwrap();
        made.push(new);
    }
    store.archive("list", made[2].id, true).await.unwrap();
    let ids = async |filter: HandoffFilter| -> Vec<HandoffId> {
        let found = store.handoffs(&filter).await.unwrap();
        assert!(found.iter().all(|h| h.head.is_empty() && !h.prompt.is_empty()));
        found.into_iter().map(|h| h.id).collect()
    };
    let mine = HandoffFilter {
        principal: Some("list".into()),
        ..HandoffFilter::default()
    };
    assert_eq!(ids(mine.clone()).await, [made[0].id, made[3].id, made[1].id]);
    let all = HandoffFilter {
        archived: true,
        ..mine.clone()
    };
    assert_eq!(
        ids(all.clone()).await,
        [made[0].id, made[3].id, made[2].id, made[1].id]
    );
    let some = HandoffFilter {
        conversation: Some("x".into()),
        limit: 2,
        ..all
    };
    assert_eq!(ids(some).await, [made[0].id, made[3].id]);
    let nobody = HandoffFilter {
        principal: Some("nobody".into()),
        ..HandoffFilter::default()
    };
    assert!(ids(nobody).await.is_empty());
}

async fn pairs_are_kept(store: &dyn Store) {
    let (one, two) = (pair("a", "p", Some("call_1")), pair("a", "p", Some("call_1")));
    let aside = pair("a", "p", None);
    let other = pair("b", "q", Some("call_1"));
    let mut after = conversation("a", "p", 20);
    after.pairs = vec![one.id, two.id, aside.id];
    let put = [one.clone(), two.clone(), aside.clone()];
    store.put_pairs(&put, &update(&after)).await.unwrap();
    store
        .put_pairs(std::slice::from_ref(&other), &update(&conversation("b", "q", 20)))
        .await
        .unwrap();
    assert_eq!(stored(store, "p").await, Some(after.clone()));

    let ids = [aside.id, Uuid::now_v7(), one.id, other.id];
    let found = store.pairs("a", &ids).await.unwrap();
    assert_eq!(
        found,
        [aside, one.clone()],
        "in the order asked, without the unknown"
    );
    assert!(store.pairs("a", &[]).await.unwrap().is_empty());

    let siblings: Vec<String> = ["call_0", "call_1", "call_1"].map(String::from).into();
    assert_eq!(
        store.pairs_beside("a", &siblings).await.unwrap(),
        [one.clone(), two]
    );
    assert_eq!(store.pairs_beside("b", &siblings).await.unwrap(), [other]);
    assert!(store.pairs_beside("c", &siblings).await.unwrap().is_empty());
    assert!(store.pairs_beside("a", &siblings[..1]).await.unwrap().is_empty());

    // All or nothing.
    let mut stolen = one;
    stolen.principal = "b".into();
    let fresh = pair("b", "q", Some("call_2"));
    let before = stored(store, "q").await;
    let put = [fresh.clone(), stolen];
    assert!(
        store
            .put_pairs(&put, &update(&conversation("b", "q", 21)))
            .await
            .is_err()
    );
    assert!(store.pairs("b", &[fresh.id]).await.unwrap().is_empty());
    assert_eq!(stored(store, "q").await, before);
}

fn position(digest: &str) -> Position {
    Position {
        turns: 3,
        digest: digest.into(),
    }
}

pub(crate) fn insertion(principal: &str, conversation: &str, digest: &str) -> Insertion {
    Insertion {
        id: Uuid::now_v7(),
        principal: principal.into(),
        conversation: conversation.into(),
        wire: WireId::Gemini,
        place: Place::Behind(position(digest)),
        content: Content::Text("Mind the \"window\".\n".into()),
        created_ms: 7,
    }
}

pub(crate) fn cut_point(handoff: &Handoff, digest: &str) -> CutPoint {
    CutPoint {
        handoff: handoff.id,
        principal: handoff.principal.clone(),
        conversation: handoff.conversation.clone(),
        position: position(digest),
        texts: vec![0, u32::MAX],
        created_ms: handoff.created_ms,
    }
}

async fn cut_points_are_kept(store: &dyn Store) {
    let (one, two, other) = (
        handoff("a", "cut", 1),
        handoff("a", "cut", 2),
        handoff("b", "cut-b", 3),
    );
    let points = [
        cut_point(&one, "d1"),
        cut_point(&two, "d1"),
        cut_point(&other, "d1"),
    ];
    for point in points.iter().rev() {
        store.put_cut_point(point).await.unwrap();
    }
    let [one, two, other] = points;
    let ids = [two.handoff, Uuid::now_v7(), other.handoff, one.handoff];
    let found = store.cut_points("a", &ids).await.unwrap();
    assert_eq!(
        found,
        [two.clone(), one.clone()],
        "in the order asked, without the unknown"
    );
    assert!(store.cut_points("a", &[]).await.unwrap().is_empty());
    let digests = ["d0", "d1"].map(String::from);
    assert_eq!(
        store.cut_points_at("a", &digests).await.unwrap(),
        [one.clone(), two]
    );
    assert_eq!(store.cut_points_at("b", &digests).await.unwrap(), [other]);
    assert!(store.cut_points_at("a", &digests[..1]).await.unwrap().is_empty());

    let mut again = one.clone();
    again.position.digest = "d2".into();
    store.put_cut_point(&again).await.unwrap();
    assert_eq!(store.cut_points_at("a", &digests).await.unwrap().len(), 1);
    assert_eq!(
        store.cut_points("a", &[one.handoff]).await.unwrap(),
        [again.clone()]
    );
    let mut stolen = again.clone();
    stolen.principal = "b".into();
    assert!(store.put_cut_point(&stolen).await.is_err());
    assert_eq!(store.cut_points("a", &[one.handoff]).await.unwrap(), [again]);

    let mut listed = conversation("a", "cut", 9);
    listed.left_out = vec![one.handoff];
    store.change(&update(&listed)).await.unwrap();
    assert_eq!(stored(store, "cut").await, Some(listed));
}

async fn conversations_are_changed(store: &dyn Store) {
    assert_eq!(store.conversation("none").await.unwrap(), None);
    let first = conversation("a", "s", 1);
    let change = async |known: &Conversation, changes: &[Change]| {
        let update = Update {
            known: known.clone(),
            changes: changes.to_vec(),
            now_ms: 2,
        };
        store.change(&update).await
    };
    let toggled = Change::Tooled {
        from: Some(true),
        to: false,
    };
    let written = change(&first, &[toggled]).await.unwrap();
    let known = written.record.clone();
    assert_eq!(
        (known.tooled, known.updated_ms, written.overtaken),
        (Some(false), 2, false)
    );
    assert!(known.version > first.version);
    assert_eq!(store.conversation("s").await.unwrap(), Some(known.clone()));

    // Two writers that both know this record.
    let (one, two) = (pair("a", "s", Some("one")), pair("a", "s", Some("two")));
    let paired = |pair: &HiddenPair, known: &Conversation| Update {
        known: known.clone(),
        changes: vec![Change::Paired(vec![pair.id])],
        now_ms: 3,
    };
    let by_one = paired(&one, &known);
    let by_one = store
        .put_pairs(std::slice::from_ref(&one), &by_one)
        .await
        .unwrap();
    assert_eq!((&*by_one.record.pairs, by_one.overtaken), (&[one.id][..], false));
    let fired = handoff("a", "s", 4);
    let by_two = Update {
        changes: vec![Change::Fired {
            handoff: fired.id,
            placed: true,
            pairs: Vec::new(),
            repeat: None,
        }],
        ..paired(&two, &known)
    };
    let point = cut_point(&fired, "s1");
    let by_two = store.put_handoff(&fired, Some(&point), &by_two).await.unwrap();
    assert!(by_two.overtaken);
    assert!(by_two.record.version > by_one.record.version && by_one.record.version > known.version);
    let now = store.conversation("s").await.unwrap().unwrap();
    assert_eq!(now, by_two.record);
    assert_eq!((now.active, &*now.pairs), (Some(fired.id), &[one.id][..]));
    assert_eq!(now.left_out, [fired.id]);
    assert_eq!(store.cut_points("a", &[fired.id]).await.unwrap(), [point]);

    // Of another principal's update nothing is done.
    let theirs = pair("b", "s", Some("three"));
    let seized = paired(&theirs, &conversation("b", "s", 5));
    assert!(store.change(&seized).await.is_err());
    assert!(
        store
            .put_pairs(std::slice::from_ref(&theirs), &seized)
            .await
            .is_err()
    );
    assert!(store.pairs("b", &[theirs.id]).await.unwrap().is_empty());
    assert_eq!(store.conversation("s").await.unwrap(), Some(now));
}

/// What is added by many at once is all there.
/// An undo that waits is one change like others: it is there for every process until it is over, and no handoff leaves it.
async fn undos_wait(store: &dyn Store) {
    let known = conversation("a", "undo", 5);
    let fired = handoff("a", "undo", 6);
    store.put_handoff(&fired, None, &update(&known)).await.unwrap();
    let make = async |change: Change| {
        let known = store.conversation("undo").await.unwrap().unwrap();
        let changes = vec![change];
        let change = Update {
            changes,
            ..update(&known)
        };
        store.change(&change).await.unwrap().record
    };
    let pinned = Change::Followed {
        from: None,
        to: Some(fired.id),
        undone: None,
    };
    let record = make(pinned).await;
    let UndoAnswer::Asked(asked) = record.ask_undo(fired.id, 7) else {
        panic!("{record:?}");
    };
    make(Change::UndoAsked(asked)).await;
    let found = store.conversation("undo").await.unwrap().unwrap();
    assert_eq!(found.asked_undo.as_deref(), Some(&asked));
    let other = record::AskedUndo { at_ms: 1, ..asked };
    assert_eq!(
        make(Change::UndoOver(other)).await.asked_undo.as_deref(),
        Some(&asked)
    );
    assert_eq!(make(Change::UndoOver(asked)).await.asked_undo, None);
    let told = Change::Followed {
        from: Some(fired.id),
        to: None,
        undone: Some(fired.id),
    };
    make(told).await;
    let found = store.conversation("undo").await.unwrap().unwrap();
    assert_eq!((found.active, found.undone), (None, Some(fired.id)));
    make(Change::UndoAsked(asked)).await;
    let again = Change::Fired {
        handoff: fired.id,
        placed: false,
        pairs: Vec::new(),
        repeat: None,
    };
    let found = make(again).await;
    assert_eq!((found.asked_undo, found.undone), (None, None));
}

async fn many_writers_lose_nothing(store: &dyn Store) {
    let known = conversation("many", "m", 1);
    let pairs: Vec<HiddenPair> = (0..24)
        .map(|n| pair("many", "m", Some(&format!("call_{n}"))))
        .collect();
    let write = async |pair: &HiddenPair| {
        let update = Update {
            known: known.clone(),
            changes: vec![Change::Paired(vec![pair.id])],
            now_ms: 2,
        };
        store
            .put_pairs(std::slice::from_ref(pair), &update)
            .await
            .unwrap()
    };
    let written = futures_util::future::join_all(pairs.iter().map(write)).await;
    let mut versions: Vec<u64> = written.iter().map(|w| w.record.version).collect();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), pairs.len(), "each write has a version of its own");
    let mut listed = store.conversation("m").await.unwrap().unwrap().pairs;
    listed.sort_unstable();
    let mut all: Vec<Uuid> = pairs.iter().map(|pair| pair.id).collect();
    all.sort_unstable();
    assert_eq!(listed, all);
}

async fn insertions_are_kept(store: &dyn Store) {
    let all = [
        insertion("a", "i", "i1"),
        insertion("a", "i", "i2"),
        insertion("a", "j", "i1"),
        insertion("b", "k", "i1"),
    ];
    for insertion in all.iter().rev() {
        let update = Update {
            changes: vec![Change::Inserted(vec![insertion.id])],
            ..update(&conversation(&insertion.principal, &insertion.conversation, 20))
        };
        let written = store.put_insertion(insertion, &update).await.unwrap().record;
        assert_eq!(written.insertions.last(), Some(&insertion.id));
        let key = &insertion.conversation;
        assert_eq!(store.conversation(key).await.unwrap(), Some(written));
    }
    assert!(store.may_have_insertions());
    let [one, two, copied, other] = all;
    let ids = [two.id, Uuid::now_v7(), other.id, one.id];
    let found = store.insertions("a", &ids).await.unwrap();
    assert_eq!(
        found,
        [two, one.clone()],
        "in the order asked, without the unknown"
    );
    assert!(store.insertions("a", &[]).await.unwrap().is_empty());
    let places = ["i0", "i1", "i1"].map(String::from);
    assert_eq!(
        store.insertions_at("a", &places).await.unwrap(),
        [one.clone(), copied]
    );
    assert_eq!(store.insertions_at("b", &places).await.unwrap(), [other]);
    assert!(store.insertions_at("c", &places).await.unwrap().is_empty());
    assert!(store.insertions_at("a", &places[..1]).await.unwrap().is_empty());

    // Both or neither.
    let stolen = Insertion {
        principal: "b".into(),
        ..one.clone()
    };
    let before = store.conversation("k").await.unwrap();
    let seized = update(&conversation("b", "k", 21));
    assert!(store.put_insertion(&stolen, &seized).await.is_err());
    assert_eq!(store.conversation("k").await.unwrap(), before);
    assert_eq!(store.insertions("a", &[one.id]).await.unwrap(), [one]);
}

async fn small_records_are_kept(store: &dyn Store) {
    store.put_response_id("a", "resp_1", "up_1").await.unwrap();
    store.put_response_id("a", "resp_1", "up_2").await.unwrap();
    assert_eq!(
        store.response_id("a", "resp_1").await.unwrap().as_deref(),
        Some("up_2")
    );
    assert_eq!(store.response_id("b", "resp_1").await.unwrap(), None);
    store.ping().await.unwrap();
}

async fn long_prompts_are_kept(store: &dyn Store) {
    let mut long = handoff("long", "l", 1);
    long.prompt = "\u{e9}\n\"".repeat(1 << 18);
    long.head = "x".repeat(2 << 20);
    store
        .put_handoff(&long, None, &update(&conversation("long", "l", 1)))
        .await
        .unwrap();
    assert_eq!(store.handoff("long", long.id).await.unwrap(), Some(long));
}

async fn sweeping_keeps_what_is_used(store: &dyn Store) {
    let old = handoff("w", "old", 1);
    store
        .put_handoff(&old, None, &update(&conversation("w", "old", 100)))
        .await
        .unwrap();
    let (gone, kept) = (pair("w", "old", Some("gone")), pair("w", "used", Some("kept")));
    let mut forked = pair("w", "old", Some("forked"));
    forked.created_ms = 9;
    let put = [gone.clone(), forked.clone()];
    store
        .put_pairs(&put, &update(&conversation("w", "old", 100)))
        .await
        .unwrap();
    store
        .put_pairs(
            std::slice::from_ref(&kept),
            &update(&conversation("w", "used", 9000)),
        )
        .await
        .unwrap();
    // A fork reads a pair of the old conversation; a write behind it makes sure that it was noted. Writing the pair
    // again, as it was made, does not make its last use an earlier one.
    assert_eq!(store.pairs("w", &[forked.id]).await.unwrap().len(), 1);
    store.put_response_id("w", "r", "u").await.unwrap();
    let again = std::slice::from_ref(&forked);
    store
        .put_pairs(again, &update(&conversation("w", "used", 9000)))
        .await
        .unwrap();
    let points = [
        handoff("w", "old", 7),
        handoff("w", "old", 8),
        handoff("w", "used", 9),
    ];
    for point in &points {
        store.put_cut_point(&cut_point(point, "d")).await.unwrap();
    }
    assert_eq!(store.cut_points("w", &[points[1].id]).await.unwrap().len(), 1);
    store.put_cut_point(&cut_point(&points[1], "d")).await.unwrap();

    let texts = ["old", "old", "used"].map(|key| insertion("w", key, "w"));
    for text in &texts {
        let at = if text.conversation == "old" { 100 } else { 9000 };
        let after = conversation("w", &text.conversation, at);
        store.put_insertion(text, &update(&after)).await.unwrap();
    }
    assert_eq!(store.insertions("w", &[texts[1].id]).await.unwrap().len(), 1);
    let after = conversation("w", "old", 100);
    store.put_insertion(&texts[1], &update(&after)).await.unwrap();

    let gone_now = store.sweep(&Retention::before(5000)).await.unwrap();
    assert_eq!(
        gone_now, 4,
        "a conversation, a pair, a cut point and an insertion"
    );
    let left = store
        .insertions("w", &texts.each_ref().map(|t| t.id))
        .await
        .unwrap();
    assert_eq!(left, texts[1..]);
    let left = store
        .cut_points("w", &points.each_ref().map(|h| h.id))
        .await
        .unwrap();
    let left: Vec<_> = left.iter().map(|p| p.handoff).collect();
    assert_eq!(left, [points[1].id, points[2].id]);
    assert_eq!(stored(store, "old").await, None);
    assert!(store.conversation("used").await.unwrap().is_some());
    let left = store.pairs("w", &[gone.id, kept.id, forked.id]).await.unwrap();
    assert_eq!(left, [kept, forked]);
    assert!(
        store
            .pairs_beside("w", &["gone".into()])
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        store.handoff("w", old.id).await.unwrap().is_some(),
        "handoffs stay"
    );
    assert!(store.response_id("w", "r").await.unwrap().is_some());
}

pub(crate) fn packet(principal: &str, branch: &str, created_ms: u64) -> PacketRecord {
    PacketRecord {
        handoff: Uuid::now_v7(),
        principal: principal.into(),
        repository: "/home/ada/app".into(),
        branch: branch.into(),
        topic: "c".into(),
        status: PacketStatus::Active,
        created_ms,
        folder: "/p".into(),
        document: "{}".into(),
    }
}

async fn one_packet_of_a_kind_is_active(store: &dyn Store) {
    let statuses = async || {
        let all = store.packets(&PacketFilter::default()).await.unwrap();
        all.iter()
            .map(|p| (p.created_ms, p.status.name()))
            .collect::<Vec<_>>()
    };
    let none: [HandoffId; 0] = [];
    let [one, two, three] = [1, 2, 3].map(|at| packet("a", "main", at));
    assert_eq!(store.put_packet(&one).await.unwrap(), none);
    assert_eq!(store.put_packet(&packet("a", "other", 9)).await.unwrap(), none);
    assert_eq!(store.put_packet(&packet("b", "main", 8)).await.unwrap(), none);
    assert_eq!(store.put_packet(&two).await.unwrap(), [one.handoff]);
    assert_eq!(store.put_packet(&two).await.unwrap(), none, "written again");
    assert_eq!(store.put_packet(&three).await.unwrap(), [two.handoff]);
    let all = [
        (9, "active"),
        (8, "active"),
        (3, "active"),
        (2, "superseded"),
        (1, "superseded"),
    ];
    assert_eq!(statuses().await, all);
    // Resumed by id.
    let active = PacketStatus::Active;
    let resumed = store.set_packet_status("a", one.handoff, active).await.unwrap();
    assert_eq!(resumed, Some(vec![three.handoff]));
    let strange = store.set_packet_status("b", one.handoff, active).await.unwrap();
    assert_eq!(strange, None, "another principal");
    let archived = store
        .set_packet_status("a", one.handoff, PacketStatus::Archived)
        .await;
    assert_eq!(archived.unwrap(), Some(vec![]));
    let filter = PacketFilter {
        principal: Some("a".into()),
        status: Some(active),
        topic: Some("c".into()),
        ..PacketFilter::default()
    };
    assert_eq!(store.packets(&filter).await.unwrap().len(), 1, "the other branch");
    let one_of = PacketFilter {
        handoff: Some(three.handoff),
        limit: 1,
        ..PacketFilter::default()
    };
    let found = store.packets(&one_of).await.unwrap();
    assert_eq!(
        found,
        [PacketRecord {
            status: PacketStatus::Superseded,
            ..three.clone()
        }]
    );
    let stolen = PacketRecord {
        principal: "b".into(),
        ..three
    };
    assert!(store.put_packet(&stolen).await.is_err());
}

/// Writers and resumers at once, and somebody who looks: what supersedes and what is superseded change in one step. A store
/// whose lists are read in several steps shows that at the end alone.
async fn no_moment_has_two_active_packets_or_none(store: &SharedStore, lists_at_once: bool) {
    const EACH: u64 = 25;
    let first = packet("a", "main", 1);
    store.put_packet(&first).await.unwrap();
    let writers = (0..4u64).map(|writer| {
        let (store, first) = (Arc::clone(store), first.handoff);
        tokio::spawn(async move {
            for n in 0..EACH {
                match writer {
                    0 => {
                        let resumed = store.set_packet_status("a", first, PacketStatus::Active).await;
                        assert!(resumed.unwrap().is_some());
                    }
                    _ => {
                        let new = packet("a", "main", 10 + writer * EACH + n);
                        store.put_packet(&new).await.unwrap();
                    }
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let active = PacketFilter {
        status: Some(PacketStatus::Active),
        ..PacketFilter::default()
    };
    while writers.iter().any(|writer| !writer.is_finished()) {
        // A list of a shared store is read in several steps, of the others in one.
        let found = store.packets(&active).await.unwrap().len();
        assert!(found == 1 || !lists_at_once, "{found} are active");
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(store.packets(&active).await.unwrap().len(), 1);
    let all = store.packets(&PacketFilter::default()).await.unwrap();
    assert_eq!(all.len() as u64, 1 + 3 * EACH);
}

async fn superseded_packets_are_archived_by_age(store: &dyn Store) {
    let [old, older, young] = [3, 1, 7].map(|at| packet("a", "main", at));
    let other = packet("b", "main", 2);
    for packet in [&older, &old, &young, &other] {
        store.put_packet(packet).await.unwrap();
    }
    let newest = packet("a", "main", 9);
    store.put_packet(&newest).await.unwrap();
    let mut archived = store.archive_packets(5).await.unwrap();
    archived.sort();
    let mut expected = [old.handoff, older.handoff].map(|id| ("a".to_owned(), id));
    expected.sort();
    assert_eq!(archived, expected);
    let all = store.packets(&PacketFilter::default()).await.unwrap();
    let statuses: Vec<_> = all.iter().map(|p| (p.created_ms, p.status.name())).collect();
    assert_eq!(
        statuses,
        [
            (9, "active"),
            (7, "superseded"),
            (3, "archived"),
            (2, "active"),
            (1, "archived")
        ]
    );
    assert_eq!(store.archive_packets(5).await.unwrap(), []);
    // It can be resumed, and what it takes the place of is superseded anew.
    let resumed = store
        .set_packet_status("a", old.handoff, PacketStatus::Active)
        .await;
    assert_eq!(resumed.unwrap(), Some(vec![newest.handoff]));
}

pub(crate) async fn conforms(new: impl Fn() -> SharedStore) {
    handoffs_are_kept(&*new()).await;
    handoffs_are_listed(&*new()).await;
    pairs_are_kept(&*new()).await;
    cut_points_are_kept(&*new()).await;
    insertions_are_kept(&*new()).await;
    conversations_are_changed(&*new()).await;
    undos_wait(&*new()).await;
    many_writers_lose_nothing(&*new()).await;
    small_records_are_kept(&*new()).await;
    long_prompts_are_kept(&*new()).await;
    sweeping_keeps_what_is_used(&*new()).await;
    one_packet_of_a_kind_is_active(&*new()).await;
    no_moment_has_two_active_packets_or_none(&new(), false).await;
    superseded_packets_are_archived_by_age(&*new()).await;
}

#[tokio::test]
async fn memory_conforms() {
    conforms(|| Arc::new(MemoryStore::default())).await;
    let store: SharedStore = Arc::new(MemoryStore::default());
    no_moment_has_two_active_packets_or_none(&store, true).await;
}

#[tokio::test]
async fn sqlite_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conforms(|| {
        let state = dir.path().join(Uuid::now_v7().to_string());
        Arc::new(SqliteStore::open(&state).unwrap())
    })
    .await;
    let store: SharedStore = Arc::new(SqliteStore::open(&dir.path().join("at-once")).unwrap());
    no_moment_has_two_active_packets_or_none(&store, true).await;
}

#[tokio::test]
async fn commands_read_beside_a_running_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let empty = open_for_reading(&StoreKind::Sqlite.into(), &state).unwrap();
    assert!(
        empty
            .handoffs(&HandoffFilter::default())
            .await
            .unwrap()
            .is_empty()
    );
    assert!(!state.exists(), "reading makes nothing");

    let serving = open(&StoreKind::Sqlite.into(), &state).unwrap();
    let one = handoff("local", "c", 1);
    serving
        .put_handoff(&one, None, &update(&conversation("local", "c", 1)))
        .await
        .unwrap();
    let command = open_for_reading(&StoreKind::Sqlite.into(), &state).unwrap();
    assert_eq!(command.handoff("local", one.id).await.unwrap(), Some(one.clone()));
    assert!(command.archive("local", one.id, true).await.unwrap());
    drop(command);
    let open_ones = serving.handoffs(&HandoffFilter::default()).await.unwrap();
    assert!(open_ones.is_empty(), "archived by the command");

    drop(serving);
    let command = open_for_reading(&StoreKind::Sqlite.into(), &state).unwrap();
    assert!(command.handoff("local", one.id).await.unwrap().unwrap().archived);
}
