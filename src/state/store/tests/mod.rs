//! Tests that every store must pass.

mod changes;
mod documents;
mod forgets;
mod kept;

use std::sync::Arc;

use uuid::Uuid;

use super::sqlite::SqliteStore;
use super::*;
use baton_core::record::WireId;
use baton_core::record::{
    self, CutPoint, HiddenPair, Insertion, InsertionContent, InsertionPoint, Position, RecordChange,
};

/// Writes records together with a change, like sessions do.
#[async_trait]
pub(crate) trait PutRecords: Store {
    /// Writes a handoff, its position if known, and the change to its conversation atomically.
    async fn put_handoff(
        &self,
        handoff: &Handoff,
        point: Option<&CutPoint>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome> {
        let mut records = vec![StoredRecord::Handoff(Box::new(handoff.clone()))];
        records.extend(point.map(|point| PlacedRecord::CutPoint(point.clone()).into()));
        self.put_with("write a handoff", records, update).await
    }

    /// Writes pairs and the change to their conversation atomically.
    async fn put_pairs(&self, pairs: &[HiddenPair], update: &Update) -> StoreResult<UpdateOutcome> {
        let records = pairs
            .iter()
            .map(|pair| PlacedRecord::Pair(Box::new(pair.clone())).into());
        self.put_with("write hidden pairs", records.collect(), update)
            .await
    }

    /// Writes a pair and the change to its conversation atomically.
    async fn put_pair(&self, pair: &HiddenPair, update: &Update) -> StoreResult<UpdateOutcome> {
        self.put_pairs(std::slice::from_ref(pair), update).await
    }

    /// Writes a handoff, and its conversation if that is new.
    async fn add_handoff(&self, new: &Handoff) {
        let known = conversation(&new.principal, &new.conversation, new.created_ms);
        self.put_handoff(new, None, &update(&known)).await.unwrap();
    }

    /// Writes an insertion and the change to its conversation atomically.
    async fn put_insertion(&self, insertion: &Insertion, update: &Update) -> StoreResult<UpdateOutcome> {
        let record = PlacedRecord::Insertion(insertion.clone()).into();
        self.put_with("write an insertion", vec![record], update).await
    }
}

impl<S: Store + ?Sized> PutRecords for S {}

/// Returns a handoff with every field set.
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
        spelled_out: Some(true),
        ..Handoff::default()
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

/// Writes this record if it does not exist, and otherwise nothing.
pub(crate) fn update(known: &Conversation) -> Update {
    Update {
        known: known.clone(),
        changes: Vec::new(),
        now_ms: known.updated_ms,
    }
}

/// Returns the record of a conversation, without its version.
async fn stored(store: &dyn Store, key: &str) -> Option<Conversation> {
    let found = store.conversation(key).await.unwrap();
    found.map(|record| Conversation { version: 0, ..record })
}

/// Placed records of a principal, by their ids and by their places.
pub(crate) async fn with_ids<T: Placed>(store: &dyn Store, principal: &str, ids: &[Uuid]) -> Vec<T> {
    store.placed(principal, Lookup::Ids(ids)).await.unwrap()
}

pub(crate) async fn at_places<T: Placed>(store: &dyn Store, principal: &str, places: &[String]) -> Vec<T> {
    store.placed(principal, Lookup::Places(places)).await.unwrap()
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
            Some(sibling) => InsertionPoint::Beside {
                sibling: sibling.into(),
                offset: -1,
            },
            None => InsertionPoint::Aside,
        },
        pending: Some(("prompt".into(), None)),
        created_ms: 7,
    }
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
        place: InsertionPoint::After(position(digest)),
        content: InsertionContent::Text("Mind the \"window\".\n".into()),
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
        before_command: true,
        created_ms: handoff.created_ms,
    }
}

/// Writes only the position of a handoff.
pub(crate) async fn put_cut_point(store: &dyn Store, point: &CutPoint) -> StoreResult<()> {
    let record = PlacedRecord::CutPoint(point.clone()).into();
    store.put("write a cut point", vec![record]).await
}

pub(crate) fn document(principal: &str, branch: &str, created_ms: u64) -> DocumentRecord {
    DocumentRecord {
        handoff: Uuid::now_v7(),
        principal: principal.into(),
        repository: "/home/ada/app".into(),
        branch: branch.into(),
        topic: "c".into(),
        status: HandoffStatus::Active,
        created_ms,
        directory: "/p".into(),
        document: "{}".into(),
    }
}

pub(crate) async fn conforms(new: impl Fn() -> SharedStore) {
    kept::handoffs_are_kept(&*new()).await;
    kept::handoffs_are_listed(&*new()).await;
    kept::pairs_are_kept(&*new()).await;
    kept::cut_points_are_kept(&*new()).await;
    kept::insertions_are_kept(&*new()).await;
    changes::conversations_are_changed(&*new()).await;
    changes::many_writers_lose_nothing(&*new()).await;
    kept::small_records_are_kept(&*new()).await;
    kept::long_prompts_are_kept(&*new()).await;
    changes::sweeping_keeps_what_is_used(&*new()).await;
    documents::one_document_of_a_kind_is_active(&*new()).await;
    documents::no_moment_has_two_active_documents_or_none(&new(), false).await;
    documents::superseded_documents_are_archived_by_age(&*new()).await;
    forgets::a_scope_is_forgotten_and_nothing_else(&*new()).await;
}

#[tokio::test]
async fn memory_conforms() {
    conforms(|| Arc::new(SqliteStore::in_memory().unwrap())).await;
    let store: SharedStore = Arc::new(SqliteStore::in_memory().unwrap());
    documents::no_moment_has_two_active_documents_or_none(&store, true).await;
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
    documents::no_moment_has_two_active_documents_or_none(&store, true).await;
}

#[tokio::test]
async fn commands_read_beside_a_running_proxy() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let empty = open_for_reading(&StoreKind::Sqlite.into(), &state).unwrap();
    assert_eq!(empty.handoffs(&HandoffFilter::default()).await.unwrap(), []);
    assert!(!state.exists(), "reading makes nothing");

    let serving = open(&StoreKind::Sqlite.into(), &state).unwrap();
    let one = handoff("local", "c", 1);
    serving.add_handoff(&one).await;
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

#[test]
fn what_others_may_open_in_the_state_directory_is_found() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let handoffs = dir.path().join("handoffs");
    fs::create_dir(&handoffs).unwrap();
    fs::write(dir.path().join("baton.toml"), "a file of the user").unwrap();
    for (outer, inner, expected) in [
        (0o755, 0o755, Some(&handoffs)),
        (0o750, 0o750, Some(&handoffs)),
        (0o755, 0o700, None),
        (0o700, 0o755, None),
    ] {
        set(&handoffs, inner);
        set(dir.path(), outer);
        assert_eq!(
            open_to_others(dir.path()).as_ref(),
            expected,
            "{outer:o} {inner:o}"
        );
    }
}
