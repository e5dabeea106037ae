//! Concurrent changes of conversations, and the expiry of unused records.

use super::*;

pub(super) async fn conversations_are_changed(store: &dyn Store) {
    assert_eq!(store.conversation("none").await.unwrap(), None);
    let first = conversation("a", "s", 1);
    let change = async |known: &Conversation, changes: &[RecordChange]| {
        let update = Update {
            known: known.clone(),
            changes: changes.to_vec(),
            now_ms: 2,
        };
        store.change(&update).await
    };
    let toggled = RecordChange::Tooled {
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

    // Two writers start from this record.
    let (one, two) = (pair("a", "s", Some("one")), pair("a", "s", Some("two")));
    let paired = |pair: &HiddenPair, known: &Conversation| Update {
        known: known.clone(),
        changes: vec![RecordChange::Paired(vec![pair.id])],
        now_ms: 3,
    };
    let by_one = paired(&one, &known);
    let by_one = store.put_pair(&one, &by_one).await.unwrap();
    assert_eq!((&*by_one.record.pairs, by_one.overtaken), (&[one.id][..], false));
    let fired = handoff("a", "s", 4);
    let by_two = Update {
        changes: vec![RecordChange::Fired {
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
    assert_eq!(with_ids::<CutPoint>(store, "a", &[fired.id]).await, [point]);

    // Nothing in another principal's update takes effect.
    let theirs = pair("b", "s", Some("three"));
    let seized = paired(&theirs, &conversation("b", "s", 5));
    assert!(store.change(&seized).await.is_err());
    assert!(store.put_pair(&theirs, &seized).await.is_err());
    assert!(with_ids::<HiddenPair>(store, "b", &[theirs.id]).await.is_empty());
    assert_eq!(store.conversation("s").await.unwrap(), Some(now));
}

pub(super) async fn many_writers_lose_nothing(store: &dyn Store) {
    let known = conversation("many", "m", 1);
    let pairs: Vec<HiddenPair> = (0..24)
        .map(|n| pair("many", "m", Some(&format!("call_{n}"))))
        .collect();
    let write = async |pair: &HiddenPair| {
        let update = Update {
            known: known.clone(),
            changes: vec![RecordChange::Paired(vec![pair.id])],
            now_ms: 2,
        };
        store.put_pair(pair, &update).await.unwrap()
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

pub(super) async fn sweeping_keeps_what_is_used(store: &dyn Store) {
    let old = handoff("w", "old", 1);
    let in_old = update(&conversation("w", "old", 100));
    let in_used = update(&conversation("w", "used", 9000));
    store.put_handoff(&old, None, &in_old).await.unwrap();
    let (gone, kept) = (pair("w", "old", Some("gone")), pair("w", "used", Some("kept")));
    let mut forked = pair("w", "old", Some("forked"));
    forked.created_ms = 9;
    let put = [gone.clone(), forked.clone()];
    store.put_pairs(&put, &in_old).await.unwrap();
    store.put_pair(&kept, &in_used).await.unwrap();
    // A fork reads the old conversation's pair. A later write ensures that the touch was applied.
    //
    // Writing the pair again with its original time does not make its last use earlier.
    assert_eq!(with_ids::<HiddenPair>(store, "w", &[forked.id]).await.len(), 1);
    store.put_response_id("w", "r", "u").await.unwrap();
    store.put_pair(&forked, &in_used).await.unwrap();
    let points = [
        handoff("w", "old", 7),
        handoff("w", "old", 8),
        handoff("w", "used", 9),
    ];
    for point in &points {
        put_cut_point(store, &cut_point(point, "d")).await.unwrap();
    }
    assert_eq!(with_ids::<CutPoint>(store, "w", &[points[1].id]).await.len(), 1);
    put_cut_point(store, &cut_point(&points[1], "d")).await.unwrap();

    let texts = ["old", "old", "used"].map(|key| insertion("w", key, "w"));
    for text in &texts {
        let known = if text.conversation == "old" {
            &in_old
        } else {
            &in_used
        };
        store.put_insertion(text, known).await.unwrap();
    }
    assert_eq!(with_ids::<Insertion>(store, "w", &[texts[1].id]).await.len(), 1);
    store.put_insertion(&texts[1], &in_old).await.unwrap();

    let gone_now = store.sweep(&Retention::before(5000)).await.unwrap();
    assert_eq!(
        gone_now, 4,
        "a conversation, a pair, a cut point and an insertion"
    );
    let left = with_ids::<Insertion>(store, "w", &texts.each_ref().map(|t| t.id)).await;
    assert_eq!(left, texts[1..]);
    let left = with_ids::<CutPoint>(store, "w", &points.each_ref().map(|h| h.id)).await;
    let left: Vec<_> = left.iter().map(|p| p.handoff).collect();
    assert_eq!(left, [points[1].id, points[2].id]);
    assert_eq!(stored(store, "old").await, None);
    assert!(store.conversation("used").await.unwrap().is_some());
    let left = with_ids::<HiddenPair>(store, "w", &[gone.id, kept.id, forked.id]).await;
    assert_eq!(left, [kept, forked]);
    assert_eq!(at_places::<HiddenPair>(store, "w", &["gone".into()]).await, []);
    let kept = store.handoff("w", old.id).await.unwrap();
    assert!(kept.is_some(), "handoffs stay");
    assert!(store.response_id("w", "r").await.unwrap().is_some());
}
