//! Restores hidden pairs in the upstream view: next to a sibling call, or at an aside.

use crate::record::HiddenPair;
use crate::text::{Span, json};
use crate::wire::HiddenCall;
use crate::wire::aside::{SplitTurn, SyntheticTurn};
use crate::wire::view::Role;

/// Serializes the result of a hidden call as a message.
pub(super) fn result(pair: &HiddenPair) -> String {
    let (id, text) = (json::quote(&pair.call_id), json::quote(pair.answer.text()));
    format!(r#"{{"role":"tool","tool_call_id":{id},"content":{text}}}"#)
}

/// Content of the first half, in the same form as the message's content. `null` if it is empty.
fn text_before(split: &SplitTurn<'_>) -> String {
    let (content, before) = (split.content, split.before);
    let Some(list) = content.list else {
        return if before.is_empty() {
            "null".to_owned()
        } else {
            format!("\"{}\"", split.str(before))
        };
    };
    let here = split.here.span;
    let parts = content.parts[..split.part].iter();
    let parts = parts.filter(|p| list.holds(p.span.start));
    let mut blocks: Vec<String> = parts.map(|p| split.str(p.span).into_owned()).collect();
    if !before.is_empty() {
        let open = split.str(Span::new(here.start, before.end));
        blocks.push(format!(
            "{open}{}",
            split.str(Span::new(split.inside.end, here.end))
        ));
    }
    if blocks.is_empty() {
        "null".to_owned()
    } else {
        format!("[{}]", blocks.join(","))
    }
}

/// Serializes a hidden call as an element of `tool_calls`, with its other members, such as a thought
/// signature.
///
/// The arguments are the raw string, even if it is not valid JSON.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    let extras = call.raw.as_deref().filter(|r| !r.is_empty());
    let extras = extras.map(|r| format!(",{r}")).unwrap_or_default();
    let (id, name) = (json::quote(&call.id), call.name());
    let arguments = json::quote(call.put_back());
    format!(
        r#"{{"id":{id},"type":"function","function":{{"name":"{name}","arguments":{arguments}}}{extras}}}"#
    )
}

/// Splits the message at the aside's line: the text before it with the call, the result, and the message
/// with the text after it, if any.
pub(super) fn put_between(split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn> {
    let (text, call) = (text_before(split), &pair.call);
    let first = format!(r#"{{"role":"assistant","content":{text},"tool_calls":[{call}]}}"#);
    let rest = split.rest().map(|rest| {
        let own = split.str(Span::new(rest.from, split.whole.end));
        SyntheticTurn::new(Role::Assistant, rest.prefix + &own)
    });
    let pair = [
        SyntheticTurn::new(Role::Assistant, first),
        SyntheticTurn::new(Role::Tool, result(pair)),
    ];
    pair.into_iter().chain(rest).collect()
}
