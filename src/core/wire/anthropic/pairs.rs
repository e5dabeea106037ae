//! Hidden calls and their results in Anthropic messages.

use std::collections::HashMap;

use crate::record::HiddenPair;
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::aside::{LonePart, SplitTurn, SyntheticTurn};
use crate::wire::view::{self, Role, TurnChange, TurnContent, View};
use crate::wire::{HiddenCall, SiblingPair};

/// Serializes a hidden call as a block. Arguments that are not a JSON object become `{}`, because the API
/// accepts nothing else.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    let (id, name, input) = (json::quote(&call.id), call.name(), call.object());
    format!(r#"{{"type":"tool_use","id":{id},"name":"{name}","input":{input}}}"#)
}

/// Inserts the call among the blocks of its sibling's turn, and the result before the other results.
pub(super) fn put_beside(view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<TurnChange>> {
    let mut turns: HashMap<usize, (TurnContent, ResultsAt)> = HashMap::new();
    let changes = besides.iter().map(|SiblingPair { at, pair }| {
        let read = || (view.content(at.turn), ResultsAt::after(view, at.turn));
        let (content, results) = turns.entry(at.turn).or_insert_with(read);
        let call = view::beside(&content.parts, at.part, pair.place.offset(), &pair.call);
        vec![TurnChange::Within(at.turn, call), results.with(&result(pair))]
    });
    changes.collect()
}

/// Splits the turn at the aside's line: the content before it with the call, the result, and the content
/// after it.
pub(super) fn put_between(split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<SyntheticTurn> {
    let answer = format!(r#"{{"role":"user","content":[{}]}}"#, result(pair));
    split.around(&pair.call, SyntheticTurn::new(Role::User, answer), &LONE)
}

/// String content becomes a block.
const LONE: LonePart = LonePart {
    brackets: ["[", "]"],
    block: Some([r#"{"type":"text","text":""#, "\"}"]),
};

/// Serializes the result of a hidden call as a block.
pub(super) fn result(pair: &HiddenPair) -> String {
    let error = if pair.answer.is_error() {
        r#","is_error":true"#
    } else {
        ""
    };
    let (id, text) = (json::quote(&pair.call_id), json::quote(pair.answer.text()));
    format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{text}{error}}}"#)
}

/// Position for the results of a turn's calls.
enum ResultsAt {
    /// At the start of this user message, which may be empty.
    Among { turn: usize, at: usize, empty: bool },
    /// In a new message after this turn, because there is no user message with blocks.
    Alone { turn: usize },
}

impl ResultsAt {
    fn after(view: &View, turn: usize) -> Self {
        let next = view.turns.get(turn + 1).filter(|t| t.role == Role::User);
        match next.map(|_| view.content(turn + 1)) {
            Some(TurnContent {
                list: Some(list),
                parts,
            }) => Self::Among {
                turn: turn + 1,
                at: list.start + 1,
                empty: parts.is_empty(),
            },
            // A string has no place for results.
            _ => Self::Alone { turn },
        }
    }

    fn with(&self, results: &str) -> TurnChange {
        match *self {
            Self::Among { turn, at, empty } => {
                let comma = if empty { "" } else { "," };
                TurnChange::Within(turn, Edit::insert(at, format!("{results}{comma}")))
            }
            Self::Alone { turn } => {
                TurnChange::After(turn, format!(r#"{{"role":"user","content":[{results}]}}"#))
            }
        }
    }
}
