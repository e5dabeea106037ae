//! Requests to Ollama that ask only for text. It knows no tool choice: the caller ignores calls.

use crate::text::splice::Edit;
use crate::wire::members::{TextRules, TranscriptMembers, bounded, exactly};

pub(super) const RULES: TextRules = TextRules {
    named: exactly,
    with_tools: &["tools"],
    for_model: None,
    of_model: &["think"],
    bound,
    bounds_lone: true,
    choice: |_, _| None,
};

/// A negative `num_predict` is no bound.
fn bound(members: &TranscriptMembers<'_>, most: u64, _adds: bool) -> Option<Edit> {
    let own = members.number(members.get_in("options", "num_predict"));
    bounded(own, most).map(|tokens| members.set_in("options", "num_predict", &tokens))
}
