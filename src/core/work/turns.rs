//! Turns: a user's request and everything up to the user's next text.

use std::collections::HashMap;
use std::ops::Range;

use super::message::{IndexedCall, IndexedItem, IndexedMessage, IndexedResult, IndexedText, ItemPosition};
use crate::agents::wordings::UserText;
use crate::wire::Role;

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// With output of the model that neither asks nor announces.
    Answered,
    /// With a question to the user.
    Question,
    /// With output that announces a step, which was not taken.
    Announced,
    /// The user stopped the turn.
    Interrupted,
    /// The turn still continues.
    Working,
}

#[derive(Debug, Clone)]
pub(crate) struct IndexedTurn<'i> {
    /// Number of the turn, from 1.
    pub(crate) n: usize,
    pub(crate) messages: Range<usize>,
    /// The user's words at the start, or a summary in their place.
    pub(crate) opening: Vec<&'i IndexedText>,
    /// The model's output, in order.
    pub(crate) replies: Vec<&'i IndexedText>,
    pub(crate) ended: TurnEnd,
}

impl IndexedTurn<'_> {
    /// Whether the turn begins with the user's words, and not with a summary.
    pub(crate) fn is_from_user(&self) -> bool {
        self.opening.iter().any(|spoken| spoken.kind == UserText::User)
    }

    /// The user's words at the start.
    pub(crate) fn user_text(&self) -> String {
        let user = self.opening.iter().filter(|spoken| spoken.kind == UserText::User);
        let mut texts: Vec<_> = user.map(|spoken| spoken.text.trim()).collect();
        // Sent again after an interruption.
        texts.dedup();
        texts.join("\n")
    }
}

/// Calls of some messages, as message, item and call.
pub(crate) fn calls(
    messages: &[IndexedMessage],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, usize, &IndexedCall)> {
    items(messages, range).filter_map(|(at, i, item)| match item {
        IndexedItem::Call(call) => Some((at, i, call)),
        _ => None,
    })
}

/// Results of some messages, each with its message.
pub(crate) fn outcomes(
    messages: &[IndexedMessage],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, &IndexedResult)> {
    items(messages, range).filter_map(|(at, _, item)| match item {
        IndexedItem::Result(outcome) => Some((at, outcome)),
        _ => None,
    })
}

/// The results of these messages, by their calls.
pub(crate) fn answers(
    messages: &[IndexedMessage],
    range: Range<usize>,
) -> HashMap<ItemPosition, &IndexedResult> {
    let results = outcomes(messages, range);
    results
        .filter_map(|(_, outcome)| Some((outcome.call?, outcome)))
        .collect()
}

fn items(
    messages: &[IndexedMessage],
    range: Range<usize>,
) -> impl Iterator<Item = (usize, usize, &IndexedItem)> {
    range.flat_map(move |at| {
        let items = messages[at].items.iter().enumerate();
        items.map(move |(i, item)| (at, i, item))
    })
}

/// Divides a conversation into turns. Calls before the user's first text belong to the turn of that text, if it ever comes.
pub(crate) fn of(messages: &[IndexedMessage]) -> Vec<IndexedTurn<'_>> {
    let mut turns: Vec<IndexedTurn<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let mut opens = false;
        let is_call = |item: &IndexedItem| matches!(item, IndexedItem::Call(_));
        if turns.is_empty() && message.items.iter().any(is_call) {
            turns.push(begun(1, at));
        }
        for item in &message.items {
            match item {
                IndexedItem::Text(spoken) if matches!(message.role, Role::User | Role::Tool) => {
                    match spoken.kind {
                        UserText::User | UserText::Summary | UserText::Branch => {
                            if let Some(turn) = turns.last_mut().filter(|_| spoken.answers) {
                                turn.ended = TurnEnd::Question;
                            }
                            // Several text blocks of one message form one turn.
                            if !opens {
                                match turns.last_mut().filter(|turn| turn.opening.is_empty()) {
                                    Some(turn) => turn.ended = TurnEnd::Working,
                                    None => turns.push(begun(turns.len() + 1, at)),
                                }
                                opens = true;
                            }
                            if let Some(turn) = turns.last_mut() {
                                turn.opening.push(spoken);
                            }
                        }
                        UserText::Interrupted => {
                            if let Some(turn) = turns.last_mut() {
                                turn.ended = TurnEnd::Interrupted;
                            }
                        }
                        _ => {}
                    }
                }
                IndexedItem::Text(spoken) if message.role == Role::Assistant => {
                    if let Some(turn) = turns.last_mut() {
                        turn.replies.push(spoken);
                        turn.ended = match spoken.text.trim_end().chars().next_back() {
                            Some('?') => TurnEnd::Question,
                            Some(':' | '：') => TurnEnd::Announced,
                            _ => TurnEnd::Answered,
                        };
                    }
                }
                IndexedItem::Text(_) | IndexedItem::Gap => {}
                item if is_by_user(messages, item) => {}
                IndexedItem::Call(_)
                | IndexedItem::Result(_)
                | IndexedItem::Task(_)
                | IndexedItem::TaskList(_) => {
                    if let Some(turn) = turns.last_mut() {
                        turn.ended = TurnEnd::Working;
                    }
                }
            }
        }
        if let Some(turn) = turns.last_mut() {
            turn.messages.end = at + 1;
        }
    }
    turns
}

/// Whether this is a command that the user ran, or its result. Neither affects the state of the model's work.
fn is_by_user(messages: &[IndexedMessage], item: &IndexedItem) -> bool {
    let call = match item {
        IndexedItem::Result(outcome) => outcome.call.and_then(|(at, i)| messages.get(at)?.items.get(i)),
        item => Some(item),
    };
    matches!(call, Some(IndexedItem::Call(call)) if call.by_user)
}

fn begun<'i>(n: usize, at: usize) -> IndexedTurn<'i> {
    IndexedTurn {
        n,
        messages: at..at + 1,
        opening: Vec::new(),
        replies: Vec::new(),
        ended: TurnEnd::Working,
    }
}
