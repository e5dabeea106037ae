//! Handoffs in the inspector's JSON API.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::AdminState;
use super::error::{ApiError, ApiResult};
use super::query::{QueryParams, read, shown};
use crate::state::files::documents::{self, document_of};
use crate::state::jobs::drafts::DraftRecord;
use crate::state::looked_up;
use crate::state::store::{DocumentFilter, HandoffFilter};
use baton_core::handoffs::carry;
use baton_core::record::lineage::{self, LineageEntry};
use baton_core::record::{DocumentRecord, Handoff, HandoffId, distinctive_line};
use baton_core::redact::Redactor;

/// Maximum number of handoffs in a map.
const MAX_PARENTS: usize = 1000;

/// Maximum length of a first line, in characters.
const LINE: usize = 160;

type DocumentsByHandoff = HashMap<HandoffId, DocumentRecord>;

/// A handoff as lists show it, with the directory and status of its document. The names are API.
fn short(handoff: &Handoff, documents: &DocumentsByHandoff) -> Value {
    let record = documents.get(&handoff.id);
    json!({
        "id": handoff.id,
        "conversation": handoff.conversation,
        "at_ms": handoff.created_ms,
        "wire": handoff.wire.name(),
        "model": handoff.model,
        "parent": handoff.parent,
        "origin": handoff.origin.name(),
        "reason": handoff.reason,
        "prompt_bytes": handoff.prompt.len(),
        "first_line": beginning(distinctive_line(&handoff.prompt)),
        "archived": handoff.archived,
        "resume_line": format!("[[handoff-resume:{}]]", handoff.id),
        "document": record.map(|record| json!({"status": record.status.name(), "folder": record.directory})),
    })
}

/// Shortens a line for lists.
fn beginning(line: &str) -> String {
    line.chars().take(LINE).collect()
}

async fn records(state: &AdminState, conversation: Option<&str>, limit: usize) -> ApiResult<Vec<Handoff>> {
    let filter = HandoffFilter {
        conversation: conversation.map(str::to_owned),
        archived: true,
        limit,
        ..HandoffFilter::default()
    };
    Ok(state.store.handoffs(&filter).await?)
}

/// Lists handoffs, newest first. A limit of 0 means no limit.
pub(super) async fn all(
    state: &AdminState,
    conversation: Option<&str>,
    limit: usize,
) -> ApiResult<Vec<Value>> {
    let pending = in_review(state);
    // Drafts in review are left out below, so as many more records are read.
    let most = if limit == 0 { 0 } else { limit + pending.len() };
    let records = records(state, conversation, most).await?;
    let documents = documents::by_handoff(&state.store, true).await?;
    let made = records.iter().filter(|handoff| !pending.contains(&handoff.id));
    Ok(made
        // More than the limit may remain, because not every pending draft is among the records.
        .take(if limit == 0 { usize::MAX } else { limit })
        .map(|handoff| short(handoff, &documents))
        .collect())
}

/// Returns the stored handoffs that are only drafts in review.
fn in_review(state: &AdminState) -> Vec<HandoffId> {
    let open = state.drafting.all_open().into_iter();
    let reviewed = open.filter(DraftRecord::is_for_review);
    reviewed.filter_map(|draft| draft.result.handoff).collect()
}

/// Returns the handoffs with these ids that are still in the store, in the order of `ids`.
pub(super) async fn named(state: &AdminState, ids: &[String]) -> ApiResult<Vec<Value>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let records = records(state, None, 0).await?;
    let find = |id: &String| records.iter().find(|handoff| handoff.id.to_string() == *id);
    let documents = documents::by_handoff(&state.store, true).await?;
    let found = ids.iter().filter_map(find);
    Ok(found.map(|handoff| short(handoff, &documents)).collect())
}

/// Reads a handoff's record with its prompt, whoever it belongs to.
pub(super) async fn record(state: &AdminState, id: uuid::Uuid) -> ApiResult<Option<Handoff>> {
    let filter = HandoffFilter {
        ids: Some((id, id)),
        archived: true,
        limit: 1,
        ..HandoffFilter::default()
    };
    let Some(found) = state.store.handoffs(&filter).await?.pop() else {
        return Ok(None);
    };
    Ok(state.store.handoff(&found.principal, id).await?)
}

pub(super) async fn list(state: &AdminState, params: &QueryParams) -> ApiResult {
    let handoffs = all(state, None, params.limit()?).await?;
    let records = records(state, None, 0).await?;
    shown(&json!({"handoffs": handoffs, "omissions": carry::omissions(&records)}))
}

pub(super) async fn one(state: &AdminState, id: &str) -> ApiResult {
    let records = records(state, None, 0).await?;
    let found = records.iter().find(|handoff| handoff.id.to_string() == id);
    let found = found.ok_or(ApiError::NO_HANDOFF)?;
    let (mut lineage, children) = lineage::chain(found, &records);
    // Ancestors that are gone from the store are not shown.
    lineage.retain(|id| records.iter().any(|handoff| handoff.id == *id));
    let whole = state.store.handoff(&found.principal, found.id).await?;
    let prompt = &whole.as_ref().unwrap_or(found).prompt;
    let document = document(state, found).await?;
    let documents = documents::by_handoff(&state.store, true).await?;
    let map = map(&records, found.id, &documents);
    let (conversation, wanted) = (found.conversation.clone(), found.id.to_string());
    let exchange = read(state, move |q| q.fired_in(&conversation, &wanted)).await?;
    let exchange = exchange.flatten();
    let mut value = short(found, &DocumentsByHandoff::new());
    value["prompt"] = json!(prompt);
    value["lineage"] = json!(lineage);
    value["children"] = json!(children);
    value["map"] = json!(map);
    value["document"] = document;
    value["carried"] = json!(found.carried);
    let (conversation, id) = (found.conversation.clone(), found.id);
    let calls = read(state, move |q| q.called_again(&conversation, id)).await?;
    let calls = calls.flatten();
    let pairs = looked_up::pairs_since(&state.store, found).await?;
    value["looked_up_again"] = json!(carry::looked_up_again(calls, &pairs, &Redactor::new(&[])));
    value["history_bytes"] = json!(found.history_bytes);
    value["exchange"] = json!(exchange);
    shown(&json!({"handoff": value}))
}

/// Map of the chains and forks that a handoff is in. A title is the reason, or else the first line.
fn map(records: &[Handoff], id: HandoffId, documents: &DocumentsByHandoff) -> Vec<Value> {
    let by_id: HashMap<HandoffId, &Handoff> = records.iter().map(|handoff| (handoff.id, handoff)).collect();
    let tree = lineage::tree(records, id);
    let branch = |placed: &LineageEntry| {
        let handoff = by_id.get(&placed.id)?;
        let reason = handoff.reason.as_deref().map(str::trim);
        let title = reason.filter(|reason| !reason.is_empty());
        let title = title.unwrap_or_else(|| distinctive_line(&handoff.prompt));
        Some(json!({
            "id": placed.id,
            "depth": placed.depth,
            "siblings": placed.siblings,
            "children": placed.children,
            "at_ms": handoff.created_ms,
            "status": documents.get(&placed.id).map(|record| record.status.name()),
            "title": beginning(title),
        }))
    };
    tree.iter().take(MAX_PARENTS).filter_map(branch).collect()
}

/// Status, directory and content of a handoff's document. Null if there is none.
async fn document(state: &AdminState, handoff: &Handoff) -> ApiResult<Value> {
    let filter = DocumentFilter::for_handoff(&handoff.principal, handoff.id);
    let Some(record) = state.store.documents(&filter).await?.pop() else {
        return Ok(Value::Null);
    };
    Ok(json!({
        "status": record.status.name(),
        "folder": record.directory,
        "content": document_of(&record),
    }))
}
