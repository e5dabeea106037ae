//! Ollama's token counters, and what the agent receives for a response of several legs.

use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::leg::Usage;

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
    if spent == 0 {
        return None;
    }
    Some(match json::get(text, object, OUTPUT) {
        Some(count) => {
            let now = json::number(count.of(text)).unwrap_or_default() + spent;
            Edit::replace(count, now.to_string())
        }
        None => Edit::insert(object.end - 1, format!(r#","{OUTPUT}":{spent}"#)),
    })
}

/// Counters of a response that ends with its sentinel, as members.
pub(super) fn stopped(output: u64, next_input: u64) -> String {
    format!(r#""{INPUT}":{next_input},"{OUTPUT}":{output}"#)
}

/// As [`stopped`], in place of what a reply states.
pub(super) fn stopped_edits(text: &[u8], root: Span, output: u64, next_input: u64) -> Vec<Edit> {
    let set = |key: &str, value: String| match json::get(text, root, key) {
        Some(span) => Edit::replace(span, value),
        None => Edit::insert(root.end - 1, format!(r#","{key}":{value}"#)),
    };
    vec![
        set("done_reason", r#""stop""#.to_owned()),
        set(INPUT, next_input.to_string()),
        set(OUTPUT, output.to_string()),
    ]
}
