//! Hidden calls and their results in Ollama messages.

use crate::record::HiddenPair;
use crate::text::{Span, json};
use crate::wire::HiddenCall;
use crate::wire::aside::{SplitTurn, SyntheticTurn};
use crate::wire::own_text::id_member;
use crate::wire::view::Role;

/// Serializes a hidden call, using upstream's own element if it was kept. Arguments that are not a JSON
/// object become `{}`, because the API accepts nothing else.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    if let Some(raw) = &call.raw {
        return raw.clone();
    }
    let (id, name, arguments) = (id_member(&call.id), call.name(), call.object());
    format!(r#"{{{id}"function":{{"name":"{name}","arguments":{arguments}}}}}"#)
}

/// Splits the message at the aside's line: the text before it with the call, the result, and the message
/// with the text after it.
pub(super) fn put_between(split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn> {
    let (before, call) = (split.str(split.before), &pair.call);
    let first = format!(r#"{{"role":"assistant","content":"{before}","tool_calls":[{call}]}}"#);
    let mut made = vec![
        SyntheticTurn::new(Role::Assistant, first),
        SyntheticTurn::new(Role::Tool, result(pair)),
    ];
    if !split.is_blank(split.after) || split.content.parts.len() > 1 {
        let open = split.str(Span::new(split.whole.start, split.inside.start));
        let rest = open + split.str(Span::new(split.after.start, split.whole.end));
        made.push(SyntheticTurn::new(Role::Assistant, rest.into_owned()));
    }
    made
}

/// Serializes the result of a hidden call as a message.
pub(super) fn result(pair: &HiddenPair) -> String {
    let id = if pair.call_id.is_empty() {
        String::new()
    } else {
        format!(r#","tool_call_id":{}"#, json::quote(&pair.call_id))
    };
    let (text, tool) = (json::quote(pair.answer.text()), &pair.tool);
    format!(r#"{{"role":"tool","content":{text},"tool_name":"{tool}"{id}}}"#)
}
