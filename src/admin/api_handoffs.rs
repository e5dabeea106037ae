//! Handoffs in the inspector's JSON API.

use serde::Serialize;
use serde_json::{Value, json};

use super::Inspector;
use super::question::{Asked, Told, Unanswered, shown};
use crate::record::{Handoff, telling_line};
use crate::store::HandoffFilter;

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
}

impl Short {
    fn of(handoff: &Handoff) -> Self {
        Self {
            id: handoff.id.to_string(),
            conversation: handoff.conversation.clone(),
            at_ms: handoff.created_ms,
            wire: handoff.wire.name(),
            model: handoff.model.clone(),
            parent: handoff.parent.map(|id| id.to_string()),
            origin: handoff.origin.name(),
            reason: handoff.reason.clone(),
            prompt_bytes: handoff.prompt.len(),
            first_line: telling_line(&handoff.prompt).chars().take(LINE).collect(),
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
    let records = records(inspector, conversation, limit).await?;
    Ok(records.iter().map(Short::of).collect())
}

/// The handoffs with these ids that the store still has, in the order of `ids`.
pub(super) async fn named(inspector: &Inspector, ids: &[String]) -> Result<Vec<Short>, Unanswered> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let records = records(inspector, None, 0).await?;
    let find = |id: &String| records.iter().find(|handoff| handoff.id.to_string() == *id);
    Ok(ids.iter().filter_map(find).map(Short::of).collect())
}

pub(super) async fn list(inspector: &Inspector, asked: &Asked) -> Told {
    let handoffs = all(inspector, None, asked.limit()?).await?;
    shown(&json!({"handoffs": handoffs}))
}

pub(super) async fn one(inspector: &Inspector, id: &str) -> Told {
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
    let mut value = json!(Short::of(found));
    if let Value::Object(members) = &mut value {
        members.insert("prompt".to_owned(), json!(prompt));
        members.insert("lineage".to_owned(), json!(lineage));
    }
    shown(&json!({"handoff": value}))
}
