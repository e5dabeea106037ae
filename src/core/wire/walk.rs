//! Parsing shared by all wires: one walk over the top level, and messages with their roles.

use super::UnreadReason;
use super::view::{Role, ToolList, Turn, View};
use crate::text::Span;
use crate::text::json::{self, InvalidJson, WalkResult};
use crate::tools::TOOL_NAME;

/// Parses a body whose transcript is `messages`. `member` reads each other top-level member (text, key,
/// value).
pub(super) fn view(
    mut view: View,
    keys: &[&str],
    role: impl Fn(&[u8]) -> Role,
    member: impl Fn(&[u8], &[u8], Span, &mut View),
) -> Result<View, UnreadReason> {
    let bytes = view.body.clone();
    let text: &[u8] = &bytes;
    body(text, keys, |name, at| {
        let key = name.of(text);
        if key == b"messages" {
            view.list = Span::new(at, messages(text, at, &role, &mut view.turns)?);
            view.around.push((name, view.list));
            return Ok(view.list.end);
        }
        let value = Span::new(at, json::value_end(text, at)?);
        view.around.push((name, value));
        member(text, key, value, &mut view);
        Ok(value.end)
    })?;
    // Without turns there is nothing to rewrite, so the body is relayed.
    if view.turns.is_empty() {
        return Err(UnreadReason::OtherShape);
    }
    Ok(view)
}

/// Whether an output limit leaves no room for a call. Probes and cache warm-ups send 0 or 1.
pub(super) fn is_cramped(limit: &[u8]) -> bool {
    const LEAST_ROOM: u64 = 1024;
    json::number(limit).is_some_and(|tokens| tokens < LEAST_ROOM)
}

/// Walks the top level of a body.
///
/// `member` receives each key and the offset of its value, and returns the end of the value. `keys` are those
/// that a rewrite reads or edits. Parsers disagree about which of two equal keys counts, so a body that
/// repeats one is refused. So is a body that spells one with escapes or in another case, because upstream may
/// see a member there that baton does not.
pub(super) fn body(
    text: &[u8],
    keys: &[&str],
    mut member: impl FnMut(Span, usize) -> WalkResult,
) -> Result<(), UnreadReason> {
    let start = json::blank(text, 0);
    if text.get(start) != Some(&b'{') {
        let invalid = |InvalidJson(at)| UnreadReason::NotJson(at);
        return Err(json::whole(text).map_or_else(invalid, |_| UnreadReason::OtherShape));
    }
    // A bit per key; every wire has fewer than 32 of them.
    let mut seen = 0u32;
    let (mut repeated, mut disguised) = (false, false);
    let end = json::object(text, start, |key, at| {
        let key_text = key.of(text);
        match keys.iter().position(|k| k.as_bytes() == key_text) {
            Some(i) => {
                repeated |= seen & (1 << i) != 0;
                seen |= 1 << i;
            }
            None => disguised |= is_disguised(key_text, keys),
        }
        member(key, at)
    });
    let end = end.map_err(|InvalidJson(at)| UnreadReason::NotJson(at))?;
    if json::blank(text, end) != text.len() {
        return Err(UnreadReason::NotJson(end));
    }
    match (repeated, disguised) {
        (true, _) => Err(UnreadReason::RepeatedKey),
        (_, true) => Err(UnreadReason::OtherShape),
        _ => Ok(()),
    }
}

/// Whether a key that equals none of `keys` would do so unescaped, or in lower case.
fn is_disguised(key: &[u8], keys: &[&str]) -> bool {
    let differs = |byte: &u8| *byte == b'\\' || byte.is_ascii_uppercase();
    key.iter().any(differs) && {
        let name = json::unescape(key);
        keys.iter().any(|k| k.eq_ignore_ascii_case(&name))
    }
}

/// Different beginnings of messages that are recognized: one for each role, and a few more.
const MAX_HEADS: usize = 6;

/// Walks an array of messages; any other value contains none. `role` parses the literal of a message's role.
fn messages(text: &[u8], at: usize, role: impl Fn(&[u8]) -> Role, turns: &mut Vec<Turn>) -> WalkResult {
    if text.get(at) != Some(&b'[') {
        return json::value_end(text, at);
    }
    // Most messages begin with the same bytes as an earlier one, up to the value of the first member other than the role.
    // To compare them takes a fifth of the steps of a walk over these members.
    let mut heads: Vec<(&[u8], Role)> = Vec::new();
    json::array(text, at, |at| {
        if text.get(at) != Some(&b'{') {
            return json::value_end(text, at);
        }
        let mut all = heads.iter().copied();
        let known = all.find(|(head, _)| text[at..].starts_with(head));
        let mut turn = Turn::new(Span::new(at, at), known.map_or(Role::Other, |(_, role)| role));
        let mut head = None;
        let member = |key: Span, value: usize| {
            let end = json::value_end(text, value)?;
            if key.of(text) == b"role" {
                turn.role = role(&text[value..end]);
            } else {
                head.get_or_insert((&text[at..value], turn.role));
            }
            Ok(end)
        };
        turn.span.end = match known {
            Some((head, _)) => {
                let value = json::blank(text, at + head.len());
                json::rest_of_object(text, json::value_end(text, value)?, member)?
            }
            None => json::object(text, at, member)?,
        };
        if known.is_none() && heads.len() < MAX_HEADS {
            heads.extend(head);
        }
        turns.push(turn);
        Ok(turn.span.end)
    })
}

/// Parses a list of tools. `each` receives the values of `keys` for each tool.
pub(super) fn tools<const N: usize>(
    text: &[u8],
    value: Span,
    keys: [&str; N],
    mut each: impl FnMut([Option<Span>; N], &mut ToolList),
) -> Option<ToolList> {
    if text.get(value.start) != Some(&b'[') {
        return None;
    }
    let all = json::pick_each(text, value, keys);
    let mut tools = ToolList {
        end: value.end - 1,
        count: all.len(),
        ..ToolList::default()
    };
    for found in all {
        each(found, &mut tools);
    }
    Some(tools)
}

/// Parses a list of tools with a `type` and a `name`.
///
/// `client` decides whether the agent runs tools of a type. A tool without a type is always the agent's.
pub(super) fn typed_tools(text: &[u8], value: Span, client: impl Fn(&str) -> bool) -> Option<ToolList> {
    let string = |span: Option<Span>| span.and_then(|s| json::string(text, s));
    tools(text, value, ["type", "name"], |[kind, name], tools| {
        tools.client |= string(kind).is_none_or(|k| client(&k));
        tools.taken |= string(name).is_some_and(|n| n == TOOL_NAME);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn role(literal: &[u8]) -> Role {
        match literal {
            b"\"user\"" => Role::User,
            b"\"assistant\"" => Role::Assistant,
            _ => Role::Tool,
        }
    }

    /// Walks each message on its own, so that none has an earlier one.
    fn one_by_one(text: &[u8]) -> Result<Vec<Turn>, InvalidJson> {
        let mut turns = Vec::new();
        json::array(text, 0, |at| {
            let mut turn = Turn::new(Span::new(at, at), Role::Other);
            turn.span.end = json::object(text, at, |key, value| {
                let end = json::value_end(text, value)?;
                if key.of(text) == b"role" {
                    turn.role = role(&text[value..end]);
                }
                Ok(end)
            })?;
            turns.push(turn);
            Ok(turn.span.end)
        })?;
        Ok(turns)
    }

    proptest! {
        #[test]
        fn messages_that_begin_alike_are_read_like_any_other(
            all in proptest::collection::vec(proptest::collection::vec(prop_oneof![
                Just(r#""role":"user""#), Just(r#""role":"assistant""#), Just(r#""role" : "user""#), Just(r#""role":"x""#),
                Just(r#""content":"a""#), Just(r#""content": "a""#), Just(r#""content":[{"b":"}"}]"#), Just(r#""id":1"#),
                Just(r#""content":"#), Just(r#""content""#)], 0..5), 0..20),
            cut in any::<proptest::sample::Index>(), cuts in any::<bool>()) {
            let all: Vec<String> = all.iter().map(|members| format!("{{{}}}", members.join(","))).collect();
            let text = format!("[{}]", all.join(", "));
            let text = &text.as_bytes()[..if cuts { cut.index(text.len()) + 1 } else { text.len() }];
            let mut turns = Vec::new();
            let walked = messages(text, 0, role, &mut turns).map(|_| turns);
            prop_assert_eq!(walked, one_by_one(text));
        }
    }
}
