//! Undos in the JSON API: requested here, done by the conversation's next request.

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Inspector;
use super::api_handoffs;
use super::query::{ApiResult, Unanswered, body_in_json};
use super::responses::{JSON, error, respond};
use crate::state::clock::now_ms;
use crate::state::session::UndoRefused;
use baton_core::record::{Conversation, UndoAnswer};

/// The body of a request for an undo.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    /// Where the handoff was resumed; without it, where it was made.
    conversation: Option<String>,
}

/// Requests the undo of a handoff, reverts an undo, or withdraws a pending request.
pub(super) async fn ask(inspector: &Inspector, id: &str, headers: &HeaderMap, body: &[u8]) -> ApiResult {
    let Body { conversation } = body_in_json(headers, body)?;
    let unknown = || Unanswered::NotFound("there is no such handoff");
    let id = Uuid::parse_str(id).map_err(|_| unknown())?;
    let handoff = api_handoffs::record(inspector, id).await?.ok_or_else(unknown)?;
    let (sessions, windows) = (&inspector.sessions, &inspector.windows);
    let requested = sessions
        .request_undo(&handoff, conversation.as_deref(), windows, now_ms())
        .await?;
    Ok(match requested {
        Ok(answer) => {
            let key = conversation.as_deref().unwrap_or(&handoff.conversation);
            let waiting = match answer {
                UndoAnswer::Requested(waiting) => Some(waiting),
                UndoAnswer::Withdrawn(_) | UndoAnswer::NotActive { .. } => None,
            };
            let reply = json!({"conversation": key, "undo": waiting});
            respond(StatusCode::ACCEPTED, JSON, reply.to_string())
        }
        Err(refused) => {
            let status = match refused {
                UndoRefused::UnknownConversation => StatusCode::NOT_FOUND,
                UndoRefused::NotActive { .. } | UndoRefused::OverWindow { .. } => StatusCode::CONFLICT,
            };
            error(status, refused.name(), &refused.to_string())
        }
    })
}

/// What a conversation's newest transcript is cut at, what was undone there last, and what is pending. The names are
/// API.
pub(super) fn state(record: Option<&Conversation>, prefix: &str) -> Value {
    json!({
        "active": record.and_then(|record| record.active),
        "undone": record.and_then(|record| record.undone),
        "waits": record.and_then(|record| record.pending_undo.as_deref()),
        "command": (!prefix.is_empty()).then(|| format!("{prefix}handoff undo")),
    })
}
