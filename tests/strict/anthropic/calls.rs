//! Rules that tie tool calls to their results.

use std::collections::HashSet;

use serde_json::Value;

use crate::complaint::{Findings, Rule};
use crate::fields::text;

/// Checks a transcript against the rules for calls and results.
pub(super) fn check(messages: &[Value], findings: &mut Findings<'_>) {
    let merged = merge(messages);
    let mut ids = HashSet::new();
    for (at, (role, blocks)) in merged.iter().enumerate() {
        if *role == "user" {
            let before = at.checked_sub(1).and_then(|before| merged.get(before));
            check_results(blocks, before, findings);
            continue;
        }
        let calls: Vec<_> = blocks
            .iter()
            .filter(|(_, _, block)| text(block, "type") == "tool_use")
            .collect();
        for (n, m, block) in &calls {
            if !ids.insert(text(block, "id")) {
                let place = format!("messages.{n}.content.{m}");
                findings.add(
                    Rule::RepeatedCall,
                    format!("{place}: `tool_use` ids must be unique"),
                );
            }
        }
        let answered: HashSet<&str> = match merged.get(at + 1) {
            Some(("user", next)) => next
                .iter()
                .map(|(_, _, block)| text(block, "tool_use_id"))
                .collect(),
            _ => HashSet::new(),
        };
        let open: Vec<&str> = calls
            .iter()
            .map(|(_, _, block)| text(block, "id"))
            .filter(|id| !answered.contains(id))
            .collect();
        if let (Some((n, _, _)), false) = (calls.last(), open.is_empty()) {
            findings.add(
                Rule::Unanswered,
                format!(
                    "messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. \
                     Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
                    open.join(", ")
                ),
            );
        }
    }
}

/// Adjacent messages with the same role, merged like in the API: the role, and each block with its position.
type MergedMessage<'a> = (&'a str, Vec<(usize, usize, &'a Value)>);

fn merge(messages: &[Value]) -> Vec<MergedMessage<'_>> {
    let mut out: Vec<MergedMessage<'_>> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if out.last().is_none_or(|(last, _)| *last != role) {
            out.push((role, Vec::new()));
        }
        if let Some((_, blocks)) = out.last_mut() {
            match message.get("content") {
                Some(Value::Array(list)) => {
                    blocks.extend(list.iter().enumerate().map(|(m, block)| (n, m, block)));
                }
                // A string has no fields to check, but its position in the order counts.
                Some(other) => blocks.push((n, 0, other)),
                None => {}
            }
        }
    }
    out
}

fn check_results(
    blocks: &[(usize, usize, &Value)],
    before: Option<&MergedMessage<'_>>,
    findings: &mut Findings<'_>,
) {
    let calls: HashSet<&str> = match before {
        Some(("assistant", blocks)) => blocks
            .iter()
            .filter(|(_, _, block)| text(block, "type") == "tool_use")
            .map(|(_, _, block)| text(block, "id"))
            .collect(),
        _ => HashSet::new(),
    };
    let mut other = false;
    let mut answered = HashSet::new();
    for (n, m, block) in blocks {
        if text(block, "type") != "tool_result" {
            other = true;
            continue;
        }
        let (place, id) = (format!("messages.{n}.content.{m}"), text(block, "tool_use_id"));
        if !calls.contains(id) {
            findings.add(
                Rule::OrphanResult,
                format!(
                    "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` \
                     block must have a corresponding `tool_use` block in the previous message."
                ),
            );
        } else if other {
            let rule = "`tool_result` blocks must come before any other content of the message";
            findings.add(Rule::ResultOrder, format!("{place}: {rule} ({id})"));
        }
        if !answered.insert(id) {
            let rule = "each tool_use must have a single result. Found multiple `tool_result` blocks with id";
            findings.add(Rule::RepeatedResult, format!("{place}: {rule}: {id}"));
        }
    }
}
