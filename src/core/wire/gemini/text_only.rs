//! Requests to Gemini that ask only for text.

use super::part::is;
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::members::{TextRules, TranscriptMembers, bounded};
use crate::wire::view::{ToolChoice, View};

/// Members that are invalid without tools and history.
const WITH_TOOLS: [&str; 3] = ["tools", "toolConfig", "cachedContent"];

pub(super) const RULES: TextRules = TextRules {
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
