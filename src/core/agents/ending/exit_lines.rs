//! Exit codes in plain text, as tools of any name write them.
//!
//! Examples are `[exit code: 1]`, `Exit Code: 1`, `exit status 1`, `Command failed with exit code 1: make`
//! and `… returned non-zero exit status 1.` Programs whose output ends with known lines are in
//! `runners.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::agents::commands::CommandPurpose;
use crate::agents::outcomes::WORDINGS;
use crate::text::table;

/// Number of lines at the end that may hold the exit code. Lines after it may label a signal, a duration or a
/// directory.
const LAST: usize = 6;

/// Maximum length of such a line in bytes. A longer line is output.
const LONGEST: usize = 400;

/// Maximum number of words in a line that labels something other than an exit code.
const LABEL_WORDS: usize = 4;

/// Python's `subprocess` words a failure like this, after the command.
const NON_ZERO: &str = "returned non-zero exit status ";

/// A line that states an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExitLine {
    /// The exit code; `None` if it belongs to another command, so that it only proves a failure.
    pub(super) code: Option<i32>,
    /// Whether the line comes before the output.
    pub(super) is_first: bool,
    /// Whether the line is worded `exit status N`.
    pub(super) is_status: bool,
}

/// Finds the exit code in the first line, or in one of the last.
pub(super) fn read(text: &str) -> Option<ExitLine> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(line) = exit_line(lines().next()?) {
        return Some(ExitLine {
            is_first: true,
            ..line
        });
    }
    for line in lines().rev().take(LAST) {
        if let Some(found) = exit_line(line) {
            // A Python traceback states the code of the command that failed inside the program.
            let traced = found.is_status && line.contains("CalledProcessError");
            let code = found.code.filter(|_| !traced);
            return Some(ExitLine { code, ..found });
        }
        if !is_label(line) {
            return None;
        }
    }
    None
}

/// Whether a line may follow an exit code: `Signal: (none)`, `Duration: 2 s`, `</output>` or `---`.
fn is_label(line: &str) -> bool {
    let named = line.split_once(':').map(|(name, _)| name);
    let short = named.is_some_and(|name| {
        name.split_whitespace().count() <= LABEL_WORDS && name.starts_with(|c: char| c.is_ascii_uppercase())
    });
    short || line.starts_with("</") && line.ends_with('>') || !line.contains(|c: char| c.is_alphanumeric())
}

fn exit_line(line: &str) -> Option<ExitLine> {
    if line.len() > LONGEST {
        return None;
    }
    let small = line.to_ascii_lowercase();
    let (code, is_status) = match small.find(NON_ZERO) {
        Some(at) => (number(&small[at + NON_ZERO.len()..], true)?, true),
        None => (worded(&small)?, small.contains("exit status")),
    };
    Some(ExitLine {
        code: Some(code),
        is_first: false,
        is_status,
    })
}

/// Reads words that name an exit code, and the number after them.
fn worded(line: &str) -> Option<i32> {
    let bare = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let bare = bare
        .strip_prefix("exit_code>")
        .map_or_else(|| bare.to_owned(), |rest| format!("exit_code {rest}"));
    let digits = bare.find(|c: char| c.is_ascii_digit())?;
    // A hyphen directly before the digits is their sign.
    let begins = digits - usize::from(bare[..digits].ends_with('-'));
    let (words, rest) = bare.split_at(begins);
    let mut named = false;
    let mut is_exit = false;
    let mut carries = false;
    let each = words.split([' ', ':', '=', '(', '[']);
    for word in each.filter(|word| !word.is_empty()) {
        is_exit |= word.starts_with("exit") || word.starts_with("return") || word == "rc";
        let is_name = WORDINGS.exit_names.contains(&word);
        named |= is_name;
        // With these words the line reports an end even without the word `exit`.
        carries |= matches!(word, "command" | "process" | "failed");
        // Any other word makes it a sentence about something else, such as "expected exit code 1".
        if !(is_name || WORDINGS.before_exit.contains(&word) || word == "exit" || word == "return") {
            return None;
        }
    }
    let named = named || carries && words.trim_end().ends_with("with");
    let counts = named && (is_exit || carries);
    counts.then(|| number(rest, carries)).flatten()
}

/// Parses the number at the start, if only punctuation follows. After a colon, the command may follow.
fn number(text: &str, carries: bool) -> Option<i32> {
    let (digits, rest) = number_prefix(text);
    let ends = rest.is_empty()
        || carries && rest.starts_with(':')
        || rest.starts_with("</")
        || !rest.contains(|c: char| c.is_alphanumeric()) && !rest.starts_with('-');
    ends.then(|| digits.parse().ok()).flatten()
}

/// Splits the leading digits, with their sign, from the rest.
pub(in crate::agents) fn number_prefix(text: &str) -> (&str, &str) {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    text.split_at(text.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len())
}

/// A program and its closing lines, as regular expressions over lines without colors and with single spaces.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runner {
    #[allow(dead_code, reason = "names the row; the tests hold one sample to each")]
    pub(super) name: &'static str,
    /// Purpose of a run that passes.
    pub(super) purpose: CommandPurpose,
    /// Whether the program closes each part of its work. A failure then counts even if later parts pass.
    #[serde(default)]
    pub(super) by_parts: bool,
    /// A line that must come before those of `passed` for them to count.
    pub(super) opens: Option<&'static str>,
    /// Lines that close a successful run.
    #[serde(default)]
    pub(super) passed: Vec<&'static str>,
    /// Lines that close a failed run.
    #[serde(default)]
    pub(super) failed: Vec<&'static str>,
}

pub(super) static RUNNERS: LazyLock<Vec<Runner>> =
    LazyLock::new(|| table::rows(include_str!("runners.toml")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_forms_are_read_at_the_start_and_at_the_end() {
        for (text, code) in [
            ("out\n[exit code: 101]", 101),
            ("out\n\n[Exit code: 0]\n", 0),
            ("Exit Code: 2\nout", 2),
            ("out\nExit Code: 2\nSignal: (none)\nBackground PIDs: (none)", 2),
            ("out\nexit status 3", 3),
            ("out\n(exit status: 3)", 3),
            ("Command 'make' returned non-zero exit status 2.", 2),
            ("Command failed with exit code 1: pnpm test", 1),
            ("out\nCommand exited with code 1", 1),
            ("Process exited with code 4\nOutput:\nx", 4),
            ("out\nProcess finished with exit code 5", 5),
            ("<output>x</output>\n<exit_code>6</exit_code>", 6),
            ("out\nexit_code=7", 7),
            ("out\nreturn code: -9", -9),
            ("exited with code 8", 8),
            ("out\n--- exit code: 1 ---", 1),
        ] {
            assert_eq!(read(text).map(|line| line.code), Some(Some(code)), "{text}");
        }
        let traced = "Traceback (most recent call last):\nsubprocess.CalledProcessError: Command '['make']' returned non-zero \
             exit status 2.";
        assert_eq!(read(traced).map(|line| line.code), Some(None));
    }

    #[test]
    fn what_only_mentions_a_code_is_none() {
        for text in [
            "",
            "exit code 3 of 4 programs",
            "The exit code 1 means that nothing was found.",
            "[exit code: 1]\nno, that was quoted\nand more text\nthat ends otherwise"
                .trim_start_matches("[exit code: 1]\n"),
            "a\n[exit code: 1]\nb\nc",
            "status 200",
            "code: 404",
            "HTTP status: 500",
            "exit code: 1-2",
            "done with 3",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
