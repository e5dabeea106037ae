//! Requests to Ollama that ask for a text alone. It knows no tool choice: the caller ignores calls.

use super::Ollama;
use crate::text::splice::Edit;
use crate::wire::members::{TranscriptMembers, bounded, exactly};
use crate::wire::view::View;
use crate::wire::{LoneText, Requests, TextOnly, TextRequests};

/// Members that are invalid without tools.
const WITH_TOOLS: [&str; 1] = ["tools"];

/// Members that other models may not support.
const OF_MODEL: [&str; 1] = ["think"];

impl TextRequests for Ollama {
    fn text_only(&self, view: &View, how: TextOnly) -> Vec<Edit> {
        bound(&TranscriptMembers::of(view, exactly), how.max_tokens)
    }

    fn lone_text(&self, view: &View, lone: LoneText<'_>) -> Vec<Edit> {
        let members = TranscriptMembers::of(view, exactly);
        let mut edits = vec![members.only_turn(&self.user_text(lone.text))];
        edits.extend(bound(&members, lone.max_tokens));
        edits.extend(members.without_tools(&WITH_TOOLS, &OF_MODEL, lone.model));
        edits
    }

    fn for_model(&self, view: &View, model: &str) -> Vec<Edit> {
        TranscriptMembers::of(view, exactly).without_tools(&[], &OF_MODEL, Some(model))
    }
}

/// A negative `num_predict` is no bound.
fn bound(members: &TranscriptMembers<'_>, most: u64) -> Vec<Edit> {
    let own = members.number(members.get_in("options", "num_predict"));
    let bound = bounded(own, most).map(|tokens| members.set_in("options", "num_predict", &tokens));
    bound.into_iter().collect()
}
