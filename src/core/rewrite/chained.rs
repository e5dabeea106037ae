//! Counts the handoffs of a model that hands over repeatedly and does almost no work in between.

use std::collections::HashSet;

use memchr::memmem;

use super::RequestReading;
use super::users_words::own_text;
use crate::agents::speakers::INTERJECTION;
use crate::wire::view::{Role, TurnPartKind, View};

/// Maximum number of rounds of tool calls between two handoffs of a chain.
///
/// A task takes more rounds.
const MAX_ROUNDS: usize = 2;

/// Counts the newest handoffs of a transcript that form a chain, up to `max`.
///
/// Two handoffs belong to a chain if at most `MAX_ROUNDS` rounds of tool calls and no user text are between
/// them. A round counts by its results, which every agent sends whole, unlike the calls.
pub fn chained(reading: &RequestReading, tags: &[String], max: u32) -> u32 {
    let mut handoffs = reading.candidates();
    handoffs.retain(|one| !one.by_user);
    if handoffs.is_empty() {
        // Most transcripts have none, and then no turn is parsed.
        return 0;
    }
    let view = &reading.view;
    // An agent may keep a sentinel twice, with an interrupted response and with its repetition.
    let mut chain = HashSet::new();
    let (mut rounds, mut in_round) = (0, false);
    for turn in (0..view.turns.len()).rev() {
        match view.turns[turn].role {
            Role::User | Role::Tool if is_by_user(view, turn, tags) => break,
            Role::User | Role::Tool if !in_round && has_result(view, turn) => {
                (rounds, in_round) = (rounds + 1, true);
            }
            role if role.may_be_models() => {
                in_round = false;
                for one in handoffs.iter().filter(|one| one.turn == turn) {
                    chain.insert(one.sentinel.id);
                    rounds = 0;
                }
            }
            _ => {}
        }
        if rounds > MAX_ROUNDS || chain.len() >= max as usize {
            break;
        }
    }
    max.min(chain.len() as u32)
}

fn has_result(view: &View, turn: usize) -> bool {
    let parts = view.content(turn).parts;
    parts.iter().any(|part| part.kind == TurnPartKind::Result)
}

/// Whether a turn has user text.
///
/// A result that imitates a user message only begins a new chain.
fn is_by_user(view: &View, turn: usize, tags: &[String]) -> bool {
    let words = INTERJECTION.trim_end().as_bytes();
    own_text(view, turn, tags).is_some() || memmem::find(view.raw(turn), words).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::marker::sentinel;
    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    fn text(role: &str, text: &str) -> Value {
        json!({"role": role, "content": [{"type": "text", "text": text}]})
    }

    /// Model turn with a sentinel.
    fn handed_over(n: u128) -> Value {
        text(
            "assistant",
            &format!(
                "Done.\n\n{}\n\nI go on.",
                sentinel::short(Uuid::from_u128(n), None)
            ),
        )
    }

    /// Call with its result and the agent's text after it.
    fn round(id: &str, after: Option<&str>) -> [Value; 2] {
        let mut answer = vec![json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})];
        answer.extend(after.map(|text| json!({"type": "text", "text": text})));
        [
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]}),
            json!({"role": "user", "content": answer}),
        ]
    }

    fn count(messages: &[Value], max: u32) -> u32 {
        let body = json!({"model": "m", "messages": messages});
        count_in(WireId::Anthropic, &body, max)
    }

    fn count_in(id: WireId, body: &Value, max: u32) -> u32 {
        let reading = RequestReading::new(wire(id), &body.to_string().into(), Operation::Generate).unwrap();
        chained(&reading, &["<system-reminder>".to_owned()], max)
    }

    #[test]
    fn handoffs_with_almost_nothing_between_them_are_a_chain() {
        let budget = "<system-reminder>\n<total_tokens>1 tokens left</total_tokens>\n</system-reminder>";
        let mut messages = vec![text("user", "Go on."), handed_over(1)];
        assert_eq!(count(&messages, 8), 1);
        messages.extend(round("a", Some(budget)));
        messages.extend(round("b", None));
        messages.push(handed_over(2));
        messages.extend(round("c", None));
        assert_eq!(count(&messages, 8), 2);
        assert_eq!(count(&messages, 1), 1);
        messages.extend(round("d", None));
        messages.extend(round("e", None));
        assert_eq!(count(&messages, 8), 0, "a task of three rounds");
        messages.push(handed_over(3));
        assert_eq!(
            count(&messages, 8),
            1,
            "three rounds lie between it and the one before"
        );
    }

    #[test]
    fn a_sentinel_that_the_agent_keeps_twice_is_one_handoff() {
        let messages = [
            text("user", "Go on."),
            handed_over(1),
            handed_over(1),
            handed_over(2),
        ];
        assert_eq!(count(&messages, 8), 2);
    }

    #[test]
    fn handoffs_and_rounds_are_counted_if_they_are_sent_by_reference() {
        let by_id = |id: &str| json!({"type": "item_reference", "id": id});
        let handed_over = |n: u128| by_id(&format!("msg_handoff_{}", Uuid::from_u128(n).simple()));
        let round = |id: &str| {
            let result = json!({"type": "function_call_output", "call_id": id, "output": "ok"});
            [by_id(&format!("fc_{id}")), result]
        };
        let count = |input: &[Value]| {
            let body = json!({"model": "m", "input": input});
            count_in(WireId::OpenaiResponses, &body, 8)
        };
        let asks = json!({"type": "message", "role": "user", "content": "Go on."});
        let mut input = vec![asks, handed_over(1), handed_over(2)];
        assert_eq!(count(&input), 2);
        input.extend(["a", "b"].into_iter().flat_map(round));
        assert_eq!(count(&input), 2);
        input.extend(round("c"));
        assert_eq!(count(&input), 0, "a task of three rounds");
    }

    #[test]
    fn words_of_the_user_end_a_chain() {
        let mut messages = vec![
            text("user", "Go on."),
            handed_over(1),
            text("user", "Now the page."),
            handed_over(2),
        ];
        assert_eq!(count(&messages, 8), 1);
        messages.extend(round("a", Some("Not so.")));
        assert_eq!(count(&messages, 8), 0);
        let typed = "ok\n\n<system-reminder>\nThe user sent a new message while you were working:\nNot so.\n\nThis is how Claude Code surfaces messages\n</system-reminder>";
        let mut interjected = vec![text("user", "Go on."), handed_over(1)];
        interjected.extend(round("a", None));
        interjected[3]["content"][0]["content"] = typed.into();
        assert_eq!(count(&interjected, 8), 0);
        assert_eq!(count(&[text("user", "Go on."), text("assistant", "Done.")], 8), 0);
    }
}
