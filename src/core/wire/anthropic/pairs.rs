//! Hidden calls and their results in Anthropic's messages.

use std::collections::HashMap;

use super::Anthropic;
use crate::mark::gap;
use crate::record::{HiddenPair, InsertionPlace};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{self, Role, TurnContent, TurnPart, View};
use crate::wire::{HiddenCall, Pairs, SiblingPair, Turns};

impl Pairs for Anthropic {
    /// A hidden call as a block. Arguments that are not a JSON object become an empty one: the API accepts nothing
    /// else.
    fn hidden_call(&self, call: &HiddenCall) -> String {
        let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments);
        let input = if object.is_ok() {
            call.arguments.trim()
        } else {
            "{}"
        };
        format!(
            r#"{{"type":"tool_use","id":{},"name":"{}","input":{input}}}"#,
            json::quote(&call.id),
            call.name()
        )
    }

    /// The call goes among the blocks of its sibling's turn, the result in front of the other results.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<Edit>> {
        let mut turns: HashMap<usize, (TurnContent, ResultsAt)> = HashMap::new();
        let edits = besides.iter().map(|SiblingPair { at, pair }| {
            let InsertionPlace::Beside { offset, .. } = pair.place else {
                return Vec::new();
            };
            let (content, results) = turns
                .entry(at.turn)
                .or_insert_with(|| (Anthropic.content(view, at.turn), ResultsAt::after(view, at.turn)));
            vec![
                view::beside(&content.parts, at.part, offset, &pair.call),
                results.with(&result(pair)),
            ]
        });
        edits.collect()
    }

    /// The turn is split at the aside's line: what was written before it with the call, the result, what was written
    /// after it.
    fn put_aside(
        &self,
        view: &View,
        turn: usize,
        content: &TurnContent,
        part: usize,
        mark: Span,
        pair: &HiddenPair,
    ) -> Vec<Edit> {
        let text: &[u8] = &view.body;
        let whole = view.turns[turn].span;
        let Some(here) = content.parts.get(part) else {
            return Vec::new();
        };
        let Some(inside) = here.text else {
            return Vec::new();
        };
        let before = Span::new(inside.start, gap::before(text, inside.start, mark.start));
        let after = Span::new(gap::after(text, mark.end, inside.end), inside.end);
        let [open, close, head, tail] = surroundings(view, whole, content, here, inside);
        let block = |span: Span| {
            let blank = json::unescape(span.of(text)).trim().is_empty();
            (!blank).then(|| format!("{open}{}{close}", view.str(span)))
        };
        let mut with = String::new();
        if content.list.is_none() {
            with.push_str(&head);
        }
        if let Some(block) = block(before) {
            with.push_str(&block);
            with.push(',');
        }
        with.push_str(&pair.call);
        with.push_str(&tail);
        with.push_str(&format!(r#",{{"role":"user","content":[{}]}}"#, result(pair)));
        let last = part + 1 >= content.parts.len();
        let rest = block(after);
        let from = if content.list.is_none() {
            whole.start
        } else {
            here.span.start
        };
        if rest.is_none() && last {
            return vec![Edit::replace(Span::new(from, whole.end), with)];
        }
        with.push(',');
        with.push_str(&head);
        match (&rest, last) {
            (Some(rest), true) => {
                with.push_str(rest);
                with.push_str(&tail);
                vec![Edit::replace(Span::new(from, whole.end), with)]
            }
            (Some(rest), false) => {
                with.push_str(rest);
                vec![Edit::replace(Span::new(from, here.span.end), with)]
            }
            (None, _) => vec![Edit::replace(
                Span::new(from, content.parts[part + 1].span.start),
                with,
            )],
        }
    }
}

/// The bytes around the text `inside` of a part: its block before and after it (a new block for string content), and
/// the message before and after its blocks.
fn surroundings(
    view: &View,
    whole: Span,
    content: &TurnContent,
    here: &TurnPart,
    inside: Span,
) -> [String; 4] {
    let text = |start, end| view.str(Span::new(start, end)).into_owned();
    match content.list {
        Some(list) => [
            text(here.span.start, inside.start),
            text(inside.end, here.span.end),
            text(whole.start, list.start + 1),
            text(list.end - 1, whole.end),
        ],
        None => [
            r#"{"type":"text","text":""#.to_owned(),
            "\"}".to_owned(),
            format!("{}[", text(whole.start, here.span.start)),
            format!("]{}", text(here.span.end, whole.end)),
        ],
    }
}

/// The result of a hidden call, as a block.
pub(super) fn result(pair: &HiddenPair) -> String {
    let error = if pair.answer.is_error() {
        r#","is_error":true"#
    } else {
        ""
    };
    format!(
        r#"{{"type":"tool_result","tool_use_id":{},"content":{}{error}}}"#,
        json::quote(&pair.call_id),
        json::quote(pair.answer.text())
    )
}

/// Where the results of a turn's calls go.
enum ResultsAt {
    /// First in the next user message, which is empty or not.
    Among { at: usize, empty: bool },
    /// In a message of their own: there is no user message, or it has no blocks.
    Alone { at: usize },
}

impl ResultsAt {
    fn after(view: &View, turn: usize) -> Self {
        let next = view.turns.get(turn + 1).filter(|t| t.role == Role::User);
        match next.map(|_| Anthropic.content(view, turn + 1)) {
            Some(TurnContent {
                list: Some(list),
                parts,
            }) => Self::Among {
                at: list.start + 1,
                empty: parts.is_empty(),
            },
            _ => Self::Alone {
                at: view.turns[turn].span.end,
            },
        }
    }

    fn with(&self, results: &str) -> Edit {
        match *self {
            Self::Among { at, empty } => {
                let comma = if empty { "" } else { "," };
                Edit::insert(at, format!("{results}{comma}"))
            }
            Self::Alone { at } => Edit::insert(at, format!(r#",{{"role":"user","content":[{results}]}}"#)),
        }
    }
}
