//! Renders a document as Markdown, using its fields only.

use std::fmt::Write as _;

use super::{
    ContextTokens, FailedAttempt, HandoffDocument, HandoffSize, NO_NEXT_ACTION, Prerequisite, Risk,
    VerdictPointer,
};
use crate::agents::todo::TodoItem;
use crate::text::prose::joined as line;
use crate::work::lines::{code, exit, longest_fence, place, statement};
use crate::work::{SeenClaim, SeenVerification};

/// Heading of the carry-over prompt, which comes last because it may contain anything.
pub(super) const PROMPT: &str = "## Carry-over prompt";

pub(super) fn of(document: &HandoffDocument) -> String {
    let what = match document.next_action {
        Some(_) => "Handoff",
        None => "Status report",
    };
    let (id, status, made) = (document.id, document.status.name(), &document.created_at);
    let mut out = format!("# {what} {id}\n\n{status}, made {made}.\n");
    section("Summary", vec![line(&document.summary)], &mut out);
    let none = || format!("**{NO_NEXT_ACTION}**");
    let next = document.next_action.as_deref().map_or_else(none, line);
    section("Next action", vec![next], &mut out);
    list("Open risks", &document.open_risks, risk, &mut out);
    list(
        "Verification",
        &document.verification,
        SeenVerification::line,
        &mut out,
    );
    list("Claims that nothing proves", &document.claims, claim, &mut out);
    list(
        "Changed files",
        &document.changed_files,
        |file| file.line(true),
        &mut out,
    );
    section("Commands", commands(document), &mut out);
    list("Failed attempts", &document.failed_attempts, attempt, &mut out);
    list("To do", &document.todo, todo, &mut out);
    list("Decisions", &document.decisions, statement, &mut out);
    list(
        "Assumptions to validate",
        &document.assumptions_to_validate,
        statement,
        &mut out,
    );
    list(
        "Questions for a human",
        &document.questions_for_human,
        statement,
        &mut out,
    );
    list("Prerequisites", &document.prerequisites, prerequisite, &mut out);
    section("Verdicts", verdicts(&document.verdict_pointer), &mut out);
    section("Origin", origin(document), &mut out);
    prompt(document, &mut out);
    out
}

fn section(heading: &str, lines: Vec<String>, out: &mut String) {
    if !lines.is_empty() {
        let _ = write!(out, "\n## {heading}\n\n{}\n", lines.join("\n"));
    }
}

fn list<T>(heading: &str, all: &[T], item: fn(&T) -> String, out: &mut String) {
    section(
        heading,
        all.iter().map(|one| format!("- {}", item(one))).collect(),
        out,
    );
}

fn risk(risk: &Risk) -> String {
    format!("**{}** {}", risk.severity.name(), line(&risk.detail))
}

fn claim(claim: &SeenClaim) -> String {
    let (text, why) = (line(&claim.text), line(&claim.why));
    format!("**{}** {text} ({why})", claim.status.name())
}

fn todo(todo: &TodoItem) -> String {
    format!("[{}] {}", todo.state.name(), line(&todo.text))
}

fn commands(document: &HandoffDocument) -> Vec<String> {
    let mut lines = Vec::new();
    for run in &document.commands_run {
        let who = if run.by_user { ", run by the user" } else { "" };
        let (command, how) = (code(&run.command), exit(run.exit));
        lines.push(format!("- {command}: {how}{who}{}", place(run.turn, run.call)));
        // Indented, so that none of it is read as Markdown.
        lines.extend(run.output.iter().map(|output| format!("      {}", line(output))));
    }
    let more = document.commands_left_out;
    lines.extend((more > 0).then(|| format!("- {more} more are in the journal")));
    lines
}

fn attempt(attempt: &FailedAttempt) -> String {
    let place = place(attempt.turn, attempt.call);
    match attempt.why.is_empty() {
        true => line(&attempt.tried) + &place,
        false => format!("{}{place}: {}", code(&attempt.tried), line(&attempt.why)),
    }
}

fn prerequisite(one: &Prerequisite) -> String {
    format!("{} {}", one.kind.name(), code(&one.what))
}

fn verdicts(all: &VerdictPointer) -> Vec<String> {
    let all = [("verification", &all.verification), ("review", &all.review)].into_iter();
    let there = all.filter_map(|(name, pointer)| {
        let pointer = pointer.as_ref()?;
        let missing = if pointer.missing { " (missing)" } else { "" };
        Some(format!("- {name}: {}{missing}", code(&pointer.path)))
    });
    there.collect()
}

fn origin(document: &HandoffDocument) -> Vec<String> {
    let parent = document.parent.map(|id| id.to_string()).unwrap_or_default();
    let context = document.context.map(context).unwrap_or_default();
    let all: [(&str, &str); 15] = [
        ("repository", &document.repository),
        ("branch", &document.branch),
        ("last known good commit", &document.last_known_good_commit),
        ("topic", &document.topic),
        ("conversation", &document.conversation),
        ("parent", &parent),
        ("exchange", document.exchange.as_deref().unwrap_or_default()),
        ("begun by", &document.origin),
        ("wire", &document.wire),
        ("model", document.model.as_deref().unwrap_or_default()),
        ("turns", &document.turns.to_string()),
        ("context", &context),
        ("tokens (estimated)", &sizes(document.tokens)),
        ("bytes", &sizes(document.bytes)),
        ("format", &document.version.to_string()),
    ];
    let given = all.into_iter().filter(|(_, value)| !value.is_empty());
    given
        .map(|(name, value)| format!("- {name}: {}", line(value)))
        .collect()
}

fn context(context: ContextTokens) -> String {
    match context.window {
        Some(window) => format!("{} of {window} tokens used", context.used),
        None => format!("{} tokens used", context.used),
    }
}

fn sizes(size: HandoffSize) -> String {
    format!("{} before, {} after", size.before, size.after)
}

fn prompt(document: &HandoffDocument, out: &mut String) {
    let fence = fence(&document.prompt);
    let _ = write!(out, "\n{PROMPT}\n\n{fence}\n{}\n{fence}\n", document.prompt);
}

/// A fence that no line of the content can close.
pub fn fence(text: &str) -> String {
    "`".repeat(longest_fence(text).max(2) + 1)
}
