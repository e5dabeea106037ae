//! Extracts an agent's account of its work by fixed rules: finished work, next steps, blockers, decisions. Tasks of an issue
//! tracker are converted too.
//!
//! Each kind has its expressions in order of precedence. The first that matches gives the goal or the next step; all
//! matches of all of them fill the lists. A heading such as `Next:` without text refers to the list below it.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value as Json;

use super::model::{CompletedTask, HandoffFile};
use super::text::{cut, one_line, shortened};
use crate::text::prose::{list_item, without_any};

/// Maximum number of blockers.
const BLOCKERS: usize = 5;

/// Maximum number of matches per decision expression.
const DECISIONS: usize = 5;

/// Maximum lengths of a decision and of its reason, in characters.
const DECIDED_CHARS: usize = 30;
const REASON_CHARS: usize = 50;

/// Maximum number of items in a list. Real output has about a dozen; a log may have a thousand such lines.
const ITEMS: usize = 50;

/// Maximum size of an item in bytes, which fits a status line.
const ITEM_BYTES: usize = 240;

/// Checkboxes before an item.
const BOXES: [&str; 3] = ["[ ] ", "[x] ", "[X] "];

/// Maximum number of lines of a list below a heading.
const UNDER_HEADING: usize = 20;

/// Markup that may precede a word at the beginning of a line: list marks, headings, quotes, bold.
const FRONT: &str = r"^[ \t>]*(?:[-*+#]+[ \t]+|\d+[.)][ \t]+)?(?:\*\*|__)?";

/// Separator between a word and the text that it introduces.
const COLON: &str = r"(?:\*\*|__)?[ \t]*:(?:\*\*|__)?[ \t]*(.*)$";

fn expressions(sources: &[String]) -> Vec<Regex> {
    // The expressions are constants, and a test compiles each: none is dropped here.
    sources
        .iter()
        .filter_map(|source| Regex::new(&format!("(?im){source}")).ok())
        .collect()
}

fn at_start(word: &str) -> String {
    format!("{FRONT}{word}{COLON}")
}

fn sentence(words: &str) -> String {
    format!(r"\b{words}[ \t]+(.+?)[.!](?:\s|$)")
}

static DONE: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    expressions(&[
        sentence(r"I(?:'|’)?(?: ha)?ve (?:now )?completed?"),
        at_start("Done"),
        at_start("Finished"),
        r"^[ \t]*(?:[-*+][ \t]+)?[✓✔✅][\u{fe0f}]?[ \t]*(.+)$".to_owned(),
        sentence("Successfully"),
        sentence("Implemented"),
        r"\[DONE\][ \t]*(.+)$".to_owned(),
        r"\bCompleted task[ \t]*:[ \t]*(.+)$".to_owned(),
        r"\bTask complete[ \t]*:[ \t]*(.+)$".to_owned(),
    ])
});

static NEXT: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    expressions(&[
        at_start("Next(?: steps?)?"),
        at_start("TODO"),
        r"\bShould do next[ \t]*:?[ \t]*(.+)$".to_owned(),
        at_start("Remaining"),
        r"\bNow (?:you|we|I) should[ \t]*:?[ \t]+(.+)$".to_owned(),
    ])
});

static BLOCKED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    expressions(&[
        at_start("Error"),
        at_start("Failed"),
        r"\bBlocked by[ \t]*:?[ \t]*(.+)$".to_owned(),
        r"\b(Cannot proceed\b.*)$".to_owned(),
        r"\b(Unable to\b.+)$".to_owned(),
    ])
});

static DECIDED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    expressions(&[
        r"\bdecided to[ \t]+(.+?)[ \t]+because[ \t]+(.+?)(?:[.;!](?:\s|$)|$)".to_owned(),
        r"\bchose[ \t]+(.+?)[ \t]+(over[ \t]+.+?)[ \t]+because\b".to_owned(),
        r"\busing[ \t]+(.+?)[ \t]+for[ \t]+(.+?)(?:[.;!](?:\s|$)|$)".to_owned(),
    ])
});

/// Words before a match that negate it.
const NOT: [&str; 6] = ["not", "never", "be", "isn't", "wasn't", "cannot"];

/// Extracts a file from `text`. Its credentials must have been redacted.
pub fn analyze(text: &str) -> HandoffFile {
    let done = found(text, &DONE);
    let next = found(text, &NEXT);
    HandoffFile {
        goal: done.first.unwrap_or_default(),
        now: next.first.unwrap_or_default(),
        done_this_session: done.all.into_iter().map(CompletedTask::new).collect(),
        next: next.all,
        blockers: blockers(text),
        decisions: decisions(text),
        ..HandoffFile::default()
    }
}

/// Matches of a list of expressions.
struct RuleMatches {
    /// First match in the order of the expressions.
    first: Option<String>,
    /// All matches in the order of the text.
    all: Vec<String>,
}

fn found(text: &str, expressions: &[Regex]) -> RuleMatches {
    let captures = expressions
        .iter()
        .flat_map(|one| one.captures_iter(text).take(ITEMS));
    let mut all: Vec<_> = captures.filter_map(|captures| matched(text, &captures)).collect();
    // Before sorting, because the order of the expressions decides here.
    let first = all.first().and_then(|(_, _, items)| items.first().cloned());
    all.sort_by_key(|(start, ..)| *start);
    let mut seen = HashSet::new();
    let mut covered = 0;
    let mut list = Vec::new();
    for (start, end, items) in all {
        // Two expressions may match the same words.
        if start < covered {
            continue;
        }
        covered = end;
        list.extend(items.into_iter().filter(|item| seen.insert(item.clone())));
    }
    list.truncate(ITEMS);
    RuleMatches { first, all: list }
}

/// The range of a match, and its value: the rest of its line, or the list below it.
fn matched(text: &str, captures: &Captures<'_>) -> Option<(usize, usize, Vec<String>)> {
    let whole = captures.get(0)?;
    let matched_text = captures.get(1)?;
    // The word before a match may negate it, as in `not done: …`.
    let before = text[..whole.start()]
        .rsplit(['\n', '.'])
        .next()
        .and_then(|line| line.split_whitespace().next_back())
        .unwrap_or_default();
    if NOT.iter().any(|not| before.eq_ignore_ascii_case(not)) {
        return None;
    }
    let item = item(matched_text.as_str());
    // The words before it are missing.
    if item.starts_with(['(', '—', '–', ',']) {
        return None;
    }
    if !item.is_empty() {
        return Some((whole.start(), whole.end(), vec![item]));
    }
    // A heading without text on its own line.
    let (items, bytes) = under_heading(&text[whole.end()..]);
    (!items.is_empty()).then(|| (whole.start(), whole.end() + bytes, items))
}

/// The list that follows a heading, and its length in bytes.
fn under_heading(text: &str) -> (Vec<String>, usize) {
    let mut items = Vec::new();
    let mut bytes = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        match list_item(trimmed) {
            Some(listed) if items.len() < UNDER_HEADING => {
                items.extend(Some(item(without_any(listed, &BOXES))).filter(|i| !i.is_empty()))
            }
            // Blank lines may separate the heading from the list.
            None if trimmed.is_empty() && items.is_empty() => {}
            _ => break,
        }
        bytes += line.len();
    }
    (items, bytes)
}

/// Formats captured text: on one line, without surrounding Markdown.
fn item(text: &str) -> String {
    let text = one_line(text);
    let text = text.trim_matches(|c| matches!(c, '*' | '_' | ' '));
    match text.chars().any(char::is_alphanumeric) {
        true => shortened(text, ITEM_BYTES),
        false => String::new(),
    }
}

fn blockers(text: &str) -> Vec<String> {
    let captures = BLOCKED
        .iter()
        .flat_map(|one| one.captures_iter(text).take(BLOCKERS));
    let found = captures.filter_map(|captures| Some(matched(text, &captures)?.2));
    let mut seen = HashSet::new();
    let once = found.flatten().filter(|item| seen.insert(item.clone()));
    once.take(BLOCKERS).collect()
}

fn decisions(text: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for captures in DECIDED
        .iter()
        .flat_map(|one| one.captures_iter(text).take(DECISIONS))
    {
        let [decided, reason] = [(1, DECIDED_CHARS), (2, REASON_CHARS)].map(|(at, most)| {
            let text = item(captures.get(at).map_or("", |text| text.as_str()));
            let beginning: String = text.chars().take(most).collect();
            beginning.trim_end().to_owned()
        });
        if !decided.is_empty() && !reason.is_empty() {
            all.entry(decided).or_insert(reason);
        }
    }
    all
}

/// Maximum size of a task's title in bytes.
const TITLE_BYTES: usize = 60;

/// The tasks in the output of `br list --format json`, as `id: title`.
///
/// The output is a list, or an object that holds one.
pub fn beads(output: &str) -> Vec<String> {
    let Ok(output) = serde_json::from_str::<Json>(output) else {
        return Vec::new();
    };
    let list = match &output {
        Json::Array(list) => Some(list),
        Json::Object(envelope) => ["issues", "beads", "data", "items", "results"]
            .iter()
            .find_map(|key| envelope.get(*key)?.as_array())
            // Without a known member, the first list counts.
            .or_else(|| envelope.values().find_map(Json::as_array)),
        _ => None,
    };
    let listed = list.into_iter().flatten().filter_map(|bead| {
        let id = bead.get("id")?.as_str().filter(|id| !id.is_empty())?;
        let title = bead.get("title").and_then(Json::as_str).unwrap_or_default();
        Some(match cut(title.trim(), TITLE_BYTES).trim_end() {
            "" => id.to_owned(),
            title => format!("{id}: {title}"),
        })
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_compiles() {
        assert_eq!(
            [DONE.len(), NEXT.len(), BLOCKED.len(), DECIDED.len()],
            [9, 5, 5, 3]
        );
    }

    #[test]
    fn each_rule_for_what_was_done() {
        for (text, goal) in [
            ("Well. I've completed the login form. More.", "the login form"),
            ("I have completed the parser.", "the parser"),
            ("x\nDone: the parser", "the parser"),
            ("**Done:** the parser", "the parser"),
            ("finished: v1.2 of the parser", "v1.2 of the parser"),
            ("  ✓ all 12 tests pass", "all 12 tests pass"),
            ("- ✅ migrated", "migrated"),
            ("Successfully moved a.rs to b.rs. Fine.", "moved a.rs to b.rs"),
            ("Implemented retries in src/net.rs.\n", "retries in src/net.rs"),
            ("[DONE] the cache", "the cache"),
            ("Completed task: wire it up", "wire it up"),
            ("Task complete: docs", "docs"),
            ("This is not implemented yet.", ""),
            ("Donet: x", ""),
            ("The page is tested ✓\n✓ — all 15 tests of it pass", ""),
            ("Nothing to see", ""),
        ] {
            assert_eq!(analyze(text).goal, goal, "{text}");
        }
    }

    #[test]
    fn each_rule_for_what_comes_next() {
        for (text, now) in [
            ("Next: run the tests", "run the tests"),
            (
                "## Next steps:\n\n1. **Run** the tests\n2. Ship\n\nBye",
                "Run** the tests",
            ),
            ("TODO: document it", "document it"),
            ("What we should do next: ship", "ship"),
            ("Remaining: two files", "two files"),
            ("Now you should restart the server", "restart the server"),
            ("Now we should: rest", "rest"),
            ("What's next for us?", ""),
        ] {
            assert_eq!(analyze(text).now, now, "{text}");
        }
        let listed = analyze("Next:\n- [ ] one\n- [ ] two\n\nThen.\nTODO: three\nTODO: three");
        assert_eq!(listed.next, ["one", "two", "three"]);
    }

    #[test]
    fn the_first_expression_gives_the_goal_and_all_fill_the_list() {
        let text = "✓ built\nDone: tested\nI've completed the release. Bye";
        let analysis = analyze(text);
        assert_eq!(analysis.goal, "the release");
        let done = ["built", "tested", "the release"].map(CompletedTask::new);
        assert_eq!(analysis.done_this_session, done);
    }

    #[test]
    fn blockers_are_five_and_keep_what_they_need() {
        let text = "Error: no key\nFailed: upload\nBlocked by the review\nCannot proceed without a key\n\
                    I was unable to reach db\nError: six\nError: no key";
        assert_eq!(
            analyze(text).blockers,
            [
                "no key",
                "six",
                "upload",
                "the review",
                "Cannot proceed without a key"
            ]
        );
        assert_eq!(
            analyze("I was unable to reach db").blockers,
            ["unable to reach db"]
        );
    }

    #[test]
    fn decisions_have_a_short_key_and_a_short_reason() {
        let text = "I decided to keep the old format because clients read it. We chose SQLite over Postgres because \
                    it is one file. Using hyper for HTTP.";
        let decided = analyze(text).decisions;
        assert_eq!(decided["keep the old format"], "clients read it");
        assert_eq!(decided["SQLite"], "over Postgres");
        assert_eq!(decided["hyper"], "HTTP");
        let long = analyze(&format!(
            "decided to {} because {}.",
            "a".repeat(99),
            "ü".repeat(99)
        ))
        .decisions;
        let (key, value) = long.iter().next().unwrap();
        assert_eq!((key.chars().count(), value.chars().count()), (30, 50));
    }

    #[test]
    fn status_follows_from_blockers_and_goal() {
        for (text, status, outcome) in [
            ("Error: x\nDone: y", "blocked", "PARTIAL_MINUS"),
            ("Done: y", "complete", "SUCCEEDED"),
            ("nothing", "partial", "PARTIAL_PLUS"),
        ] {
            let mut file = HandoffFile::default();
            file.fill(analyze(text));
            file.infer_status();
            assert_eq!((file.status.as_str(), file.outcome.as_str()), (status, outcome));
        }
    }
}

#[cfg(test)]
mod beads_tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn beads_are_read_from_a_list_and_from_an_envelope() {
        let list = json!([{"id": "bd-1", "title": "auth"}, {"id": "bd-2", "title": "x".repeat(99)}, {"title": "no id"}, {"id": "bd-3"}]);
        let listed = beads(&list.to_string());
        assert_eq!(
            listed,
            [
                "bd-1: auth".to_owned(),
                format!("bd-2: {}", "x".repeat(60)),
                "bd-3".to_owned()
            ]
        );
        for envelope in [json!({"issues": list}), json!({"count": 4, "whatever": list})] {
            assert_eq!(beads(&envelope.to_string()), listed);
        }
        assert!(beads("no JSON").is_empty() && beads("3").is_empty() && beads("{}").is_empty());
    }
}
