//! Excerpts of an error: the lines that describe it.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::excerpt::{LINE, content_lines, cut};
use super::markers;
use super::words::WORDS;

/// At most three lines of an error.
///
/// These are lines that mention an error, including the line that completes an unfinished one (`panicked at a.rs:3:`).
/// Without such lines, the last lines are the best hint.
pub(crate) fn quoted(text: &str) -> Vec<String> {
    const MAX_LINES: usize = 3;
    let text = streams(text);
    let mut lines = content_lines(&text);
    // The exit code is shown separately, and a label without a value has no content.
    let says_nothing = |line: &str| has_exit_code(line) || line.ends_with("(none)");
    if lines.iter().any(|line| !says_nothing(line)) {
        lines.retain(|line| !says_nothing(line));
    }
    let mut chosen: Vec<usize> = Vec::new();
    for at in (0..lines.len()).filter(|at| has_error(lines[*at])) {
        chosen.push(at);
        // Rust's `panicked at a.rs:3:` has the message on the next line.
        if lines[at].ends_with(':') && at + 1 < lines.len() {
            chosen.push(at + 1);
        }
        chosen.dedup();
        if chosen.len() >= MAX_LINES {
            break;
        }
    }
    // The last line of a trace names the error.
    let is_trace = chosen.iter().any(|at| is_trace_head(lines[*at]));
    let closes = is_trace.then(|| lines.len() - 1);
    chosen.truncate(MAX_LINES - usize::from(closes.is_some()));
    chosen.extend(closes.filter(|at| !chosen.contains(at)));
    if chosen.is_empty() {
        chosen = hints(&lines, MAX_LINES);
    }
    let chosen = chosen.into_iter();
    chosen.map(|at| cut(lines[at], LINE).to_owned()).collect()
}

/// For lines without an error: those with a negation and the last ones, each wording once.
fn hints(lines: &[&str], most: usize) -> Vec<usize> {
    let mut seen = HashSet::new();
    let once: Vec<usize> = (0..lines.len()).filter(|at| seen.insert(lines[*at])).collect();
    let denies = |at: &&usize| WORDS.denies.occur_in(cut(lines[**at], LINE));
    let mut chosen: Vec<usize> = once.iter().filter(denies).take(most).copied().collect();
    let mut last = once.iter().rev().copied().filter(|at| !chosen.contains(at));
    let mut more: Vec<usize> = last.by_ref().take(most - chosen.len()).collect();
    chosen.append(&mut more);
    chosen.sort_unstable();
    chosen
}

fn is_trace_head(line: &str) -> bool {
    line.starts_with("Traceback (most recent call last)")
}

/// Whether a line states an exit code and nothing else.
fn has_exit_code(line: &str) -> bool {
    let small = cut(line, LINE).to_ascii_lowercase();
    let bare = small.trim_start_matches(|c: char| !c.is_alphanumeric());
    let digits = bare.len() - bare.bytes().filter(u8::is_ascii_digit).count();
    (bare.starts_with("exit code") || bare.starts_with("exit status")) && digits < 24 && digits < bare.len()
}

/// The output of a command from a tool's JSON object, or the text itself.
fn streams(text: &str) -> Cow<'_, str> {
    const MEMBERS: [&str; 6] = ["stdout", "output", "stderr", "error", "message", "result"];
    let trimmed = text.trim();
    if !(trimmed.starts_with('{') && trimmed.ends_with('}')) {
        return Cow::Borrowed(text);
    }
    let Ok(Value::Object(members)) = serde_json::from_str::<Value>(trimmed) else {
        return Cow::Borrowed(text);
    };
    let named = MEMBERS.iter().filter_map(|name| members.get(*name)?.as_str());
    let named: Vec<&str> = named.filter(|named| !named.is_empty()).collect();
    match named.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(named.join("\n")),
    }
}

/// Whether a line mentions an error. Counts of zero (`0 failed`) do not.
fn has_error(line: &str) -> bool {
    let line = cut(line, LINE);
    WORDS.errors.occur_in(line) && !WORDS.no_errors.occur_in(line)
}

/// Maximum number of kept lines; the last ones are kept.
const MAX_LINES: usize = 3;

/// The lines of an output that report something created, changed or started, by name or number.
pub(crate) fn named(text: &str) -> Vec<String> {
    let lines = content_lines(text);
    let found = lines.iter().rev().filter(|line| has_effect(line)).take(MAX_LINES);
    let mut found: Vec<String> = found.map(|line| cut(line, LINE).to_owned()).collect();
    found.reverse();
    found
}

fn has_effect(line: &str) -> bool {
    let line = cut(line, LINE);
    let small = line.to_ascii_lowercase();
    let mut words = markers::words(&small);
    words.any(|word| WORDS.effects.contains(&word)) && markers::names(line).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_quoted_and_counts_of_none_are_not() {
        let log = "Compiling a\nerror[E0308]: mismatched types\n --> src/a.rs:3\nok\nerror: aborting";
        assert_eq!(quoted(log), ["error[E0308]: mismatched types", "error: aborting"]);
        assert!(!has_error("12 passed; 0 failed"));
        assert_eq!(quoted("a\nb\nc\nd"), ["b", "c", "d"]);
        assert_eq!(
            quoted("exit status 2\nx does not link\nb\nb\nb"),
            ["x does not link", "b"]
        );
        assert_eq!(
            quoted("x is missing\nError: (none)\nExit Code: 3"),
            ["x is missing"]
        );
        let panicked = "thread 'main' panicked at a.rs:3:5:\nx was empty\nnote: y\n[exit code: 101]";
        assert_eq!(
            quoted(panicked),
            ["thread 'main' panicked at a.rs:3:5:", "x was empty"]
        );
        let object = r#"{"stdout":"one","stderr":"x: no such target","exit_code":2}"#;
        assert_eq!(quoted(object), ["x: no such target"]);
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 3\n    run()\nKeyError: 'x'";
        assert_eq!(
            quoted(trace),
            [
                "Traceback (most recent call last):",
                "File \"a.py\", line 3",
                "KeyError: 'x'"
            ]
        );
    }
}

#[cfg(test)]
mod effects_tests {
    use super::*;

    #[test]
    fn lines_with_what_is_needed_later_are_found() {
        for line in [
            "applied migration 0042_users",
            "Applying shop.0007_cart... OK",
            "wrote src/gen/schema.rs",
            "Created docs/api.md",
            "Listening on http://localhost:3000",
            "server running at :8080",
            "[1] started, pid 4242",
            "Container app-db-1  Started",
            "deployed release v1.2.3 to staging",
        ] {
            assert_eq!(named(&format!("x\n{line}\nDone.")), [line], "{line}");
        }
        for line in [
            "Done in 3 s",
            "nothing to do",
            "Compiling foo v0.1.0",
            "applied all",
            "",
        ] {
            assert!(named(line).is_empty(), "{line}");
        }
        let many: String = (0..9).map(|n| format!("applied 00{n}0_a\n")).collect();
        assert_eq!(
            named(&many),
            ["applied 0060_a", "applied 0070_a", "applied 0080_a"]
        );
    }
}
