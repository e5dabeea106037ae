//! Thought signatures. Each is valid for the call or text that it was issued with.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::transcript::{MergedContent, canonical_call, canonical_form, field, inner, many, merged, model};
use crate::canonical;
use crate::complaint::{Findings, Rule};
use crate::dialect::Received;
use crate::signature::Signature;

/// Values that the API accepts instead of a signature, for histories that its models did not produce.
const PLACEHOLDERS: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// Models that do not require signatures.
const WITHOUT_SIGNATURES: [&str; 2] = ["gemini-1", "gemini-2"];

/// Hash of a transcript up to some turn.
///
/// Excludes thoughts, ids and signatures, and the boundaries between contents and between text parts, because
/// chunks of a stream return as separate contents.
pub(super) struct TurnPrefix {
    hasher: Sha256,
    role: String,
    in_text: bool,
}

impl TurnPrefix {
    /// Prefix before the first turn.
    fn new(body: &Value) -> Self {
        let mut prefix = TurnPrefix {
            hasher: Sha256::new(),
            role: String::new(),
            in_text: false,
        };
        let system = field(inner(body), "systemInstruction");
        for part in system.map_or(&[][..], |system| many(system, "parts")) {
            prefix.hasher.update(canonical_form(part).unwrap_or_default());
        }
        for tool in many(inner(body), "tools") {
            let declared = many(tool, "functionDeclarations");
            let parts = if declared.is_empty() {
                std::slice::from_ref(tool)
            } else {
                declared
            };
            for part in parts {
                prefix.hasher.update([0]);
                prefix.hasher.update(canonical::text(part));
            }
        }
        prefix
    }

    /// Prefix of the next turn of the model. If the last turn already belongs to the model, the prefix ends
    /// before that turn.
    pub(super) fn of_next_turn(body: &Value) -> Self {
        let mut prefix = TurnPrefix::new(body);
        let mut turns = merged(body);
        if turns.last().is_some_and(|last| last.role == "model") {
            turns.pop();
        }
        for turn in &turns {
            prefix.push(turn);
        }
        prefix
    }

    fn push(&mut self, turn: &MergedContent<'_>) {
        for (_, _, part) in &turn.parts {
            let Some(form) = canonical_form(part) else {
                continue;
            };
            let is_text = part.get("text").is_some();
            if self.role != turn.role {
                self.hasher.update([1]);
                self.hasher.update(turn.role);
                turn.role.clone_into(&mut self.role);
                self.in_text = false;
            }
            if !(is_text && self.in_text) {
                self.hasher.update([2]);
            }
            self.in_text = is_text;
            self.hasher.update(form);
        }
    }

    /// Signs a part of the turn that begins here. Even two equal calls never get the same signature.
    pub(super) fn sign(&self, part: &Value) -> String {
        let id = field(part, "functionCall").and_then(|call| call.get("id")?.as_str());
        let signature = self.signature(part);
        id.map_or(signature, |id| signature.with_nonce(id)).write()
    }

    fn signature(&self, part: &Value) -> Signature {
        let content = field(part, "functionCall").map_or_else(|| "text".to_owned(), canonical_call);
        Signature::new(&content, &self.hasher)
    }
}

/// Checks a transcript against the rules for signatures.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let turns = merged(&request.body);
    let current = current_turn(&turns);
    let required = !WITHOUT_SIGNATURES
        .iter()
        .any(|old| model(request).starts_with(old));
    let mut prefix = TurnPrefix::new(&request.body);
    for (at, turn) in turns.iter().enumerate() {
        if turn.role == "model" {
            if at >= current && required {
                check_first_call(turn, findings);
            }
            check_given(turn, &prefix, at >= current, findings);
        }
        prefix.push(turn);
    }
}

/// Index of the turn that begins the current one: the last user turn without tool results.
fn current_turn(turns: &[MergedContent<'_>]) -> usize {
    let begins = |turn: &MergedContent<'_>| turn.role == "user" && turn.all("functionResponse").is_empty();
    turns.iter().rposition(begins).unwrap_or(0)
}

fn check_first_call(turn: &MergedContent<'_>, findings: &mut Findings<'_>) {
    if let Some(((n, _, part), call)) = turn.all("functionCall").first()
        && field(part, "thoughtSignature").is_none()
    {
        let name = call.get("name").and_then(Value::as_str).unwrap_or("");
        findings.add(
            Rule::Signature,
            format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
                 work correctly, and missing thought_signature may lead to degraded model performance. Additional \
                 data, function call `default_api:{name}` , position {}.",
                n + 1
            ),
        );
    }
}

/// The real API ignores signatures of older turns, unless they have moved.
fn check_given(turn: &MergedContent<'_>, prefix: &TurnPrefix, current: bool, findings: &mut Findings<'_>) {
    for (n, m, part) in &turn.parts {
        let Some(given) = field(part, "thoughtSignature").and_then(Value::as_str) else {
            continue;
        };
        let place = format!("contents[{n}].parts[{m}]");
        let here = prefix.signature(part);
        match Signature::read(given) {
            None if PLACEHOLDERS.contains(&given) || !current => {}
            None => findings.add(
                Rule::ForeignThinking,
                format!("Corrupted thought signature. ({place}: not made by this provider)"),
            ),
            Some(made) if !made.same_content(&here) => findings.add(
                Rule::Signature,
                format!("Corrupted thought signature. ({place}: made for another part)"),
            ),
            Some(made) if !made.same_prefix(&here) => findings.add(
                Rule::ReasoningPrefix,
                format!(
                    "The thought signature of {place} stands behind another prefix than it was made for: system, \
                     tools or earlier contents differ."
                ),
            ),
            Some(_) => {}
        }
    }
}
