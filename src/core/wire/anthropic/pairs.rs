//! Hidden calls and their results in Anthropic's messages.

use std::collections::HashMap;

use super::Anthropic;
use crate::record::HiddenPair;
use crate::text::json;
use crate::text::splice::Edit;
use crate::wire::aside::{LonePart, SplitTurn};
use crate::wire::view::{self, Role, TurnContent, View};
use crate::wire::{HiddenCall, Pairs, SiblingPair, Turns};

impl Pairs for Anthropic {
    /// A hidden call as a block. Arguments that are not a JSON object become an empty one: the API accepts nothing
    /// else.
    fn hidden_call(&self, call: &HiddenCall) -> String {
        format!(
            r#"{{"type":"tool_use","id":{},"name":"{}","input":{}}}"#,
            json::quote(&call.id),
            call.name(),
            call.object()
        )
    }

    /// The call goes among the blocks of its sibling's turn, the result in front of the other results.
    fn put_beside(&self, view: &View, besides: &[SiblingPair<'_>]) -> Vec<Vec<Edit>> {
        let mut turns: HashMap<usize, (TurnContent, ResultsAt)> = HashMap::new();
        let edits = besides.iter().map(|SiblingPair { at, pair }| {
            let (content, results) = turns
                .entry(at.turn)
                .or_insert_with(|| (Anthropic.content(view, at.turn), ResultsAt::after(view, at.turn)));
            vec![
                view::beside(&content.parts, at.part, pair.place.offset(), &pair.call),
                results.with(&result(pair)),
            ]
        });
        edits.collect()
    }

    /// The turn is split at the aside's line: what was written before it with the call, the result, what was written
    /// after it.
    fn put_between(&self, split: &SplitTurn<'_>, pair: &HiddenPair) -> Vec<Edit> {
        let answer = format!(r#"{{"role":"user","content":[{}]}}"#, result(pair));
        split.around(&pair.call, &answer, &LONE)
    }
}

/// A string of content becomes a block.
const LONE: LonePart = LonePart {
    brackets: ["[", "]"],
    block: Some([r#"{"type":"text","text":""#, "\"}"]),
};

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
