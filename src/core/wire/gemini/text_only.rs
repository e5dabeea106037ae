//! Requests to Gemini that ask for a text alone.

use super::Gemini;
use super::part::is;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::members::{TranscriptMembers, bounded, other_choice};
use crate::wire::view::{ToolChoice, View};
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// Members that are invalid without tools and history.
const WITH_TOOLS: [&str; 3] = ["tools", "toolConfig", "cachedContent"];

impl TextRequests for Gemini {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, is);
        let mut edits: Vec<Edit> = bound(view, &members, how.max_tokens).into_iter().collect();
        if let Some(choice) = other_choice(view, how) {
            let named = if choice == ToolChoice::None {
                r#"{"mode":"NONE"}"#
            } else {
                r#"{"mode":"AUTO"}"#
            };
            edits.push(members.set_in("toolConfig", "functionCallingConfig", named));
        }
        edits
    }

    /// The model is in the path, or beside the envelope.
    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, is);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        if let Some(model) = lone.model {
            edits.extend(self.for_model(view, model));
        }
        edits.extend(bound(view, &members, lone.max_tokens));
        edits.extend(members.without(&WITH_TOOLS));
        edits
    }

    fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        let text: &[u8] = &view.body;
        let whole = Span::new(json::blank(text, 0), text.len());
        let named = json::get(text, whole, "model").map(|named| Edit::replace(named, json::quote(model)));
        let thinks = TranscriptMembers::of(view, is).get_in("generationConfig", "thinkingConfig");
        let thinks = thinks.map(|thinks| Edit::replace(thinks, "{}"));
        named.into_iter().chain(thinks).collect()
    }
}

/// What the model thinks counts as output.
fn bound(view: &View, members: &TranscriptMembers<'_>, most: u64) -> Option<Edit> {
    let config = members.get_in("generationConfig", "thinkingConfig");
    let thinks = config.and_then(|config| super::part::get(&view.body, config, "thinkingBudget"));
    let own = members.number(members.get_in("generationConfig", "maxOutputTokens"));
    let bound = bounded(own, most + members.number(thinks).unwrap_or_default());
    bound.map(|tokens| members.set_in("generationConfig", "maxOutputTokens", &tokens))
}
