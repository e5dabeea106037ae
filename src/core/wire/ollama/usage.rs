//! Ollama's token counters, and what the agent receives for a response of several legs.

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg::Usage;
use crate::wire::view::set_member;

const INPUT: &str = "prompt_eval_count";
const OUTPUT: &str = "eval_count";

/// The counters of a last line or a reply; absent ones are zero (a prompt that was cached is not counted).
pub(super) fn of(text: &[u8], object: Span) -> Usage {
    Usage {
        input: json::get_u64(text, object, INPUT).unwrap_or_default(),
        output: json::get_u64(text, object, OUTPUT).unwrap_or_default(),
        ..Usage::default()
    }
}

/// The edit that adds the output of earlier legs.
pub(super) fn summed(text: &[u8], object: Span, spent: u64) -> Option<Edit> {
    let now = json::get_u64(text, object, OUTPUT).unwrap_or_default() + spent;
    (spent > 0).then(|| set_member(text, object, OUTPUT, now.to_string()))
}

/// Counters of a response that ends with its sentinel, as members.
pub(super) fn stopped(output: u64, next_input: u64) -> String {
    format!(r#""{INPUT}":{next_input},"{OUTPUT}":{output}"#)
}

/// As [`stopped`], in place of what a reply states.
pub(super) fn stopped_edits(text: &[u8], root: Span, output: u64, next_input: u64) -> Vec<Edit> {
    let set = |key: &str, value: String| set_member(text, root, key, value);
    vec![
        set("done_reason", r#""stop""#.to_owned()),
        set(INPUT, next_input.to_string()),
        set(OUTPUT, output.to_string()),
    ]
}
