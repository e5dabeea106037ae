//! Excerpts: lines about an outcome, errors, first lines, sentences. None is unbounded.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::words::WORDS;
use crate::text::cut::{ceil, floor};
pub(crate) use crate::text::prose::one_line;
pub(crate) use crate::text::prose::{cut, pieces, sentences};
use crate::text::tokens::beginning;

/// Maximum length of a line in bytes; longer ones are cut.
pub(crate) const LINE: usize = 200;

/// Maximum size of a result or a command in bytes; only the beginning and end of longer ones are examined.
pub(super) const RESULT: usize = 64 * 1024;

/// Bytes of a review that are searched for its score.
const SCORED: usize = 64 * 1024;

/// Number of similar lines above which only the first and the last are kept.
const ALIKE: usize = 3;

/// The first line with any letter or digit, cut to this many bytes.
pub(crate) fn first_line(text: &str, bytes: usize) -> &str {
    cut(content_lines(text).next().unwrap_or_default(), bytes)
}

/// At most this many tokens of a string, with a mark where it was cut.
pub(crate) fn within(text: &str, tokens: usize) -> Cow<'_, str> {
    let text = text.trim();
    match beginning(text, tokens) {
        all if all.len() == text.len() => Cow::Borrowed(text),
        begins => Cow::Owned(format!("{begins} […]")),
    }
}

/// The beginning and end of a string that is longer than this many bytes.
pub(crate) fn bounded(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    let (head, tail) = (floor(text, bytes / 2), ceil(text, text.len() - bytes / 2));
    format!("{}\n[…]\n{}", &text[..head], &text[tail..]).into()
}

/// Up to three lines about an outcome: the first one and the last two.
pub(crate) fn outcome(text: &str) -> Vec<String> {
    let lines = || content_lines(text);
    let last: Vec<&str> = lines().rev().take(3).collect();
    let picked: Vec<&str> = match (lines().next(), &last[..]) {
        (Some(first), [last, before, _]) => vec![first, before, last],
        _ => last.into_iter().rev().collect(),
    };
    picked
        .into_iter()
        .map(|line| cut(line, LINE).to_owned())
        .collect()
}

/// The last lines of an output.
pub(crate) fn tail(text: &str) -> Vec<String> {
    const MAX_LINES: usize = 20;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
    last.iter()
        .map(|line| cut(line.trim_end(), LINE).to_owned())
        .collect()
}

/// The total score of a review, in tenths: the number that closely follows the first possible "total".
pub(crate) fn score(text: &str) -> Option<u32> {
    /// Maximum distance in bytes between the word and its number.
    const NEAR: usize = 40;
    let small = text[..floor(text, SCORED)].to_ascii_lowercase();
    small.match_indices("total").find_map(|(at, word)| {
        let after = at + word.len();
        let near = &small[after..floor(&small, after + NEAR)];
        let near = near.lines().next().unwrap_or_default();
        let number = &near[near.find(|c: char| c.is_ascii_digit())?..];
        let end = number
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(number.len());
        let value: f32 = number[..end].trim_end_matches('.').parse().ok()?;
        // A number above ten is not a score, so the next `total` is tried.
        (0.0..=10.0)
            .contains(&value)
            .then_some((value * 10.0).round() as u32)
    })
}

pub(crate) fn content_lines(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| line.contains(char::is_alphanumeric))
}

/// Whether a result states at its start or end that it failed.
///
/// Some wires and tools have no other way to report a failure.
pub(crate) fn looks_failed(text: &str) -> bool {
    let start = text.trim_start();
    // Only the start of the result, because its text may speak of errors.
    let start = start[..floor(start, 24)].to_ascii_lowercase();
    WORDS.failed_first.iter().any(|begins| start.starts_with(begins)) || is_trace(text)
}

/// Whether a string is a patch.
pub(crate) fn is_diff(text: &str) -> bool {
    text.starts_with("diff --git") || text.starts_with("--- ") || text.contains("\n@@ -")
}

/// Whether a string contains a stack trace.
pub(crate) fn is_trace(text: &str) -> bool {
    // A search for all at once takes longer: their rarest bytes are frequent in results.
    const TRACES: [&str; 3] = ["Traceback (most recent call last)", "' panicked at ", "\n    at "];
    let mut traces = TRACES.iter();
    traces.any(|trace| memchr::memmem::find(text.as_bytes(), trace.as_bytes()).is_some())
}

/// The beginning and end of a string, with runs of similar lines shortened.
pub(crate) fn both_ends(text: &str, bytes: usize) -> String {
    bounded(&collapsed(text), bytes).into_owned()
}

/// Shortens runs of similar lines, such as progress bars and logs, to the first and the last line.
fn collapsed(text: &str) -> String {
    /// Number of leading characters, digits excluded, that make lines similar.
    const SAME: usize = 12;
    let key = |line: &str| -> String {
        let letters = line.trim_start().chars().filter(|c| !c.is_ascii_digit());
        letters.take(SAME).collect()
    };
    // A progress bar overwrites its line with carriage returns; only its last state counts.
    let lines: Vec<&str> = text.lines().flat_map(|line| line.rsplit('\r').next()).collect();
    let mut out = String::with_capacity(text.len().min(8192));
    let mut at = 0;
    while at < lines.len() {
        let first = key(lines[at]);
        let alike = lines[at..]
            .iter()
            .take_while(|line| !first.is_empty() && key(line) == first);
        let run = alike.count().max(1);
        match &lines[at..at + run] {
            [first, .., last] if run > ALIKE => {
                out.push_str(&format!("{first}\n[{} lines like it]\n{last}\n", run - 2));
            }
            all => all.iter().for_each(|line| out.extend([line, "\n"])),
        }
        at += run;
    }
    out.truncate(out.trim_end().len());
    out
}

/// At most three lines of an error.
///
/// These are lines that mention an error, including the line that completes an unfinished one (`panicked at a.rs:3:`).
/// Without such lines, the last lines are the best hint.
pub(crate) fn quoted(text: &str) -> Vec<String> {
    const MAX_LINES: usize = 3;
    let text = streams(text);
    let mut lines: Vec<&str> = content_lines(&text).collect();
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
    let found = content_lines(text)
        .rev()
        .filter(|line| has_effect(line))
        .take(MAX_LINES);
    let mut found: Vec<String> = found.map(|line| cut(line, LINE).to_owned()).collect();
    found.reverse();
    found
}

fn has_effect(line: &str) -> bool {
    let line = cut(line, LINE);
    let small = line.to_ascii_lowercase();
    let mut all = words(&small);
    all.any(|word| WORDS.effects.contains(&word)) && names(line).next().is_some()
}

/// The words of a string, without punctuation.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let cut = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\''));
    text.split(cut).filter(|word| !word.is_empty())
}

/// The words of a string that name something: identifiers, paths, numbers.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let cut = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':'));
    let all = text
        .split(cut)
        .map(|word| word.trim_matches(['.', '-', '/', ':']));
    all.filter(|word| word.len() > 2 && word.contains(|c: char| !c.is_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_its_first_line_and_its_last_two() {
        assert_eq!(outcome("one\n\ntwo\nthree\nfour"), ["one", "three", "four"]);
    }

    #[test]
    fn the_end_of_an_output_and_the_total_of_a_review_are_found() {
        let long: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let end = tail(&long);
        assert_eq!(
            (end.len(), end[0].as_str(), end[19].as_str()),
            (20, "line 20", "line 39")
        );
        for (text, tenths) in [
            ("# Review\nTotal: 6.5/10", Some(65)),
            ("| total | 8 |", Some(80)),
            ("{\"total\": 3}", Some(30)),
            ("In total 300 files", None),
            ("Totally fine", None),
        ] {
            assert_eq!(score(text), tenths, "{text}");
        }
    }

    #[test]
    fn like_lines_are_shortened() {
        let log = (0..60)
            .map(|n| format!("Downloading {n} %\n"))
            .collect::<String>()
            + "done";
        assert_eq!(
            both_ends(&log, 500),
            "Downloading 0 %\n[58 lines like it]\nDownloading 59 %\ndone"
        );
        let cut = both_ends(&"äöü beginning ".repeat(100), 50);
        assert!(cut.contains("[…]") && cut.len() < 70, "{cut}");
    }
}

#[cfg(test)]
mod errors_tests {
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
