//! Drafts in the JSON API.

use http::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Inspector;
use super::query::{ApiResult, Unanswered, body_in_json, shown};
use super::responses::{FullResponse, JSON, error, respond};
use crate::draft::{self, DraftAsk, Preset};
use crate::drafting::{Draft, NotOpen, Wanted};
use crate::limits;
use crate::record::Origin;

/// The header by which a repeated request is recognised.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Characters of its value.
const KEY_CHARS: usize = 255;

/// What asks for a handoff. A carry-over prompt, or what a draft of one is to be about.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    prompt: Option<String>,
    focus: Option<String>,
    method: Option<String>,
    preset: Option<String>,
    model: Option<String>,
    reason: Option<String>,
    git: Option<bool>,
    commands: Option<bool>,
    why: Option<bool>,
    review: Option<bool>,
}

/// What a person says to a draft.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Yes {
    /// In place of the draft's own document.
    document: Option<String>,
}

impl Body {
    fn wanted(self) -> Result<Wanted, String> {
        let drafted =
            self.focus.is_some() || self.method.is_some() || self.preset.is_some() || self.model.is_some();
        if self.prompt.is_some() && drafted {
            return Err("a prompt needs no draft: leave out focus, method, preset and model".to_owned());
        }
        if let Some(prompt) = &self.prompt
            && (prompt.trim().is_empty() || prompt.len() > limits::PROMPT)
        {
            return Err(format!("prompt is a text of up to {} bytes", limits::PROMPT));
        }
        let known = |name: &str, value: &str, names: Vec<&str>| {
            format!("{name} {value:?} is none of {}", names.join(", "))
        };
        let method = self.method.map(|name| {
            let names = || draft::Method::ALL.map(draft::Method::name).to_vec();
            draft::Method::named(&name).ok_or_else(|| known("method", &name, names()))
        });
        let preset = self.preset.map(|name| {
            let names = || Preset::ALL.map(|(name, _)| name).to_vec();
            Preset::named(&name).ok_or_else(|| known("preset", &name, names()))
        });
        let ask = DraftAsk {
            origin: Origin::Api,
            method: method.transpose()?,
            focus: self.focus.unwrap_or_default(),
            preset: preset.transpose()?.unwrap_or_default(),
            model: self.model,
            git: self.git.unwrap_or(true),
            commands: self.commands.unwrap_or(true),
            why: self.why.unwrap_or(true),
            reason: self.reason,
            review: self.review.unwrap_or(false),
            ..DraftAsk::default()
        };
        Ok(Wanted {
            ask,
            prompt: self.prompt,
        })
    }
}

/// Whether a path is one of those that take something else than `GET`.
pub(super) fn is_for(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(
        parts[..],
        ["conversations", _, "handoff"] | ["drafts", _] | ["drafts", _, "accept" | "reject"]
    )
}

/// Answers a request that changes something; `None`: the method is none of the path's.
pub(super) async fn change(
    inspector: &Inspector,
    (method, path): (&Method, &str),
    headers: &HeaderMap,
    body: &[u8],
) -> Option<FullResponse> {
    let told = match (method, &path.split('/').collect::<Vec<_>>()[..]) {
        (&Method::POST, ["conversations", key, "handoff"]) => ask(inspector, key, headers, body).await,
        (&Method::DELETE, ["drafts", id]) => cancel(inspector, id),
        (&Method::POST, ["drafts", id, "accept"]) => accept(inspector, id, headers, body).await,
        (&Method::POST, ["drafts", id, "reject"]) => reject(inspector, id).await,
        _ => return None,
    };
    Some(told.unwrap_or_else(Unanswered::answer))
}

async fn ask(inspector: &Inspector, key: &str, headers: &HeaderMap, body: &[u8]) -> ApiResult {
    let body: Body = body_in_json(headers, body)?;
    let wanted = body.wanted().map_err(Unanswered::Bad)?;
    let repeated = headers
        .get(IDEMPOTENCY_KEY)
        .map(|value| value.to_str().unwrap_or_default());
    if repeated.is_some_and(|value| value.is_empty() || value.len() > KEY_CHARS) {
        return Err(Unanswered::Bad(format!(
            "{IDEMPOTENCY_KEY} is a text of up to {KEY_CHARS} characters"
        )));
    }
    let Some(conversation) = inspector.store.conversation(key).await? else {
        return Err(Unanswered::NotFound("there is no such conversation"));
    };
    let repeated = repeated.map(str::to_owned);
    let asked = inspector
        .drafting
        .ask(key, &conversation.principal, wanted, repeated);
    Ok(match asked {
        Ok(draft) => respond(
            StatusCode::ACCEPTED,
            JSON,
            json!({"draft": value(&draft)}).to_string(),
        ),
        Err(busy) => error(
            StatusCode::CONFLICT,
            "already_drafting",
            &format!(
                "a handoff of this conversation is already being written: {}",
                busy.id
            ),
        ),
    })
}

fn cancel(inspector: &Inspector, id: &str) -> ApiResult {
    let id = parsed(id)?;
    match inspector.drafting.cancel(id) {
        Ok(()) => one(inspector, &id.to_string()),
        Err(NotOpen::Unknown) => Err(NO_DRAFT),
        Err(NotOpen::Ended) => Ok(error(StatusCode::CONFLICT, "ended", "the draft has ended")),
    }
}

/// A person says yes: it takes effect with the conversation's next request.
async fn accept(inspector: &Inspector, id: &str, headers: &HeaderMap, body: &[u8]) -> ApiResult {
    let Yes { document } = body_in_json(headers, body)?;
    if document
        .as_ref()
        .is_some_and(|text| text.trim().is_empty() || text.len() > limits::PROMPT)
    {
        return Err(Unanswered::Bad(format!(
            "document is a text of up to {} bytes",
            limits::PROMPT
        )));
    }
    let id = parsed(id)?;
    restore(inspector, id).await?;
    match inspector.drafting.accept(id, document) {
        Ok(_) => one(inspector, &id.to_string()),
        Err(why) => decided(why),
    }
}

/// A person says no.
async fn reject(inspector: &Inspector, id: &str) -> ApiResult {
    let id = parsed(id)?;
    restore(inspector, id).await?;
    match inspector.drafting.reject(id) {
        Ok(draft) => {
            inspector.store.archive(&draft.principal, id, true).await?;
            one(inspector, &id.to_string())
        }
        Err(why) => decided(why),
    }
}

fn decided(why: NotOpen) -> ApiResult {
    match why {
        NotOpen::Unknown => Err(NO_DRAFT),
        NotOpen::Ended => Ok(error(
            StatusCode::CONFLICT,
            "not_in_review",
            "the draft waits for nobody's yes",
        )),
    }
}

/// A draft that waited for a person when an earlier process ended is in the store, under its own id.
async fn restore(inspector: &Inspector, id: Uuid) -> Result<(), Unanswered> {
    if inspector.drafting.get(id).is_some() {
        return Ok(());
    }
    let Some(handoff) = super::api_handoffs::record(inspector, id).await? else {
        return Err(NO_DRAFT);
    };
    // One that took effect is a handoff, and no draft any more.
    let conversation = inspector.store.conversation(&handoff.conversation).await?;
    let in_effect = conversation.is_some_and(|conversation| conversation.active == Some(id));
    let Some(draft) = Draft::stored(&handoff).filter(|_| !in_effect && !handoff.archived) else {
        return Err(NO_DRAFT);
    };
    let restored = inspector.drafting.restore(draft);
    restored.map_err(|busy| Unanswered::Bad(format!("another draft is open: {}", busy.id)))
}

const NO_DRAFT: Unanswered = Unanswered::NotFound("there is no such draft");

fn parsed(id: &str) -> Result<Uuid, Unanswered> {
    Uuid::parse_str(id).map_err(|_| NO_DRAFT)
}

/// A draft, with what came of it.
pub(super) fn one(inspector: &Inspector, id: &str) -> ApiResult {
    let draft = inspector.drafting.get(parsed(id)?).ok_or(NO_DRAFT)?;
    let mut all = json!({"draft": value(&draft)});
    if let Value::Object(members) = &mut all {
        members.insert("handoff".to_owned(), json!(draft.handoff));
        members.insert("document".to_owned(), json!(draft.document));
    }
    shown(&all)
}

/// The open drafts.
pub(super) fn list(inspector: &Inspector) -> ApiResult {
    shown(&json!({"drafts": open(inspector)}))
}

/// The open drafts, oldest first.
pub(super) fn open(inspector: &Inspector) -> Vec<Value> {
    inspector.drafting.all_open().iter().map(value).collect()
}

/// A draft in lists. The names are API.
pub(super) fn value(draft: &Draft) -> Value {
    json!({
        "id": draft.id,
        "conversation": draft.conversation,
        "state": draft.state.name(),
        "origin": draft.wanted.ask.origin.name(),
        "method": draft.method.map(draft::Method::name),
        "focus": draft.wanted.ask.focus,
        "handoff": draft.handoff,
        "failure": draft.failure,
        "why": draft.why,
        "created_ms": draft.created_ms,
        "updated_ms": draft.updated_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(body: &str) -> Result<Wanted, String> {
        let body: Body = serde_json::from_str(body).map_err(|why| why.to_string())?;
        body.wanted()
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
            (Some(draft::Method::Local), Preset::Debug)
        );
        assert_eq!(
            (drafted.ask.origin, drafted.ask.git, drafted.ask.why),
            (Origin::Api, false, true)
        );
        for (body, told) in [
            (r#"{"prompt": " "}"#, "prompt is a text"),
            (r#"{"prompt": "a", "focus": "b"}"#, "leave out focus"),
            (
                r#"{"method": "fast"}"#,
                "method \"fast\" is none of oneshot, bundle, local",
            ),
            (
                r#"{"preset": "x"}"#,
                "preset \"x\" is none of implement, docs, debug",
            ),
            (r#"{"promt": "a"}"#, "unknown field `promt`"),
            ("[1]", "invalid"),
        ] {
            let why = wanted(body).unwrap_err();
            assert!(why.contains(told), "{why}");
        }
    }
}
