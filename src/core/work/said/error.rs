//! The error that a pasted trace or output is about.

use crate::text::prose::cut;

/// Maximum size of an error in bytes.
const MAX_ERROR_BYTES: usize = 200;

/// An error in the pasted part of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PastedError {
    pub(crate) text: String,
    /// The typed line before the error, or else the first one after it.
    pub(crate) beside: String,
}

impl PastedError {
    /// Finds the error in the lines of `text` that are not in `typed`, which are slices of it. `None` if there is none.
    ///
    /// The last one counts in a trace of Python, which ends with its error, and otherwise the first.
    pub(crate) fn find(text: &str, typed: &[&str]) -> Option<Self> {
        let at = |line: &str| line.as_ptr() as usize;
        let mut own = typed.iter().peekable();
        let mut beside: Option<&str> = None;
        let mut found: Option<(Self, usize)> = None;
        let mut lines = text.lines().peekable();
        let is_last = text.contains(TRACEBACK);
        while let Some(line) = lines.next() {
            let end = at(line) + line.len();
            if let Some(own) = own.next_if(|own| at(own) <= end) {
                beside = Some(own);
                continue;
            }
            if !is_error(line.trim()) || found.is_some() && !is_last {
                continue;
            }
            // The message of a panic is on the next line.
            let next = lines.peek().filter(|_| line.trim_end().ends_with(':'));
            let text = [line.trim(), next.map_or("", |next| next.trim())].join(" ");
            let error = Self {
                text: cut(text.trim_end(), MAX_ERROR_BYTES).to_owned(),
                beside: beside.unwrap_or_default().to_owned(),
            };
            found = Some((error, end));
        }
        let (mut error, end) = found?;
        if error.beside.is_empty() {
            let after = typed.iter().find(|own| at(own) > end);
            error.beside = after.map_or("", |own| own).to_owned();
        }
        Some(error)
    }
}

/// First line of a trace of Python.
const TRACEBACK: &str = "Traceback (most recent call last)";

/// Whether a printed line names an error: `TypeError: …`, `thread 'main' panicked at …`, `E   AssertionError`, `error[E0308]: …`.
fn is_error(line: &str) -> bool {
    let line = line.trim_start_matches(['❌', '✖', '×', '⨯', '●', ' ']);
    let line = line.strip_prefix("E  ").map_or(line, str::trim_start);
    let line = line.strip_prefix("Uncaught ").unwrap_or(line);
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let name = first.trim_end_matches(':');
    let is_name = name.ends_with("Error") || name.ends_with("Exception");
    // `Error` by itself is a word of many sentences.
    is_name && (first.ends_with(':') || rest.is_empty() && name.len() > "Exception".len())
        || matches!(first, "error:" | "ERROR:" | "fatal:" | "panic:")
        || first.starts_with("error[")
        || line.contains("' panicked at ")
        || line.starts_with("Exception in thread ")
        || line.contains(": error ") && rest.contains(':')
}

#[cfg(test)]
mod tests {
    use super::super::typed;
    use super::*;

    #[test]
    fn the_error_of_a_paste_is_found_with_the_typed_line_beside_it() {
        let traces = "Traceback (most recent call last):\n  File \"hall.py\", line 12, in open\n    self.door()\nValueError: the key is empty\n\n\
                      During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  \
                      File \"lamp.py\", line 7, in light\n    raise LampError()\nhall.LampError: no light\n";
        for (text, error, beside) in [
            (
                "It fails when I open it:\n\nTypeError: door is undefined\n    at Hall.open (hall.js:12:3)\n\nMend it.",
                "TypeError: door is undefined",
                "It fails when I open it:",
            ),
            (
                &format!("Open the hall.\n{traces}\nMend it."),
                "hall.LampError: no light",
                "Open the hall.",
            ),
            (
                &format!("{traces}\nMend the lamp."),
                "hall.LampError: no light",
                "Mend the lamp.",
            ),
            (
                "I get\n```\nthread 'main' panicked at src/hall.rs:12:5:\nno key\n```",
                "thread 'main' panicked at src/hall.rs:12:5: no key",
                "I get",
            ),
            (
                "Look:\n```\n    def test_door():\n>       assert door\nE       AssertionError: no door\n```\nWhy?",
                "E       AssertionError: no door",
                "Look:",
            ),
            (
                "Mend it.\n```\nerror[E0308]: mismatched types\n --> src/hall.rs:3:5\nerror: aborting\n```",
                "error[E0308]: mismatched types",
                "Mend it.",
            ),
        ] {
            let found = PastedError::find(text, &typed(text));
            let found = found.unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*found.text, &*found.beside), (error, beside), "{text}");
        }
    }

    #[test]
    fn typed_words_and_other_output_have_none() {
        for text in [
            "The Error is gone. Error handling works.",
            "It prints\n```\nhall open\n0 errors\n```\nWhy?",
            "Rename it:\n```\nclass LampError(Exception):\n    pass\n```",
        ] {
            assert_eq!(PastedError::find(text, &typed(text)), None, "{text}");
        }
    }
}
