//! How many messages the model sees after its carry-over prompt.

use super::{Cut, Rewrite};
use crate::limits;
use crate::rewrite::preamble;
use crate::wire::Wire;
use crate::wire::view::View;

/// Messages in the model's view after the carry-over prompt.
pub(super) fn messages(wire: &dyn Wire, view: &View, what: &Rewrite<'_>) -> usize {
    let spoken = view.turns.iter().filter(|t| t.role.is_spoken()).count();
    let unmeant = match what.cut {
        Cut::Fresh { .. } => spoken,
        // The head.
        Cut::At { .. } | Cut::BeforeTurn { .. } | Cut::Before { .. } => 1,
        Cut::None | Cut::Text { .. } => preamble::whole_turns(wire, view, what.tags),
    };
    // The part that upstream stores counts as content, too: at least the question and its answer.
    let is_continued = matches!(what.cut, Cut::None | Cut::Text { .. }) && view.facts.previous.is_some();
    spoken.saturating_sub(unmeant) + if is_continued { limits::LEAST_MESSAGES } else { 0 }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use crate::record::WireId;
    use crate::rewrite::{RequestReading, Rewrite, RewriteOutcome, rewrite};
    use crate::text::splice;
    use crate::tools::ToolTable;
    use crate::wire::{Operation, wire};

    fn with_the_tool(side: WireId, body: &serde_json::Value) -> RewriteOutcome {
        let side = wire(side);
        let reading = RequestReading::new(side, &Bytes::from(body.to_string()), Operation::Generate).unwrap();
        let what = Rewrite {
            tools: Some(ToolTable::handoff()),
            ..Rewrite::default()
        };
        rewrite(side, &reading, &what)
    }

    /// A call that lost its signature is marked where it is: no message is removed. After an undone handoff each
    /// call of the current turn is one.
    #[test]
    fn a_call_that_is_mended_counts_as_a_message() {
        let call = |name: &str, more: serde_json::Value| {
            let mut part = json!({"functionCall": {"name": name, "args": {}}});
            part.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            json!({"role": "model", "parts": [part]})
        };
        let result = |name: &str| json!({"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}}]});
        let of = |first: serde_json::Value| {
            let signed = json!({"thoughtSignature": "c2ln"});
            let contents = json!([
                {"role": "user", "parts": [{"text": "Go."}]},
                call("f", first), result("f"), call("g", signed), result("g"),
            ]);
            json!({"contents": contents, "tools": [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]})
        };
        let whole = with_the_tool(WireId::Gemini, &of(json!({"thoughtSignature": "c2ln"})));
        let mended = with_the_tool(WireId::Gemini, &of(json!({})));
        let sent = splice::flat(mended.rope);
        assert!(String::from_utf8_lossy(&sent).contains("skip_thought_signature_validator"));
        assert_eq!((whole.messages, mended.messages), (5, 5));
    }
}
