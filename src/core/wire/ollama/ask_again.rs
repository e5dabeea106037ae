//! Returns the model's output to Ollama, with the results of its calls.

use super::answer::{LineMembers, OllamaMessage};
use super::pairs;
use crate::record::HiddenPair;
use crate::text::json;
use crate::tools::ToolNames;
use crate::wire::LegOutput;

/// Builds the model's message, unchanged, followed by the results of its calls.
pub(super) fn ask_again(spoken: &LegOutput, pairs: &[HiddenPair], ours_are: ToolNames) -> Option<String> {
    let mut message = OllamaMessage::default();
    let mut ours = pairs.iter();
    for text in &spoken.pieces() {
        let Some(line) = LineMembers::read(text) else {
            continue;
        };
        message
            .content
            .push_str(&json::string_or_empty(text, line.content));
        message
            .thinking
            .push_str(&json::string_or_empty(text, line.thinking));
        message
            .calls
            .extend(line.calls(text).into_iter().filter_map(|call| {
                let name = call.name.map(|name| json::unescape(name.of(text)));
                if !name.is_some_and(|name| ours_are.has(&name)) {
                    return Some(call.span.text(text));
                }
                // In the same form as on every later request. Further calls of baton's tools are omitted.
                ours.next().map(|p| p.call.clone())
            }));
    }
    let results: Vec<_> = pairs.iter().map(pairs::result).collect();
    Some(format!("{{{}}},{}", message.members(), results.join(",")))
}
