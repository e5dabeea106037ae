//! Applies a rewrite: passes over the request's elements, in order.

use super::elements::Elements;
use super::plan::{ChangeReason, Cut, Rewrite, RewriteOutcome};
use super::reading::RequestReading;
use super::{cut, insertions, pairs, preamble, thinking};
use crate::limits;
use crate::marker::escape::Escaper;
use crate::text::splice::Edit;
use crate::text::{Span, cost};
use crate::wire::view::{Role, TurnChange, View};
use crate::wire::{LoneText, SyntheticTurn};
use memchr::memmem;

/// Rewrites a request. A rewrite that does nothing returns the same bytes.
pub fn rewrite(reading: &RequestReading, what: &Rewrite<'_>) -> RewriteOutcome {
    let mut elements = Elements::new(reading);
    // First, so that all later passes work on the turns that stay.
    cut::cut(&mut elements, what.cut);
    make_list(&mut elements, what);
    let mut placed = match what.cut {
        // A fresh context has no turns that a pair could belong to.
        Cut::Fresh { .. } => Vec::new(),
        _ => pairs::put_asides(&mut elements, what.pairs),
    };
    let mut beside = owed(&mut elements, what);
    // Computed before the pairs are placed, because their positions depend on it.
    let omitted = thinking::changes(&elements, what);
    let pending = pairs::insert_beside_siblings(&elements, what, &mut beside, &mut placed);
    thinking::keep_insertions(&elements.view, &mut beside, &omitted);
    let mut messages = messages(&elements.view, what);
    if what.tools.is_some() {
        let repairs = (reading.view.turn_rules().repairs)(&elements.view, &beside);
        let is_left_out = |change: &&TurnChange| matches!(change, TurnChange::LeftOut(_));
        // Turns that the repair leaves out are not in the model's view.
        messages = messages.saturating_sub(repairs.iter().filter(is_left_out).count());
        beside.extend(repairs);
    }
    elements.change(ChangeReason::Pair, beside);
    // Notices come after the results of hidden calls at the same position.
    elements.change(ChangeReason::Inserted, insertions::changes(&elements, what));
    elements.change(ChangeReason::Thinking, omitted);
    elements.change(ChangeReason::Unescaped, unescaped(&elements.view));
    elements.change(ChangeReason::Reference, pairs::drop_references(&elements));
    around(&mut elements, what);
    let (rope, changes) = elements.written();
    RewriteOutcome {
        rope,
        messages,
        placed,
        pending,
        changes,
        model: what.model.map(str::to_owned),
    }
}

/// Builds a request for a plain-text response to a single message, without the conversation.
pub fn lone_text(reading: &RequestReading, lone: LoneText<'_>) -> RewriteOutcome {
    let mut elements = Elements::new(reading);
    let message = reading.view.wire().user_text(lone.text);
    elements.only(ChangeReason::Draft, SyntheticTurn::new(Role::User, message));
    elements.edit(ChangeReason::Draft, reading.view.settings_alone(lone));
    let (rope, changes) = elements.written();
    RewriteOutcome {
        rope,
        messages: 1,
        placed: Vec::new(),
        pending: None,
        changes,
        model: None,
    }
}

/// Changes the members around the turns.
fn around(elements: &mut Elements<'_>, what: &Rewrite<'_>) {
    let view = &elements.agents.view;
    if let Some(ours) = what.tools {
        elements.edit(ChangeReason::Tool, view.add_tools(ours).into_iter().collect());
        elements.edit(ChangeReason::Tool, (view.wire().companions)(view));
    }
    if let Some(model) = what.model {
        elements.edit(ChangeReason::Model, view.for_model(model));
    }
    elements.edit(ChangeReason::Previous, previous(view, what));
    elements.edit(ChangeReason::History, members_of_own_history(view, what));
    match what.text_only {
        Some(how) => {
            elements.append(ChangeReason::Draft, what.more);
            elements.edit(ChangeReason::Draft, view.text_only(how));
        }
        None => elements.append(ChangeReason::AskAgain, what.more),
    }
}

/// Turns a transcript that is a single string into a list, if elements are inserted.
fn make_list(elements: &mut Elements<'_>, what: &Rewrite<'_>) {
    let view = &elements.agents.view;
    let uncut = matches!(what.cut, Cut::None | Cut::Text { .. });
    let owes = what.previous.is_some_and(|previous| !previous.owed.is_empty());
    let is_unchanged = uncut && !owes && what.more.is_empty() && what.insertions.is_empty();
    let is_string = view.text(view.list).first() == Some(&b'"');
    if let Some(items) = view.item_rules().filter(|_| is_string && !is_unchanged) {
        elements.list(items.around_string);
    }
}

/// Removes members that describe the agent's own history, if the provider gets another one.
fn members_of_own_history(view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let facts = &view.facts;
    if !(facts.server_side || facts.begins_branch || facts.context_hint) {
        return Vec::new();
    }
    let mut gone = Vec::new();
    if what.tools.is_some() || !matches!(what.cut, Cut::None) {
        gone.extend_from_slice(view.wire().holding_members);
    }
    if matches!(what.cut, Cut::Fresh { .. }) {
        gone.extend_from_slice(view.wire().first_leg_members);
    }
    view.without(&gone)
}

/// Sets the previous response to upstream's id. A cut drops it.
fn previous(view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let named = view.facts.previous.as_ref().map(|previous| &*previous.id);
    let Some(items) = view.item_rules() else {
        return Vec::new();
    };
    match (what.cut, what.previous.map(|previous| previous.id)) {
        // Baton itself answered the conversation's first request, so upstream has no response to continue.
        (Cut::None | Cut::Text { .. }, Some("")) => (items.previous)(view, None),
        (Cut::None | Cut::Text { .. }, Some(id)) if named != Some(id) => (items.previous)(view, Some(id)),
        (Cut::None | Cut::Text { .. }, _) => Vec::new(),
        _ => (items.previous)(view, None),
    }
}

/// Inserts the pending results of baton's calls in the response that the request continues.
///
/// The results come first, because the API requires them before any other item.
fn owed(elements: &mut Elements<'_>, what: &Rewrite<'_>) -> Vec<TurnChange> {
    let (Cut::None | Cut::Text { .. }, Some(previous)) = (what.cut, what.previous) else {
        return Vec::new();
    };
    if previous.owed.is_empty() {
        return Vec::new();
    }
    let all = previous.owed.join(",");
    if elements.view.turns.is_empty() {
        let made = vec![SyntheticTurn::new(Role::Tool, all)];
        elements.replace(ChangeReason::Pair, 0..0, made);
        return Vec::new();
    }
    vec![TurnChange::Before(0, all)]
}

/// Number of messages in the model's view after the carry-over prompt.
fn messages(view: &View, what: &Rewrite<'_>) -> usize {
    let spoken = view.turns.iter().filter(|t| t.role.is_spoken()).count();
    let unmeant = match what.cut {
        Cut::Fresh { .. } => spoken,
        // The head is one message.
        Cut::At { .. } | Cut::BeforeTurn { .. } | Cut::Before { .. } => 1,
        // Without a cut, the agent's own preamble is not work that could be handed off.
        Cut::None | Cut::Text { .. } => preamble::whole_turns(view, what.tags),
    };
    // The part that upstream stores counts as content as well: at least the question and its response.
    let is_continued = matches!(what.cut, Cut::None | Cut::Text { .. }) && view.facts.previous.is_some();
    spoken.saturating_sub(unmeant) + if is_continued { limits::LEAST_MESSAGES } else { 0 }
}

/// Removes the backslashes that escaping inserted.
///
/// A message that was streamed in parts may come back in parts. The escaped string then begins in one of
/// them, and its backslash is in a later one.
fn unescaped(view: &View) -> Vec<TurnChange> {
    // Escaping puts a backslash before a colon, so most turns are skipped by their bytes.
    let broken = memmem::Finder::new(br"\\:");
    let mut changes = Vec::new();
    let mut next = 0;
    while let Some(turn) = view.turns.get(next) {
        cost::add(turn.span.len());
        if turn.role != Role::Assistant || broken.find(view.raw(next)).is_none() {
            next += 1;
            continue;
        }
        let message = (view.turn_rules().message)(view, next);
        next = message.end.max(next + 1);
        let mut escaper = Escaper::default();
        for turn in message {
            for text in view.content(turn).parts.into_iter().filter_map(|p| p.text) {
                let slashes = escaper.unescaped(text.of(view.text_of(turn))).into_iter();
                let placed = slashes.map(|s| Span::new(text.start + s.start, text.start + s.end));
                changes.extend(placed.map(|slash| TurnChange::Within(turn, Edit::delete(slash))));
            }
        }
    }
    changes
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
        rewrite(&reading, &what)
    }

    /// A call that lost its signature is marked in place, and no message is removed. After an undone handoff,
    /// each call of the current turn is such a call.
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
