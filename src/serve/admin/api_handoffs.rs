//! Handoffs in the inspector's JSON API.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::Inspector;
use super::query::{ApiResult, QueryParams, Unanswered, read, shown};
use crate::state::files::documents::document_of;
use crate::state::jobs::drafts::DraftRecord;
use crate::state::store::{DocumentFilter, HandoffFilter};
use baton_core::record::lineage::{self, LineageEntry};
use baton_core::record::{DocumentRecord, Handoff, HandoffId, distinctive_line};

/// Maximum length of a lineage.
const MOST_PARENTS: usize = 1000;

/// Maximum length of a first line in characters.
const LINE: usize = 160;

/// A handoff in a list.
#[derive(Debug, Serialize)]
pub(super) struct Short {
    id: String,
    conversation: String,
    at_ms: u64,
    wire: &'static str,
    model: Option<String>,
    parent: Option<String>,
    origin: &'static str,
    reason: Option<String>,
    prompt_bytes: usize,
    first_line: String,
    archived: bool,
    resume_line: String,
    packet: Option<Filed>,
}

/// Where a handoff's packet is, and whether it is in force.
#[derive(Debug, Serialize)]
pub(super) struct Filed {
    status: &'static str,
    folder: String,
}

type Packets = HashMap<HandoffId, DocumentRecord>;

/// All packets, without their documents.
async fn packets(inspector: &Inspector) -> Result<Packets, Unanswered> {
    let all = DocumentFilter {
        without_documents: true,
        ..DocumentFilter::default()
    };
    let packets = inspector.store.documents(&all).await?;
    Ok(packets
        .into_iter()
        .map(|packet| (packet.handoff, packet))
        .collect())
}

impl Short {
    fn of(handoff: &Handoff, packets: &Packets) -> Self {
        let packet = packets.get(&handoff.id).map(|packet| Filed {
            status: packet.status.name(),
            folder: packet.folder.clone(),
        });
        Self {
            packet,
            id: handoff.id.to_string(),
            conversation: handoff.conversation.clone(),
            at_ms: handoff.created_ms,
            wire: handoff.wire.name(),
            model: handoff.model.clone(),
            parent: handoff.parent.map(|id| id.to_string()),
            origin: handoff.origin.name(),
            reason: handoff.reason.clone(),
            prompt_bytes: handoff.prompt.len(),
            first_line: distinctive_line(&handoff.prompt).chars().take(LINE).collect(),
            archived: handoff.archived,
            resume_line: format!("[[handoff-resume:{}]]", handoff.id),
        }
    }
}

async fn records(
    inspector: &Inspector,
    conversation: Option<&str>,
    limit: usize,
) -> Result<Vec<Handoff>, Unanswered> {
    let filter = HandoffFilter {
        conversation: conversation.map(str::to_owned),
        archived: true,
        limit,
        ..HandoffFilter::default()
    };
    Ok(inspector.store.handoffs(&filter).await?)
}

/// Lists handoffs, newest first; a limit of 0 means no limit.
pub(super) async fn all(
    inspector: &Inspector,
    conversation: Option<&str>,
    limit: usize,
) -> Result<Vec<Short>, Unanswered> {
    let pending = in_review(inspector);
    let most = if limit == 0 { 0 } else { limit + pending.len() };
    let records = records(inspector, conversation, most).await?;
    let packets = packets(inspector).await?;
    let made = records.iter().filter(|handoff| !pending.contains(&handoff.id));
    Ok(made
        .take(if limit == 0 { usize::MAX } else { limit })
        .map(|handoff| Short::of(handoff, &packets))
        .collect())
}

/// Stored handoffs that are drafts in review: they have not happened yet.
fn in_review(inspector: &Inspector) -> Vec<HandoffId> {
    let open = inspector.drafting.all_open().into_iter();
    open.filter(DraftRecord::is_for_review)
        .filter_map(|draft| draft.handoff)
        .collect()
}

/// The handoffs with these ids that the store still has, in the order of `ids`.
pub(super) async fn named(inspector: &Inspector, ids: &[String]) -> Result<Vec<Short>, Unanswered> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let records = records(inspector, None, 0).await?;
    let find = |id: &String| records.iter().find(|handoff| handoff.id.to_string() == *id);
    let packets = packets(inspector).await?;
    Ok(ids
        .iter()
        .filter_map(find)
        .map(|handoff| Short::of(handoff, &packets))
        .collect())
}

/// A handoff's record with its prompt, whoever it belongs to.
pub(super) async fn record(inspector: &Inspector, id: uuid::Uuid) -> Result<Option<Handoff>, Unanswered> {
    let filter = HandoffFilter {
        ids: Some((id, id)),
        archived: true,
        limit: 1,
        ..HandoffFilter::default()
    };
    let Some(found) = inspector.store.handoffs(&filter).await?.pop() else {
        return Ok(None);
    };
    Ok(inspector.store.handoff(&found.principal, id).await?)
}

pub(super) async fn list(inspector: &Inspector, params: &QueryParams) -> ApiResult {
    let handoffs = all(inspector, None, params.limit()?).await?;
    shown(&json!({"handoffs": handoffs}))
}

pub(super) async fn one(inspector: &Inspector, id: &str) -> ApiResult {
    let records = records(inspector, None, 0).await?;
    let found = records.iter().find(|handoff| handoff.id.to_string() == id);
    let found = found.ok_or(Unanswered::NotFound("there is no such handoff"))?;
    let mut lineage = vec![found.id.to_string()];
    let mut parent = found.parent;
    while let Some(known) = parent.and_then(|id| records.iter().find(|handoff| handoff.id == id)) {
        if lineage.len() >= MOST_PARENTS {
            break;
        }
        lineage.push(known.id.to_string());
        parent = known.parent;
    }
    lineage.reverse();
    let whole = inspector.store.handoff(&found.principal, found.id).await?;
    let prompt = &whole.as_ref().unwrap_or(found).prompt;
    let packet = document(inspector, found).await?;
    let children = records.iter().rev().filter(|one| one.parent == Some(found.id));
    let children: Vec<_> = children.map(|one| one.id.to_string()).collect();
    let map = map(&records, found.id, &packets(inspector).await?);
    let (conversation, wanted) = (found.conversation.clone(), found.id.to_string());
    let exchange = read(inspector, move |q| q.fired_in(&conversation, &wanted))
        .await?
        .flatten();
    let mut value = json!(Short::of(found, &Packets::new()));
    if let Value::Object(members) = &mut value {
        members.insert("prompt".to_owned(), json!(prompt));
        members.insert("lineage".to_owned(), json!(lineage));
        members.insert("children".to_owned(), json!(children));
        members.insert("map".to_owned(), json!(map));
        members.insert("packet".to_owned(), packet);
        members.insert("history_bytes".to_owned(), json!(found.history_bytes));
        members.insert("exchange".to_owned(), json!(exchange));
    }
    shown(&json!({"handoff": value}))
}

/// A handoff in the map of chains and forks that the requested one stands in.
#[derive(Debug, Serialize)]
struct Branch {
    id: String,
    depth: usize,
    siblings: usize,
    children: usize,
    at_ms: u64,
    /// The packet's status.
    status: Option<&'static str>,
    /// Its reason, else its first line.
    title: String,
}

fn map(records: &[Handoff], id: HandoffId, packets: &Packets) -> Vec<Branch> {
    let by_id: HashMap<HandoffId, &Handoff> = records.iter().map(|handoff| (handoff.id, handoff)).collect();
    let tree = lineage::tree(records, id);
    let branch = |placed: &LineageEntry| {
        let handoff = by_id.get(&placed.id)?;
        let title = handoff
            .reason
            .as_deref()
            .map(str::trim)
            .filter(|reason| !reason.is_empty());
        let title = title.unwrap_or_else(|| distinctive_line(&handoff.prompt));
        Some(Branch {
            id: placed.id.to_string(),
            depth: placed.depth,
            siblings: placed.siblings,
            children: placed.children,
            at_ms: handoff.created_ms,
            status: packets.get(&placed.id).map(|packet| packet.status.name()),
            title: title.chars().take(LINE).collect(),
        })
    };
    tree.iter().take(MOST_PARENTS).filter_map(branch).collect()
}

/// The packet of a handoff: where it is, and its document; null where there is none.
async fn document(inspector: &Inspector, handoff: &Handoff) -> Result<Value, Unanswered> {
    let filter = DocumentFilter {
        principal: Some(handoff.principal.clone()),
        handoff: Some(handoff.id),
        ..DocumentFilter::default()
    };
    let Some(record) = inspector.store.documents(&filter).await?.pop() else {
        return Ok(Value::Null);
    };
    Ok(json!({
        "status": record.status.name(),
        "folder": record.folder,
        "document": document_of(&record),
    }))
}
