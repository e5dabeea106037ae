//! Written records are read back, but only by their own principal.

use super::*;

/// Checks that the first two records, which are of `a`, and the third, which is of `b`, are found by id and by place.
/// No record is at the first place.
async fn are_found<T>(store: &dyn Store, [one, two, other]: [T; 3], ids: [Uuid; 3], places: &[&str])
where
    T: Placed + PartialEq + std::fmt::Debug,
{
    let ids = [ids[1], Uuid::now_v7(), ids[2], ids[0]];
    let found: Vec<T> = with_ids(store, "a", &ids).await;
    let in_order = [&two, &one];
    assert!(
        found.iter().eq(in_order),
        "in the requested order, without the unknown: {found:?}"
    );
    assert!(with_ids::<T>(store, "a", &[]).await.is_empty());
    let places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
    assert_eq!(at_places::<T>(store, "a", &places).await, [one, two]);
    assert_eq!(at_places::<T>(store, "b", &places).await, [other]);
    assert!(at_places::<T>(store, "c", &places).await.is_empty());
    assert!(at_places::<T>(store, "a", &places[..1]).await.is_empty());
}

pub(super) async fn handoffs_are_kept(store: &dyn Store) {
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

    // Neither half of a write to another principal's id takes effect.
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

    // A damaged head must not reach a request.
    for head in [r#"{"role":"user","content":"a"}],"x":[{"#, "null", "{\"role\""] {
        let damaged = Handoff {
            head: head.into(),
            ..handoff("a", "damaged", 12)
        };
        store.put_draft(&damaged).await.unwrap();
        assert_eq!(
            store.handoff("a", damaged.id).await.unwrap().unwrap().head,
            "",
            "{head}"
        );
    }

    // A handoff that no conversation is at.
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

    // Writing it again leaves it archived.
    assert!(!store.archive("b", one.id, true).await.unwrap());
    assert!(!store.archive("a", Uuid::now_v7(), true).await.unwrap());
    assert!(store.archive("a", one.id, true).await.unwrap());
    store.put_handoff(&one, None, &update(&after)).await.unwrap();
    one.archived = true;
    assert_eq!(store.handoff("a", one.id).await.unwrap(), Some(one));
}

pub(super) async fn handoffs_are_listed(store: &dyn Store) {
    let mut made = Vec::new();
    for (at, key) in [(3, "x"), (1, "y"), (2, "x"), (2, "x")] {
        let new = handoff("list", key, at);
        store.add_handoff(&new).await;
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

pub(super) async fn pairs_are_kept(store: &dyn Store) {
    let (one, two) = (pair("a", "p", Some("call_1")), pair("a", "p", Some("call_1")));
    let aside = pair("a", "p", None);
    let other = pair("b", "q", Some("call_1"));
    let mut after = conversation("a", "p", 20);
    after.pairs = vec![one.id, two.id, aside.id];
    let put = [one.clone(), two.clone(), aside.clone()];
    store.put_pairs(&put, &update(&after)).await.unwrap();
    let in_other = update(&conversation("b", "q", 20));
    store.put_pair(&other, &in_other).await.unwrap();
    assert_eq!(stored(store, "p").await, Some(after.clone()));
    assert_eq!(with_ids::<HiddenPair>(store, "a", &[aside.id]).await, [aside]);
    let ids = [one.id, two.id, other.id];
    are_found(
        store,
        [one.clone(), two, other],
        ids,
        &["call_0", "call_1", "call_1"],
    )
    .await;

    // All or nothing.
    let mut stolen = one;
    stolen.principal = "b".into();
    let fresh = pair("b", "q", Some("call_2"));
    let before = stored(store, "q").await;
    let put = [fresh.clone(), stolen];
    let seized = update(&conversation("b", "q", 21));
    assert!(store.put_pairs(&put, &seized).await.is_err());
    assert!(with_ids::<HiddenPair>(store, "b", &[fresh.id]).await.is_empty());
    assert_eq!(stored(store, "q").await, before);
}

pub(super) async fn cut_points_are_kept(store: &dyn Store) {
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
        put_cut_point(store, point).await.unwrap();
    }
    let ids = points.each_ref().map(|point| point.handoff);
    let one = points[0].clone();
    are_found(store, points, ids, &["d0", "d1"]).await;

    let mut again = one.clone();
    again.position.digest = "d2".into();
    put_cut_point(store, &again).await.unwrap();
    assert_eq!(at_places::<CutPoint>(store, "a", &["d1".into()]).await.len(), 1);
    let found = with_ids::<CutPoint>(store, "a", &[one.handoff]).await;
    assert_eq!(found, std::slice::from_ref(&again));
    let mut stolen = again.clone();
    stolen.principal = "b".into();
    assert!(put_cut_point(store, &stolen).await.is_err());
    assert_eq!(with_ids::<CutPoint>(store, "a", &[one.handoff]).await, [again]);

    let mut listed = conversation("a", "cut", 9);
    listed.left_out = vec![one.handoff];
    store.change(&update(&listed)).await.unwrap();
    assert_eq!(stored(store, "cut").await, Some(listed));
}

pub(super) async fn insertions_are_kept(store: &dyn Store) {
    let all = [
        insertion("a", "i", "i1"),
        insertion("a", "j", "i1"),
        insertion("b", "k", "i1"),
        insertion("a", "i", "i2"),
    ];
    for insertion in all.iter().rev() {
        let update = Update {
            changes: vec![RecordChange::Inserted(vec![insertion.id])],
            ..update(&conversation(&insertion.principal, &insertion.conversation, 20))
        };
        let written = store.put_insertion(insertion, &update).await.unwrap().record;
        assert_eq!(written.insertions.last(), Some(&insertion.id));
        let key = &insertion.conversation;
        assert_eq!(store.conversation(key).await.unwrap(), Some(written));
    }
    assert!(store.may_have_insertions());
    let [one, copied, other, _] = all;
    let ids = [one.id, copied.id, other.id];
    are_found(store, [one.clone(), copied, other], ids, &["i0", "i1", "i1"]).await;

    // Both or neither.
    let stolen = Insertion {
        principal: "b".into(),
        ..one.clone()
    };
    let before = store.conversation("k").await.unwrap();
    let seized = update(&conversation("b", "k", 21));
    assert!(store.put_insertion(&stolen, &seized).await.is_err());
    assert_eq!(store.conversation("k").await.unwrap(), before);
    assert_eq!(with_ids::<Insertion>(store, "a", &[one.id]).await, [one]);
}

pub(super) async fn small_records_are_kept(store: &dyn Store) {
    store.put_response_id("a", "resp_1", "up_1").await.unwrap();
    store.put_response_id("a", "resp_1", "up_2").await.unwrap();
    assert_eq!(
        store.response_id("a", "resp_1").await.unwrap().as_deref(),
        Some("up_2")
    );
    assert_eq!(store.response_id("b", "resp_1").await.unwrap(), None);
    store.ping().await.unwrap();
}

pub(super) async fn long_prompts_are_kept(store: &dyn Store) {
    let mut long = handoff("long", "l", 1);
    long.prompt = "\u{e9}\n\"".repeat(1 << 18);
    long.head = format!(r#"{{"role":"{}"}}"#, "x".repeat(2 << 20));
    store.add_handoff(&long).await;
    assert_eq!(store.handoff("long", long.id).await.unwrap(), Some(long));
}
