//! How many messages the model sees after its carry-over prompt.

use super::{Cut, RequestReading, Rewrite};
use crate::limits;
use crate::rewrite::preamble;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::Wire;
use crate::wire::view::View;

/// Messages in the model's view after the carry-over prompt.
pub(super) fn messages(
    wire: &dyn Wire,
    reading: &RequestReading,
    what: &Rewrite<'_>,
    cut: &[Edit],
    applied: bool,
) -> usize {
    match (applied, what.cut) {
        (false, Cut::At { .. } | Cut::BeforeTurn { .. } | Cut::Before { .. } | Cut::Fresh { .. }) => {
            after_cut(&reading.view, what.cut, cut)
        }
        (true, Cut::At { head, .. } | Cut::BeforeTurn { head, .. } | Cut::Before { head }) => reading
            .view
            .turns
            .iter()
            .filter(|t| t.role.is_spoken())
            .count()
            .saturating_sub(heads(head)),
        _ => counted(wire, &reading.view, what.tags),
    }
}

/// Messages after the head of a cut.
fn after_cut(view: &View, cut: Cut<'_>, edits: &[Edit]) -> usize {
    let (left, kept) = match cut {
        Cut::At { candidate, .. } => {
            let whole = view.turns[candidate.turn].span;
            let left = edits.first().is_some_and(|e| e.span.end < whole.end);
            (usize::from(left), &view.turns[candidate.turn + 1..])
        }
        Cut::BeforeTurn { turn, .. } => (0, &view.turns[turn..]),
        Cut::Before { .. } => (0, &view.turns[..]),
        Cut::None | Cut::Text { .. } | Cut::Fresh { .. } => (0, &[][..]),
    };
    let dropped = edits
        .iter()
        .skip(1)
        .filter(|e| ends_a_turn(view, e.span.end))
        .count();
    let later = kept.iter().filter(|t| t.role.is_spoken()).count();
    (left + later).saturating_sub(dropped)
}

fn ends_a_turn(view: &View, end: usize) -> bool {
    let turn = end.checked_sub(1).and_then(|last| view.turn_at(last));
    turn.is_some_and(|t| view.turns[t].span.end == end)
}

/// Messages of a whole transcript, without system messages and preamble.
fn counted(wire: &dyn Wire, view: &View, tags: &[String]) -> usize {
    let all = view.turns.iter().filter(|t| t.role.is_spoken()).count();
    // The part that upstream stores counts as content, too: at least the question and its answer.
    let upstream_messages = view.facts.previous.as_ref().map_or(0, |_| limits::LEAST_MESSAGES);
    all.saturating_sub(preamble::whole_turns(wire, view, tags)) + upstream_messages
}

/// How many elements a head has.
fn heads(head: &str) -> usize {
    let wrapped = format!("[{head}]");
    json::elements(wrapped.as_bytes(), Span::new(0, wrapped.len())).len()
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
