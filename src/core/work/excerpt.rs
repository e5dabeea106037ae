//! Excerpts: lines about an outcome, errors, first lines, sentences. None is unbounded.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::words::WORDS;
use crate::text::cut::{ceil, floor};
pub(crate) use crate::text::prose::one_line;
pub(crate) use crate::text::prose::{cut, pieces, sentences};
use crate::text::tokens::beginning;

/// Maximum length of a line in bytes; longer ones are cut.
pub(crate) const LINE: usize = 200;

/// Bytes of a review that are searched for its score.
const SCORED: usize = 64 * 1024;

/// Number of similar lines above which only the first and the last are kept.
const ALIKE: usize = 3;

/// The first line with any letter or digit, cut to this many bytes.
pub(crate) fn first_line(text: &str, bytes: usize) -> &str {
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| line.chars().any(char::is_alphanumeric));
    cut(line.unwrap_or_default(), bytes)
}

/// At most this many tokens of a string, with a mark where it was cut.
pub(crate) fn within(text: &str, tokens: usize) -> Cow<'_, str> {
    let text = text.trim();
    match beginning(text, tokens) {
        all if all.len() == text.len() => Cow::Borrowed(text),
        begins => Cow::Owned(format!("{begins} […]")),
    }
}

/// Up to three lines about an outcome: the first one and the last two.
pub(crate) fn outcome(text: &str) -> Vec<String> {
    let lines = content_lines(text);
    let picked: Vec<&str> = match lines[..] {
        [] => Vec::new(),
        [first, .., before, last] => vec![first, before, last],
        _ => lines,
    };
    picked
        .into_iter()
        .map(|line| cut(line, LINE).to_owned())
        .collect()
}

/// The last lines of an output.
pub(crate) fn tail(text: &str) -> Vec<String> {
    const MAX_LINES: usize = 20;
    // A reminder that the agent's harness appends is not output.
    let text = text
        .split_once("\n<system-reminder>")
        .map_or(text, |(text, _)| text);
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

pub(crate) fn content_lines(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .collect()
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
    static TRACES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        AhoCorasick::new(["Traceback (most recent call last)", "' panicked at ", "\n    at "]).ok()
    });
    TRACES.as_ref().is_some_and(|traces| traces.is_match(text))
}

/// The beginning and end of a string, with runs of similar lines shortened.
pub(crate) fn both_ends(text: &str, bytes: usize) -> String {
    let text = collapsed(text);
    if text.len() <= bytes {
        return text;
    }
    let head = floor(&text, bytes / 2);
    let tail = ceil(&text, text.len() - bytes / 2);
    format!("{}\n[…]\n{}", text[..head].trim_end(), text[tail..].trim_start())
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
        let end = tail(&format!("{long}\n<system-reminder>\nx\n</system-reminder>"));
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
