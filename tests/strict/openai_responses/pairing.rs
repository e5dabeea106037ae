//! The rules that tie items to each other: calls to their outputs, and reasoning items to the items that were
//! produced after them.

use std::collections::HashMap;

use serde_json::Value;

use super::transcript::{answer_of, is_agents_own, is_answer, is_produced, kind};
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::fields::text;

/// Checks a transcript against them.
pub(super) fn check(request: &Received, items: &[Value], findings: &mut Findings<'_>) {
    check_calls(items, findings);
    for (n, item) in items.iter().enumerate() {
        if kind(item) == "reasoning" {
            check_reasoning(request, item, &items[n + 1..], findings);
        } else if is_produced(item) {
            check_produced(request, item, &items[..n], findings);
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
        } else if is_answer(kind) && !is_agents_own(item) {
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
                        in_words(kind)
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
                    in_words(kind(&items[n]))
                ),
            );
        }
    }
}

/// `function_call_output` as the API words it in messages.
fn in_words(kind: &str) -> String {
    kind.replace('_', " ")
}

/// A reasoning item is followed by the item that was produced after it; other reasoning may be between.
fn check_reasoning(request: &Received, item: &Value, after: &[Value], findings: &mut Findings<'_>) {
    let id = text(item, "id");
    let next = after.first();
    let produced_next = request.memory.produced(id).and_then(|produced| produced.next);
    let right = match next {
        None => false,
        Some(next) if kind(next) == "reasoning" => true,
        Some(next) => {
            let given = text(next, "id");
            is_produced(next) && (given.is_empty() || produced_next.is_none_or(|next| next == given))
        }
    };
    if !right {
        findings.add(
            Rule::LoneReasoning,
            format!("Item '{id}' of type 'reasoning' was provided without its required following item."),
        );
    }
}

/// An item that was produced after reasoning, and comes with its id, comes with that reasoning item.
fn check_produced(request: &Received, item: &Value, before: &[Value], findings: &mut Findings<'_>) {
    let id = text(item, "id");
    let Some(reasoning) = request
        .memory
        .produced(id)
        .and_then(|produced| produced.reasoning)
    else {
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
