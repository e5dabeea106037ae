//! What of this wire is a value: its facts, the rules of requests that ask only for text, and its errors.

use serde_json::json;

use super::Gemini;
use super::part::is;
use crate::record::WireId;
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::Wire;
use crate::wire::error::{Errors, KeyHeader, OwnError};
use crate::wire::facts::WireFacts;
use crate::wire::members::{TextRules, TranscriptMembers, bounded};
use crate::wire::view::{ToolChoice, View};

static FACTS: WireFacts = WireFacts {
    header: KeyHeader::plain("x-goog-api-key"),
    key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    has_call_ids: false,
    // How the Gemini API and Vertex refuse a signature. The prefix is not checked: what was signed for another model or by
    // another service is refused. A signature that is missing is another matter.
    thinking_refusals: &[
        &["Corrupted thought signature"],
        &["Thought signature is not valid"],
        &["Invalid thought signature"],
    ],
    ..WireFacts::of(WireId::Gemini, "gcp.gemini", RULES)
};

impl Wire for Gemini {
    fn facts(&self) -> &'static WireFacts {
        &FACTS
    }
}

impl Errors for Gemini {
    fn error_body(&self, error: OwnError<'_>) -> String {
        let status = error.status;
        json!({
            "error": {"code": status, "message": error.message, "status": name(status)},
        })
        .to_string()
    }
}

/// The status as Google's APIs name it.
fn name(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    }
}

/// Members that are invalid without tools and history.
const WITH_TOOLS: [&str; 3] = ["tools", "toolConfig", "cachedContent"];

const RULES: TextRules = TextRules {
    named: is,
    with_tools: &WITH_TOOLS,
    for_model: Some(for_model),
    of_model: &[],
    bound,
    bounds_lone: true,
    choice,
};

/// The model is in the path, or next to the envelope.
fn for_model(view: &View, model: &str) -> Vec<Edit> {
    let text: &[u8] = &view.body;
    let whole = json::root(text);
    let named = json::get(text, whole, "model").map(|named| Edit::replace(named, json::quote(model)));
    let thinks = TranscriptMembers::of(view, is).get_in("generationConfig", "thinkingConfig");
    let thinks = thinks.map(|thinks| Edit::replace(thinks, "{}"));
    named.into_iter().chain(thinks).collect()
}

/// What the model thinks counts as output.
fn bound(members: &TranscriptMembers<'_>, most: u64, _adds: bool) -> Option<Edit> {
    let thinks = members
        .get_in("generationConfig", "thinkingConfig")
        .and_then(|config| members.get_of(config, "thinkingBudget"));
    let own = members.number(members.get_in("generationConfig", "maxOutputTokens"));
    let bound = bounded(own, most + members.number(thinks).unwrap_or_default());
    bound.map(|tokens| members.set_in("generationConfig", "maxOutputTokens", &tokens))
}

fn choice(members: &TranscriptMembers<'_>, choice: ToolChoice) -> Option<Edit> {
    let mode = if choice == ToolChoice::None {
        "NONE"
    } else {
        "AUTO"
    };
    let config = format!(r#"{{"mode":"{mode}"}}"#);
    Some(members.set_in("toolConfig", "functionCallingConfig", &config))
}
