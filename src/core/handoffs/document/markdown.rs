//! Renders a document as Markdown, using its fields only, and compares a Markdown file with its JSON.

use std::fmt::Write as _;

use super::{
    ContextTokens, FailedAttempt, HandoffDocument, HandoffKind, HandoffSize, NO_NEXT_ACTION, Prerequisite,
    Risk, VERSION, VerdictPointer,
};
use crate::handoffs::field_error::FieldError;
use crate::text::prose::joined as line;
use crate::work::lines::{code, longest_fence, place, statement};
use crate::work::{SeenClaim, SeenVerification};

/// Heading of the carry-over prompt, which comes last because it may contain anything.
pub(super) const PROMPT: &str = "## Carry-over prompt";

pub(super) fn of(document: &HandoffDocument) -> String {
    let what = match document.next_action {
        Some(_) => "Handoff",
        None => "Status report",
    };
    let (id, status, made) = (document.id, document.status.name(), &document.created_at);
    let mut page = Page(format!("# {what} {id}\n\n{status}, made {made}.\n"));
    page.section("Summary", vec![line(&document.summary)]);
    let none = || format!("**{NO_NEXT_ACTION}**");
    let next = document.next_action.as_deref().map_or_else(none, line);
    page.section("Next action", vec![next]);
    page.list("Open risks", &document.open_risks, risk);
    let runs = &document.verification;
    page.list("Verification", runs, SeenVerification::line);
    page.list("Claims that nothing proves", &document.claims, claim);
    let files = &document.changed_files;
    page.list("Changed files", files, |file| file.line(true));
    let doubtful = &document.doubtful_files;
    page.list("Files that may have changed since", doubtful, |file| {
        file.line(true)
    });
    page.section("Commands", commands(document));
    page.list("Failed attempts", &document.failed_attempts, attempt);
    page.list("To do", &document.todo, |todo| todo.line(usize::MAX));
    page.list("Decisions", &document.decisions, statement);
    let assumed = &document.assumptions_to_validate;
    page.list("Assumptions to validate", assumed, statement);
    let questions = &document.questions_for_human;
    page.list("Questions for a human", questions, statement);
    page.list("Prerequisites", &document.prerequisites, prerequisite);
    page.section("Verdicts", verdicts(&document.verdict_pointer));
    page.section("Origin", origin(document));
    let fence = fence(&document.prompt);
    page.0 + &format!("\n{PROMPT}\n\n{fence}\n{}\n{fence}\n", document.prompt)
}

/// The rendering so far.
struct Page(String);

impl Page {
    fn section(&mut self, heading: &str, lines: Vec<String>) {
        if !lines.is_empty() {
            let _ = write!(self.0, "\n## {heading}\n\n{}\n", lines.join("\n"));
        }
    }

    fn list<T>(&mut self, heading: &str, all: &[T], item: fn(&T) -> String) {
        let items = all.iter().map(|one| format!("- {}", item(one)));
        self.section(heading, items.collect());
    }
}

fn risk(risk: &Risk) -> String {
    format!("**{}** {}", risk.severity.name(), line(&risk.detail))
}

fn claim(claim: &SeenClaim) -> String {
    let (text, why) = (line(&claim.text), line(&claim.why));
    format!("**{}** {text} ({why})", claim.status.name())
}

fn commands(document: &HandoffDocument) -> Vec<String> {
    let mut lines = Vec::new();
    for run in &document.commands_run {
        lines.push(format!("- {}", run.line()));
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

/// A fence that no line of the content can close.
pub fn fence(text: &str) -> String {
    "`".repeat(longest_fence(text).max(2) + 1)
}

/// Maximum size of a displayed value in bytes.
const VALUE: usize = 120;

/// All errors of a document: in the JSON itself, and differences of the Markdown from it.
pub fn validate(json: &str, markdown: Option<&str>) -> Vec<FieldError> {
    let document = match serde_json::from_str::<HandoffDocument>(json) {
        Ok(document) => document,
        Err(error) => return vec![difference("", &error.to_string(), "")],
    };
    let mut found = Vec::new();
    if document.version != VERSION {
        let message = format!("this program writes version {VERSION}");
        found.push(difference("version", &message, &document.version.to_string()));
    }
    if document.kind != HandoffKind::from_next_action(document.next_action.as_deref()) {
        let message = "a handoff has a next_action, a status_report has none";
        found.push(difference("kind", message, &format!("{:?}", document.kind)));
    }
    if let Some(markdown) = markdown {
        found.extend(differing(&of(&document), markdown));
    }
    found
}

fn difference(field: &str, message: &str, value: &str) -> FieldError {
    FieldError::quoting(VALUE, field, message, value)
}

/// The sections that differ.
fn differing(expected: &str, found: &str) -> Vec<FieldError> {
    let (expected, found) = (parts(expected), parts(found));
    let mut differences = Vec::new();
    for (heading, text) in &expected {
        let (message, value) = match found.iter().find(|(other, _)| other == heading) {
            None => ("is missing in the Markdown, and the JSON decides", ""),
            Some((_, other)) if other.trim() != text.trim() => {
                let is_new = |line: &&str| !text.lines().any(|known| known == *line);
                let line = other.lines().find(is_new);
                (
                    "differs in the Markdown, and the JSON decides",
                    line.unwrap_or_default(),
                )
            }
            Some(_) => continue,
        };
        differences.push(difference(heading, message, value));
    }
    let is_known = |heading: &String| expected.iter().any(|(known, _)| known == heading);
    let added = found.iter().filter(|(heading, _)| !is_known(heading));
    let message = "is only in the Markdown, and the JSON decides";
    differences.extend(added.map(|(heading, text)| difference(heading, message, text.trim())));
    differences
}

/// The sections of a rendering, as heading and text. The content of the carry-over prompt is not examined.
fn parts(markdown: &str) -> Vec<(String, String)> {
    // The prompt comes last and may contain any heading, so nothing after its own heading is divided.
    let (before, prompt) = match markdown.find(PROMPT) {
        Some(at) => (&markdown[..at], Some(&markdown[at + PROMPT.len()..])),
        None => (markdown, None),
    };
    let mut all = vec![("head".to_owned(), String::new())];
    for line in before.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            all.push((heading.trim().to_owned(), String::new()));
        } else if let Some((_, text)) = all.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    all.extend(prompt.map(|text| (PROMPT.trim_start_matches("## ").to_owned(), text.to_owned())));
    all
}
