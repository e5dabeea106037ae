//! The rules that tie items to each other: calls to their outputs, and reasoning to what was produced
//! behind it.

use std::collections::HashMap;

use serde_json::Value;

use super::items::{answer_of, is_answer, is_produced, kind};
use crate::strict::complaint::{Findings, Rule};
use crate::strict::fields::text;
use crate::strict::model::Seen;

/// Holds a transcript to them.
pub(super) fn check(seen: &Seen, items: &[Value], findings: &mut Findings<'_>) {
    check_calls(items, findings);
    for (n, item) in items.iter().enumerate() {
        if kind(item) == "reasoning" {
            check_reasoning(seen, item, &items[n + 1..], findings);
        } else if is_produced(item) {
            check_produced(seen, item, &items[..n], findings);
        }
    }
}

fn check_calls(items: &[Value], findings: &mut Findings<'_>) {
    // Each call's type, and whether it was answered, in the order of the calls.
    let mut calls: HashMap<&str, (&str, bool)> = HashMap::new();
    let mut order = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let (kind, id) = (kind(item), text(item, "call_id"));
        if let Some(answer) = answer_of(kind) {
            order.push((id, n));
            if calls.insert(id, (answer, false)).is_some() {
                findings.add(
                    Rule::RepeatedCall,
                    format!("Invalid 'input[{n}].call_id': {id} stands twice."),
                );
            }
        } else if is_answer(kind) {
            match calls.get_mut(id) {
                Some((answer, done @ false)) if *answer == kind => *done = true,
                Some((answer, true)) if *answer == kind => findings.add(
                    Rule::RepeatedResult,
                    format!("Invalid 'input[{n}]': call {id} is answered twice."),
                ),
                _ => findings.add(
                    Rule::OrphanResult,
                    format!(
                        "No tool call found for {} with call_id {id}. (input[{n}])",
                        spoken(kind)
                    ),
                ),
            }
        }
    }
    for (id, n) in order {
        if calls.get(id).is_some_and(|(_, done)| !done) {
            findings.add(
                Rule::Unanswered,
                format!(
                    "No tool output found for {} {id}. (input[{n}])",
                    spoken(kind(&items[n]))
                ),
            );
        }
    }
}

/// `function_call_output` as the API says it.
fn spoken(kind: &str) -> String {
    kind.replace('_', " ")
}

/// Reasoning is followed by what was produced behind it; other reasoning may stand between.
fn check_reasoning(seen: &Seen, item: &Value, after: &[Value], findings: &mut Findings<'_>) {
    let id = text(item, "id");
    let next = after.first();
    let made = seen.memory.made(id).and_then(|made| made.next);
    let right = match next {
        None => false,
        Some(next) if kind(next) == "reasoning" => true,
        Some(next) => {
            let given = text(next, "id");
            is_produced(next) && (given.is_empty() || made.is_none_or(|made| made == given))
        }
    };
    if !right {
        findings.add(
            Rule::LoneReasoning,
            format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
        );
    }
}

/// An item that was produced behind reasoning, and comes with its id, comes with that reasoning.
fn check_produced(seen: &Seen, item: &Value, before: &[Value], findings: &mut Findings<'_>) {
    let id = text(item, "id");
    let Some(reasoning) = seen.memory.made(id).and_then(|made| made.reasoning) else {
        return;
    };
    if !before.iter().any(|item| text(item, "id") == reasoning) {
        findings.add(
            Rule::MissingReasoning,
            format!(
                "Item '{id}' of type '{}' was provided without its required 'reasoning' item: '{reasoning}'.",
                kind(item)
            ),
        );
    }
}
