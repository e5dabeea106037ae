//! Drafts in the JSON API.

use std::fmt::Display;

use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::AdminState;
use super::error::{ApiError, ApiResult, JSON, respond};
use super::query::{body_in_json, shown};
use crate::state::jobs::drafts::{CancelRefusal, DecisionFailure, DraftOrder, DraftRecord, DraftState};
use crate::state::store::DocumentFilter;
use baton_core::handoffs::draft::{self, DraftRequest, Preset};
use baton_core::limits;
use baton_core::record::HandoffOrigin;

/// Header that identifies a repeated request.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Maximum length of an idempotency key, in characters.
const KEY_CHARS: usize = 255;

fn bad<T>(field: &str, why: impl Display) -> ApiResult<T> {
    Err(ApiError::field(field, why))
}

/// Fields of a body, each to be taken once.
struct Fields(Map<String, Value>);

impl Fields {
    /// Takes a value of this type. `null` counts as missing.
    fn value<T: DeserializeOwned>(&mut self, field: &str, otherwise: &str) -> ApiResult<Option<T>> {
        // Taken out, so that `no_more` finds the unknown fields among the rest.
        let value = self.0.remove(field).unwrap_or_default();
        serde_json::from_value(value).or_else(|_| bad(field, otherwise))
    }

    fn text(&mut self, field: &str) -> ApiResult<Option<String>> {
        self.value(field, "it is not a string")
    }

    fn flag(&mut self, field: &str) -> ApiResult<Option<bool>> {
        self.value(field, "it is neither true nor false")
    }

    /// Takes a document or a carry-over prompt.
    fn document(&mut self, field: &str) -> ApiResult<Option<String>> {
        let text = self.text(field)?;
        match &text {
            Some(text) if text.trim().is_empty() => bad(field, "it is empty"),
            Some(text) if text.len() > limits::PROMPT => {
                let why = format!("it has {} bytes, more than {}", text.len(), limits::PROMPT);
                bad(field, why)
            }
            _ => Ok(text),
        }
    }

    /// Takes one of `names`.
    fn named<T>(
        &mut self,
        field: &str,
        names: &[&str],
        named: impl Fn(&str) -> Option<T>,
    ) -> ApiResult<Option<T>> {
        let Some(text) = self.text(field)? else {
            return Ok(None);
        };
        match named(&text) {
            Some(value) => Ok(Some(value)),
            None => bad(field, format!("{text:?} is not one of {}", names.join(", "))),
        }
    }

    /// Refuses a body with fields that were not taken, and so are unknown.
    fn no_more(self, known: &str) -> ApiResult<()> {
        match self.0.keys().next() {
            Some(field) => bad(field, format!("there is no such field; there are {known}")),
            None => Ok(()),
        }
    }
}

/// Parses a request for a handoff: a complete carry-over prompt, or a draft of one.
fn wanted(body: Map<String, Value>) -> ApiResult<DraftOrder> {
    let mut fields = Fields(body);
    let methods = draft::DraftMethod::ALL.map(draft::DraftMethod::name);
    let presets = Preset::ALL.map(Preset::name);
    let prompt = fields.document("prompt")?;
    // A complete prompt would silently ignore fields that describe a draft.
    if prompt.is_some()
        && let Some(field) = ["focus", "method", "preset", "model", "force"]
            .into_iter()
            .find(|field| fields.0.contains_key(*field))
    {
        let why = "a prompt needs no draft: leave out this field or the prompt";
        return bad(field, why);
    }
    let ask = DraftRequest {
        origin: HandoffOrigin::Api,
        method: fields.named("method", &methods, draft::DraftMethod::named)?,
        focus: fields.text("focus")?.unwrap_or_default(),
        preset: fields
            .named("preset", &presets, Preset::named)?
            .unwrap_or_default(),
        model: fields.text("model")?,
        to: fields.text("to")?,
        git: fields.flag("git")?.unwrap_or(true),
        commands: fields.flag("commands")?.unwrap_or(true),
        why: fields.flag("why")?.unwrap_or(true),
        reason: fields.text("reason")?,
        review: fields.flag("review")?.unwrap_or(false),
        force: fields.flag("force")?.unwrap_or(false),
    };
    fields.no_more("prompt, focus, method, preset, model, to, reason, git, commands, why, review, force")?;
    Ok(DraftOrder { ask, prompt })
}

/// Requests a handoff of a conversation.
pub(super) async fn ask(state: &AdminState, key: &str, headers: &HeaderMap, body: &[u8]) -> ApiResult {
    let wanted = wanted(body_in_json(headers, body)?)?;
    let repeated = headers.get(IDEMPOTENCY_KEY);
    let repeated = repeated.map(|value| value.to_str().unwrap_or_default());
    if repeated.is_some_and(|value| value.is_empty() || value.len() > KEY_CHARS) {
        return Err(ApiError::bad(format!(
            "{IDEMPOTENCY_KEY} must have 1 to {KEY_CHARS} characters"
        )));
    }
    let conversation = state.store.conversation(key).await?;
    let conversation = conversation.ok_or(ApiError::NO_CONVERSATION)?;
    let repeated = repeated.map(str::to_owned);
    // A repeated request gets its draft back without this check.
    let is_new = !state.drafting.was_requested(key, repeated.as_deref());
    if is_new && is_too_short(state, key, &conversation.principal) {
        return Err(ApiError::nothing_yet());
    }
    let requested = state
        .drafting
        .request(key, &conversation.principal, wanted, repeated);
    let draft = requested.map_err(|busy| ApiError::already_drafting(busy.id))?;
    let shown = json!({"draft": value(&draft)});
    // Accepted only: the draft is written with the agent's next request.
    Ok(respond(StatusCode::ACCEPTED, JSON, shown.to_string()))
}

/// Whether too little was written since the last handoff to hand off again.
///
/// Returns `false` if this process has not seen the conversation.
fn is_too_short(state: &AdminState, key: &str, principal: &str) -> bool {
    let live = state.sessions.peek(key, principal);
    live.spoken.known().is_some_and(|text| !draft::enough(text))
}

pub(super) async fn cancel(state: &AdminState, id: &str) -> ApiResult {
    let id = parsed(id)?;
    match state.drafting.cancel_in(&state.store, id).await {
        // The general conversion would report that the draft is not in review.
        Err(DecisionFailure::Refused(CancelRefusal::Ended)) => return Err(ApiError::ENDED),
        done => done?,
    }
    shown_in_full(state, id).await
}

/// Accepts a draft on behalf of the user. It takes effect with the conversation's next request.
pub(super) async fn accept(state: &AdminState, id: &str, headers: &HeaderMap, body: &[u8]) -> ApiResult {
    let mut fields = Fields(body_in_json(headers, body)?);
    let document = fields.document("document")?;
    fields.no_more("document")?;
    let id = parsed(id)?;
    restore(state, id).await?;
    let accepted = state.drafting.accept(id, document);
    accepted.map_err(DecisionFailure::from)?;
    shown_in_full(state, id).await
}

/// Rejects a draft on behalf of the user.
pub(super) async fn reject(state: &AdminState, id: &str) -> ApiResult {
    let id = parsed(id)?;
    restore(state, id).await?;
    state.drafting.reject_in(&state.store, id).await?;
    shown_in_full(state, id).await
}

/// Loads a draft that awaits review from the store, if another process has written it.
async fn restore(state: &AdminState, id: Uuid) -> ApiResult<()> {
    if state.drafting.get(id).is_some() {
        return Ok(());
    }
    let handoff = super::api_handoffs::record(state, id).await?;
    let handoff = handoff.ok_or(ApiError::NO_DRAFT)?;
    state
        .drafting
        .restored_in(&state.store, &handoff.conversation)
        .await?;
    // A draft that took effect is a handoff, and no longer a draft.
    state.drafting.get(id).map(drop).ok_or(ApiError::NO_DRAFT)
}

fn parsed(id: &str) -> ApiResult<Uuid> {
    Uuid::parse_str(id).map_err(|_| ApiError::NO_DRAFT)
}

/// Returns a draft with its outcome.
pub(super) async fn one(state: &AdminState, id: &str) -> ApiResult {
    shown_in_full(state, parsed(id)?).await
}

async fn shown_in_full(state: &AdminState, id: Uuid) -> ApiResult {
    restore(state, id).await?;
    let draft = state.drafting.get(id).ok_or(ApiError::NO_DRAFT)?;
    shown(&json!({
        "draft": value(&draft),
        "handoff": draft.result.handoff,
        "document": draft.result.document,
        "saved_path": saved_path(state, &draft).await?,
    }))
}

/// Returns the path of the written prompt: the file of an automatic handoff, or else the directory of the handoff's
/// document.
async fn saved_path(state: &AdminState, draft: &DraftRecord) -> ApiResult<Option<String>> {
    if let Some(path) = &draft.saved_path {
        return Ok(Some(path.display().to_string()));
    }
    // Only a draft that has become a handoff has a document.
    let Some(handoff) = draft.result.handoff.filter(|_| draft.state == DraftState::Done) else {
        return Ok(None);
    };
    let filter = DocumentFilter {
        without_documents: true,
        ..DocumentFilter::for_handoff(&draft.principal, handoff)
    };
    let record = state.store.documents(&filter).await?.pop();
    let directory = record.map(|record| record.directory);
    Ok(directory.filter(|directory| !directory.is_empty()))
}

/// Lists the open drafts.
pub(super) fn list(state: &AdminState) -> ApiResult {
    shown(&json!({"drafts": open(state)}))
}

/// Returns the open drafts, oldest first.
pub(super) fn open(state: &AdminState) -> Vec<Value> {
    state.drafting.all_open().iter().map(value).collect()
}

/// A draft as lists show it. The names are API.
pub(super) fn value(draft: &DraftRecord) -> Value {
    json!({
        "id": draft.id,
        "conversation": draft.conversation,
        "state": draft.state.name(),
        "origin": draft.wanted.ask.origin.name(),
        "method": draft.result.method.map(draft::DraftMethod::name),
        "focus": draft.wanted.ask.focus,
        "handoff": draft.result.handoff,
        "failure": draft.result.failure,
        "why": draft.why,
        "created_ms": draft.created_ms,
        "updated_ms": draft.updated_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(body: &str) -> Result<DraftOrder, String> {
        let body = serde_json::from_str(body).map_err(|why| why.to_string())?;
        super::wanted(body).map_err(|bad| bad.message.into_owned())
    }

    #[test]
    fn a_body_names_a_prompt_or_what_to_draft() {
        let given = wanted(r#"{"prompt": "Go on.", "reason": "late"}"#).unwrap();
        assert_eq!(given.prompt.as_deref(), Some("Go on."));
        assert_eq!(given.ask.reason.as_deref(), Some("late"));
        let drafted =
            wanted(r#"{"focus": "tests", "method": "local", "preset": "debug", "git": false}"#).unwrap();
        assert_eq!(
            (drafted.ask.method, drafted.ask.preset),
            (Some(draft::DraftMethod::Local), Preset::Debug)
        );
        assert_eq!(
            (drafted.ask.origin, drafted.ask.git, drafted.ask.why),
            (HandoffOrigin::Api, false, true)
        );
        for (body, reply) in [
            (r#"{"prompt": " "}"#, "prompt: it is empty"),
            (
                r#"{"prompt": "a", "focus": "b"}"#,
                "focus: a prompt needs no draft",
            ),
            (
                r#"{"method": "fast"}"#,
                "method: \"fast\" is not one of oneshot, bundle, local",
            ),
            (
                r#"{"preset": "x"}"#,
                "preset: \"x\" is not one of implement, docs, debug",
            ),
            (
                r#"{"promt": "a"}"#,
                "promt: there is no such field; there are prompt, focus,",
            ),
            (r#"{"focus": 1}"#, "focus: it is not a string"),
            (r#"{"review": "yes"}"#, "review: it is neither true nor false"),
            ("[1]", "invalid"),
        ] {
            let why = wanted(body).unwrap_err();
            assert!(why.contains(reply), "{why}");
        }
    }
}
