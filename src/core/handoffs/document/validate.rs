//! Checks that a document's JSON and Markdown agree. The JSON takes precedence.

use super::markdown::{self, PROMPT};
use super::{HandoffDocument, HandoffKind, VERSION};
use crate::handoffs::field_error::FieldError;

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
        found.extend(differing(&markdown::of(&document), markdown));
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
        match found.iter().find(|(other, _)| other == heading) {
            None => differences.push(difference(
                heading,
                "is missing in the Markdown, and the JSON decides",
                "",
            )),
            Some((_, other)) if other.trim() != text.trim() => {
                let line = other
                    .lines()
                    .find(|line| !text.lines().any(|known| known == *line));
                let message = "differs in the Markdown, and the JSON decides";
                differences.push(difference(heading, message, line.unwrap_or_default()));
            }
            Some(_) => {}
        }
    }
    for (heading, text) in &found {
        if !expected.iter().any(|(known, _)| known == heading) {
            differences.push(difference(
                heading,
                "is only in the Markdown, and the JSON decides",
                text.trim(),
            ));
        }
    }
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
