//! Restores hidden pairs in the upstream view: next to a sibling call, or at an aside.

use super::OpenaiChat;
use crate::record::HiddenPair;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::Turns;
use crate::wire::aside::SplitTurn;
use crate::wire::sibling_calls::{SiblingPair, among_calls};
use crate::wire::view::View;
use crate::wire::{CallAt, HiddenCall, Pairs, sibling_calls};

/// The result of a hidden call, as a message.
pub(super) fn result(pair: &HiddenPair) -> String {
    format!(
        r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#,
        json::quote(&pair.call_id),
        json::quote(pair.answer.text())
    )
}

/// Content of the first half: of the same kind as the message's own, null where nothing was written.
fn text_before(split: &SplitTurn<'_>) -> String {
    let (view, content, before) = (split.view, split.content, split.before);
    let Some(list) = content.list else {
        return if before.is_empty() {
            "null".to_owned()
        } else {
            format!("\"{}\"", view.str(before))
        };
    };
    let here = split.here.span;
    let mut blocks: Vec<String> = content.parts[..split.part]
        .iter()
        .filter(|p| list.holds(p.span.start))
        .map(|p| view.str(p.span).into_owned())
        .collect();
    if !before.is_empty() {
        let open = view.str(Span::new(here.start, before.end));
        blocks.push(format!(
            "{open}{}",
            view.str(Span::new(split.inside.end, here.end))
        ));
    }
    if blocks.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", blocks.join(","))
    }
}

/// The edits that leave the second half in the message; `None` where nothing is left of it.
fn rest(split: &SplitTurn<'_>) -> Option<Vec<Edit>> {
    let (content, here, inside, after) = (split.content, split.here, split.inside, split.after);
    let next = content.parts.get(split.part + 1);
    let Some(list) = content.list else {
        if !after.is_empty() {
            return Some(vec![Edit::delete(Span::new(inside.start, after.start))]);
        }
        return next.map(|_| vec![Edit::replace(here.span, "null")]);
    };
    let from = list.start + 1;
    if !after.is_empty() {
        return Some(vec![
            Edit::delete(Span::new(from, here.span.start)),
            Edit::delete(Span::new(inside.start, after.start)),
        ]);
    }
    let next = next?.span.start;
    Some(vec![if list.holds(next) {
        Edit::delete(Span::new(from, next))
    } else {
        Edit::replace(list, "null")
    }])
}

impl Pairs for OpenaiChat {
    /// Calls are a list of their own, after all text, also where agents write that member first: from within a
    /// message's text on, all of its calls count.
    fn find_calls(&self, view: &View, siblings: &[&str], from: usize) -> Vec<Option<CallAt>> {
        let from = view
            .turn_at(from)
            .map_or(from, |turn| view.turns[turn].span.start);
        sibling_calls::find_by_ids(|turn| self.content(view, turn), view, siblings, from)
    }

    /// A hidden call as an element of `tool_calls`: its arguments as the raw string, whatever they are, and its other
    /// members (a thought signature).
    fn hidden_call(&self, call: &HiddenCall) -> String {
        let extras = call.raw.as_deref().filter(|r| !r.is_empty());
        let extras = extras.map(|r| format!(",{r}")).unwrap_or_default();
        format!(
            r#"{{"id":{},"type":"function","function":{{"name":"{}","arguments":{}}}{extras}}}"#,
            json::quote(&call.id),
            call.name(),
            json::quote(call.put_back())
        )
    }

    /// The call goes among its siblings, the result right after the message, before theirs.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<Edit>> {
        among_calls(|turn| self.content(view, turn), view, besides, result)
    }

    /// The message is split at the aside's line into the earlier text with the call, the result, and the message with
    /// the later text, if any.
    fn put_between(&self, split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<Edit> {
        let first = format!(
            r#"{{"role":"assistant","content":{},"tool_calls":[{}]}}"#,
            text_before(split),
            pair.call
        );
        let pair_of_messages = format!("{first},{}", result(pair));
        let Some(rest) = rest(split) else {
            return vec![Edit::replace(split.whole, pair_of_messages)];
        };
        let mut edits = vec![Edit::insert(split.whole.start, format!("{pair_of_messages},"))];
        edits.extend(rest);
        edits
    }
}
