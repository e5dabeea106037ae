//! A document as a carry-over prompt, and what is in front of it and behind it.

use std::borrow::Cow;

use super::goal::LABEL;

/// What is in front of a document.
const OPENS: &str = "<handoff-context>\n";

/// A document as a carry-over prompt. The text around it is always the same, since it is at the start of a prefix.
pub fn carried(document: &str) -> String {
    format!(
        "{OPENS}{}\n</handoff-context>\n\nThis comes from an earlier session; go on from it. Requests that it \
         calls done are done: do not run them again.",
        document.trim()
    )
}

/// The goal that leads the document of a carry-over prompt that [`carried`] made: its first line.
pub fn goal_of(prompt: &str) -> Option<&str> {
    let line = document_of(prompt)
        .lines()
        .next()
        .filter(|_| prompt.starts_with(OPENS))?;
    line.strip_prefix(LABEL)
}

/// The document of a carry-over prompt that [`carried`] made; the whole prompt where it is another.
pub fn document_of(prompt: &str) -> &str {
    let after = prompt.strip_prefix(OPENS);
    let inside = after.and_then(|after| after.split_once("\n</handoff-context>\n"));
    inside.map_or(prompt, |(document, _)| document)
}

/// What leads the person's last message behind a document.
const OPEN_MESSAGE: &str = "The person's last message, still to be answered:";

/// A carry-over prompt with the person's last message, which has no answer yet.
pub fn with_open_message(prompt: &str, message: &str) -> String {
    match message.trim() {
        "" => prompt.to_owned(),
        message => format!("{prompt}\n\n{OPEN_MESSAGE}\n\n{message}"),
    }
}

/// A carry-over prompt as a later document quotes it: its last message was answered since.
pub(super) fn as_quoted(prompt: &str) -> Cow<'_, str> {
    match prompt.contains(OPEN_MESSAGE) {
        true => prompt
            .replace(OPEN_MESSAGE, "The person's last message at that time:")
            .into(),
        false => prompt.into(),
    }
}
