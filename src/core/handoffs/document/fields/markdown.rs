//! Renders a document as Markdown, from its fields alone.

use std::fmt::Write as _;

use super::{ContextTokens, HandoffDocument, HandoffSize, NO_NEXT_ACTION, Verification};
use crate::handoffs::draft::seen::SeenStatement;

/// Everything above the carry-over prompt, which comes last since it may contain anything.
pub(super) const PROMPT: &str = "## Carry-over prompt";

pub(super) fn of(document: &HandoffDocument) -> String {
    let mut out = String::new();
    head(document, &mut out);
    section("Summary", [line(&document.summary)], &mut out);
    match &document.next_action {
        Some(next) => section("Next action", [line(next)], &mut out),
        None => section("Next action", [format!("**{NO_NEXT_ACTION}**")], &mut out),
    }
    section("Open risks", risks(document), &mut out);
    section("Verification", verification(document), &mut out);
    section("Claims that nothing proves", claims(document), &mut out);
    section("Changed files", files(document), &mut out);
    section("Commands", commands(document), &mut out);
    section("Failed attempts", attempts(document), &mut out);
    let todo = document
        .todo
        .iter()
        .map(|todo| format!("- [{}] {}", todo.state, line(&todo.text)));
    section("To do", todo, &mut out);
    section("Decisions", stated(&document.decisions), &mut out);
    let (assumed, questions) = (&document.assumptions_to_validate, &document.questions_for_human);
    section("Assumptions to validate", stated(assumed), &mut out);
    section("Questions for a human", stated(questions), &mut out);
    section("Prerequisites", prerequisites(document), &mut out);
    section("Verdicts", verdicts(document), &mut out);
    section("Origin", origin(document), &mut out);
    prompt(document, &mut out);
    out
}

fn head(document: &HandoffDocument, out: &mut String) {
    let what = match document.next_action {
        Some(_) => "Handoff",
        None => "Status report",
    };
    let _ = writeln!(out, "# {what} {}\n", document.id);
    let _ = writeln!(out, "{}, made {}.", document.status.name(), document.created_at);
}

fn section(heading: &str, lines: impl IntoIterator<Item = String>, out: &mut String) {
    let lines: Vec<String> = lines.into_iter().collect();
    if !lines.is_empty() {
        let _ = write!(out, "\n## {heading}\n\n{}\n", lines.join("\n"));
    }
}

fn risks(document: &HandoffDocument) -> Vec<String> {
    let risks = document.open_risks.iter();
    risks
        .map(|risk| format!("- **{}** {}", risk.severity.name(), line(&risk.detail)))
        .collect()
}

fn verification(document: &HandoffDocument) -> Vec<String> {
    let runs = document.verification.iter();
    runs.map(|run| {
        let since = match run.stale {
            Some(true) => "; files changed after it",
            Some(false) => "",
            None => "; files may have changed after it",
        };
        let (command, how, turn) = (code(&run.command), verified(run), run.turn);
        format!("- {command}: {how} (turn {turn}){since}")
    })
    .collect()
}

fn claims(document: &HandoffDocument) -> Vec<String> {
    let claims = document.claims.iter();
    claims
        .map(|claim| {
            format!(
                "- **{}** {} ({})",
                claim.verdict,
                line(&claim.claim),
                line(&claim.why)
            )
        })
        .collect()
}

fn files(document: &HandoffDocument) -> Vec<String> {
    let files = document.changed_files.iter();
    files
        .map(|file| {
            let why = file.why.as_ref().map(|why| format!(": {}", line(why)));
            format!(
                "- {} {}{}",
                code(&file.path),
                file.change,
                why.unwrap_or_default()
            )
        })
        .collect()
}

fn commands(document: &HandoffDocument) -> Vec<String> {
    let mut lines = Vec::new();
    for run in &document.commands_run {
        let who = if run.by_person { ", run by the person" } else { "" };
        let (command, how, turn) = (code(&run.command), ended(run.exit), run.turn);
        lines.push(format!("- {command}: {how} (turn {turn}{who})"));
        // Indented, so that nothing in it is read as Markdown.
        lines.extend(run.output.iter().map(|output| format!("      {}", line(output))));
    }
    if document.commands_left_out > 0 {
        lines.push(format!(
            "- {} more are in the journal",
            document.commands_left_out
        ));
    }
    lines
}

fn verified(run: &Verification) -> String {
    match (run.has_passed(), run.exit) {
        (Some(true), _) => "passed".to_owned(),
        (Some(false), None) => "**failed**, exit code unknown".to_owned(),
        (_, exit) => ended(exit),
    }
}

/// Exit code of a whole line: zero does not prove that each of its commands passed.
fn ended(exit: Option<i32>) -> String {
    match exit {
        Some(0) => "exit 0".to_owned(),
        Some(code) => format!("**exit {code}**"),
        None => "exit code unknown".to_owned(),
    }
}

fn attempts(document: &HandoffDocument) -> Vec<String> {
    let attempts = document.failed_attempts.iter();
    attempts
        .map(|attempt| match attempt.why.is_empty() {
            true => format!("- {}", line(&attempt.tried)),
            false => format!("- {}: {}", code(&attempt.tried), line(&attempt.why)),
        })
        .collect()
}

fn stated(all: &[SeenStatement]) -> Vec<String> {
    let shown = |stated: &SeenStatement| match stated.turn {
        0 => format!("- {}", line(&stated.text)),
        turn => format!("- {} (turn {turn})", line(&stated.text)),
    };
    all.iter().map(shown).collect()
}

fn prerequisites(document: &HandoffDocument) -> Vec<String> {
    let all = document.prerequisites.iter();
    all.map(|one| format!("- {} {}", one.kind.name(), code(&one.what)))
        .collect()
}

fn verdicts(document: &HandoffDocument) -> Vec<String> {
    let pointer = &document.verdict_pointer;
    let all = [
        ("verification", &pointer.verification),
        ("review", &pointer.review),
    ];
    let there = all
        .into_iter()
        .filter_map(|(name, pointer)| Some((name, pointer.as_ref()?)));
    there
        .map(|(name, pointer)| {
            let missing = if pointer.missing { " (missing)" } else { "" };
            format!("- {name}: {}{missing}", code(&pointer.path))
        })
        .collect()
}

fn origin(document: &HandoffDocument) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("- {name}: {}", line(value)));
        }
    };
    add("repository", &document.repository);
    add("branch", &document.branch);
    add("last known good commit", &document.last_known_good_commit);
    add("topic", &document.topic);
    add("conversation", &document.conversation);
    add(
        "parent",
        &document.parent.map(|id| id.to_string()).unwrap_or_default(),
    );
    add("exchange", document.exchange.as_deref().unwrap_or_default());
    add("begun by", &document.origin);
    add("wire", &document.wire);
    add("model", document.model.as_deref().unwrap_or_default());
    add("turns", &document.turns.to_string());
    add("context", &document.context.map(context).unwrap_or_default());
    add("tokens (estimated)", &sizes(document.tokens));
    add("bytes", &sizes(document.bytes));
    add("format", &document.version.to_string());
    lines
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
    // A fence that is longer than any in the prompt.
    let fence = "`".repeat(longest_fence(&document.prompt).max(2) + 1);
    let _ = write!(out, "\n{PROMPT}\n\n{fence}\n{}\n{fence}\n", document.prompt);
}

/// A text on one line.
/// The longest run of backticks.
fn longest_fence(text: &str) -> usize {
    let runs = text.split(|c: char| c != '`');
    runs.map(str::len).max().unwrap_or_default()
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text as code on one line.
fn code(text: &str) -> String {
    let text = line(text);
    match longest_fence(&text) {
        0 => format!("`{text}`"),
        longest => {
            let fence = "`".repeat(longest + 1);
            format!("{fence} {text} {fence}")
        }
    }
}
