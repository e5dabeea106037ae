//! Deleting all records of a client, a conversation or a handoff.

use super::*;
use crate::store::copy_and_check::check;
use crate::store::forget::{self, ForgetScope};
use crate::store::records::{ResponseChain, ResponseId};

/// Writes a conversation with a handoff and every record that may belong to both.
async fn fill(store: &dyn Store, principal: &str, key: &str) -> HandoffId {
    let fired = Handoff {
        prompt: "prompt\n\nand what it lacked".into(),
        ..handoff(principal, key, 10)
    };
    let known = conversation(principal, key, 20);
    let fires = RecordChange::Fired {
        handoff: fired.id,
        placed: true,
        pairs: Vec::new(),
        repeat: None,
    };
    let fires = Update {
        changes: vec![fires],
        ..update(&known)
    };
    let point = cut_point(&fired, &format!("d{key}"));
    store.put_handoff(&fired, Some(&point), &fires).await.unwrap();
    let mixed = pair(principal, key, Some(&format!("call_{key}")));
    let refused = HiddenPair {
        pending: None,
        ..pair(principal, key, None)
    };
    store.put_pairs(&[mixed, refused], &update(&known)).await.unwrap();
    let notice = insertion(principal, key, &format!("i{key}"));
    store.put_insertion(&notice, &update(&known)).await.unwrap();
    let document = DocumentRecord {
        handoff: fired.id,
        ..document(principal, key, 10)
    };
    store.put_document(&document).await.unwrap();
    let origin = format!("handoff:{}", fired.id);
    store
        .put_response_id(principal, &format!("r{key}"), &origin)
        .await
        .unwrap();
    let response = ResponseId {
        principal: principal.to_owned(),
        shown: format!("other{key}"),
        upstream: "resp_1".to_owned(),
        chain: Some(ResponseChain {
            conversation: key.to_owned(),
            ..ResponseChain::default()
        }),
    };
    store.put_response(response).await.unwrap();
    fired.id
}

/// Number of records by kind, in the order of [`RecordKind::ALL`].
async fn counts(store: &dyn Store) -> Vec<u64> {
    let checked = check(store).await.unwrap();
    assert_eq!(checked.problems, Vec::<String>::new());
    RecordKind::ALL.map(|kind| checked.kinds[&kind].records).to_vec()
}

pub(super) async fn a_scope_is_forgotten_and_nothing_else(store: &dyn Store) {
    let first = fill(store, "ada", "c1").await;
    fill(store, "ada", "c2").await;
    fill(store, "grace", "c3").await;
    assert_eq!(counts(store).await, [3, 6, 3, 3, 6, 3, 3]);
    let forget = async |scope: &ForgetScope| {
        let selected = forget::select(store, scope).await.unwrap();
        forget::delete(store, &selected).await.unwrap();
        let sizes = selected.records.values().map(Vec::len);
        sizes.sum::<usize>()
    };
    // The handoff, its call, its cut point, its response id and its document.
    let handoff = ForgetScope::Handoff(first);
    assert_eq!(forget(&handoff).await, 5);
    assert_eq!(counts(store).await, [2, 5, 2, 3, 5, 3, 2]);
    assert_eq!(stored(store, "c1").await.unwrap().active, None);
    assert_eq!(forget(&handoff).await, 0, "repeated");
    assert_eq!(forget(&ForgetScope::Conversation("c2".into())).await, 9);
    assert_eq!(counts(store).await, [1, 3, 1, 2, 3, 2, 1]);
    forget(&ForgetScope::Client("ada".into())).await;
    assert_eq!(counts(store).await, [1, 2, 1, 1, 2, 1, 1]);
    // A new document of the same subject becomes active: no index remembers the deleted one.
    let again = document("ada", "c1", 30);
    assert_eq!(store.put_document(&again).await.unwrap(), [] as [HandoffId; 0]);
    assert_eq!(
        store.response_id("grace", "otherc3").await.unwrap().as_deref(),
        Some("resp_1")
    );
}
