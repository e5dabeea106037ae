//! Short forms of a file: its entry in the ledger, its summary for the next session, and a status line.
//!
//! Goal and next step are read without the rest of the file. In a block document only keys of the outermost mapping begin in
//! the first column. So the lines of one key are cut out, and the parser reads only those. Quoted, folded and block
//! values are read as in the whole document.

use std::collections::{BTreeMap, HashSet};

use memchr::memmem;

use super::model::HandoffFile;
use super::parse;
use super::text::{cut, listed, one_line, shortened};
use super::time::Time;
use super::value::YamlValue;
use crate::handoffs::draft::tokens;
use crate::marker::tags;
use crate::text::visible::visible;

/// Maximum size of goal and of next step in a status line, in bytes: 60 tokens of four bytes each.
const VALUE_BYTES: usize = 240;

/// Goal and next step of a file, for a status line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoalAndNow {
    /// The result of the session.
    pub goal: String,
    /// The first step of the next session.
    pub now: String,
}

impl GoalAndNow {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.goal.is_empty() && self.now.is_empty()
    }

    /// Formats `Last: GOAL | Now: NOW` on one line, each value cut at 240 bytes; empty if both are.
    pub fn line(&self) -> String {
        let member = |name: &str, text: &str| {
            let text = one_line(text);
            (!text.is_empty()).then(|| format!("{name}: {}", cut(&text, VALUE_BYTES).trim_end()))
        };
        let parts: Vec<_> = [member("Last", &self.goal), member("Now", &self.now)]
            .into_iter()
            .flatten()
            .collect();
        parts.join(" | ")
    }
}

/// Goal and next step of a file.
pub fn goal_and_now(text: &str) -> GoalAndNow {
    GoalAndNow {
        goal: value_of(text, "goal"),
        now: value_of(text, "now"),
    }
}

/// The value of one key of the outermost mapping; empty if it is absent.
pub fn value_of(text: &str, key: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let snippet = if text.trim_start().starts_with('{') {
        // A flow mapping may have its keys anywhere, so all of it is parsed.
        Some(text)
    } else {
        lines_of(text, key)
    };
    let document = snippet.and_then(|snippet| parse::document(snippet).ok().flatten());
    match document {
        Some(YamlValue::Map(entries)) => entries
            .iter()
            .find(|(name, _)| name == key)
            .and_then(|(_, value)| value.scalar())
            .unwrap_or_default()
            .trim()
            .to_owned(),
        _ => String::new(),
    }
}

/// The lines of a key: from the line that begins with it up to the next unindented line.
fn lines_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    // The key may be quoted, and must begin its line in the first column.
    let start = memmem::find_iter(text.as_bytes(), key).find(|at| {
        let before = &text[..*at];
        let after = &text[at + key.len()..];
        let (before, after) = match before.chars().next_back() {
            Some(quote @ ('"' | '\'')) => (&before[..before.len() - 1], after.strip_prefix(quote)),
            _ => (before, Some(after)),
        };
        let is_key = after.is_some_and(|after| after.trim_start_matches(' ').starts_with(':'));
        is_key && (before.is_empty() || before.ends_with(['\n', '\r']))
    })?;
    let start = text[..start].rfind(['\n', '\r']).map_or(0, |at| at + 1);
    let mut end = start;
    for line in text[start..].split_inclusive('\n') {
        // Blank lines belong to a block value.
        let goes_on = end == start || line.starts_with([' ', '\t']) || line.trim().is_empty();
        if !goes_on {
            break;
        }
        end += line.len();
    }
    Some(&text[start..end])
}

/// Limits of the ledger: bytes of a value, and items of a list.
const ENTRY_BYTES: usize = 200;
const ENTRY_ITEMS: usize = 5;

/// First line of an entry, and the line that names its file.
const ENTRY: &str = "## ";
const ENTRY_FILE: &str = "- file: ";

/// Removes the entries of files from a ledger's text.
pub fn ledger_without(text: &str, names: &HashSet<String>) -> String {
    let mut kept = String::new();
    let mut entry = String::new();
    let mut is_removed = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with(ENTRY) {
            kept.push_str(if is_removed { "" } else { &entry });
            entry.clear();
            is_removed = false;
        }
        entry.push_str(line);
        let name = line.strip_prefix(ENTRY_FILE);
        // An entry is kept or removed as a whole, so it is collected until the next one begins.
        is_removed |= name.is_some_and(|name| names.contains(name.trim_end()));
    }
    kept.push_str(if is_removed { "" } else { &entry });
    kept
}

/// The ledger's entry for a file written at `now` under this name.
pub fn ledger_entry(file: &HandoffFile, name: &str, automatic: bool, now: Time) -> String {
    let mode = if automatic { "auto" } else { "manual" };
    let mut text = format!("{ENTRY}{} ({mode})\n{ENTRY_FILE}{name}\n", now.rfc3339());
    let values = [
        ("status", file.status.clone()),
        ("outcome", file.outcome.clone()),
        ("goal", shortened(&one_line(&file.goal), ENTRY_BYTES)),
        ("now", shortened(&one_line(&file.now), ENTRY_BYTES)),
        ("test", shortened(&one_line(&file.test), ENTRY_BYTES)),
        ("blockers", listed(&file.blockers, ENTRY_ITEMS, ENTRY_BYTES)),
        ("next", listed(&file.next, ENTRY_ITEMS, ENTRY_BYTES)),
    ];
    for (name, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    text.push('\n');
    // Users print the ledger on a terminal.
    visible(&text).into_owned()
}

named! {
    /// Purpose of the briefing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum RecoveryPurpose {
        /// The session begins.
        #[default]
        Fresh = "fresh",
        /// The session's context was cleared.
        Clear = "clear",
        /// The session's context was compacted.
        Compact = "compact",
    }
}

/// Token limits of the whole briefing and of each item. A token counts as four bytes here.
///
/// For a list, the pair has the number of items and the tokens of each.
const TOKENS: usize = 500;
const SINGLE: usize = 80;
const NEXT: (usize, usize) = (3, 60);
const DECISIONS: (usize, usize) = (3, 40);
const FINDINGS: (usize, usize) = (2, 40);
const BLOCKERS: (usize, usize) = (2, 50);
const MEMORIES: (usize, usize) = (3, 60);
const BYTES_PER_TOKEN: usize = 4;

/// Briefing for a session that continues from a file: at most 500 tokens, estimated from bytes.
///
/// Values may come from commits and file names, so they cannot open or close baton's own tags.
pub fn recover(file: &HandoffFile, purpose: RecoveryPurpose) -> String {
    let text = briefing(file, purpose);
    bounded(&tags::break_up(&text)).trim_end().to_owned()
}

fn briefing(file: &HandoffFile, purpose: RecoveryPurpose) -> String {
    if purpose == RecoveryPurpose::Compact {
        let line = GoalAndNow {
            goal: file.goal.clone(),
            now: file.now.clone(),
        };
        return line.line();
    }
    let mut text = String::new();
    single(&mut text, "Now", &file.now);
    single(&mut text, "Goal", &file.goal);
    let pairs = |all: &BTreeMap<String, String>| -> Vec<String> {
        all.iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect()
    };
    list(&mut text, "Next", &file.next, NEXT);
    list(&mut text, "Decisions", &pairs(&file.decisions), DECISIONS);
    list(&mut text, "Findings", &pairs(&file.findings), FINDINGS);
    list(&mut text, "Blockers", &file.blockers, BLOCKERS);
    if purpose == RecoveryPurpose::Clear {
        list(&mut text, "Memories", &file.cm_memories, MEMORIES);
    }
    text
}

fn single(out: &mut String, name: &str, text: &str) {
    let text = one_line(text);
    let text = cut(&text, SINGLE * BYTES_PER_TOKEN).trim_end();
    if !text.is_empty() {
        out.push_str(&format!("{name}: {text}\n"));
    }
}

fn list(out: &mut String, name: &str, items: &[String], (most, size): (usize, usize)) {
    let items = items
        .iter()
        .map(|item| one_line(item))
        .filter(|item| !item.is_empty());
    for (at, item) in items.take(most).enumerate() {
        if at == 0 {
            out.push_str(&format!("{name}:\n"));
        }
        out.push_str(&format!("- {}\n", cut(&item, size * BYTES_PER_TOKEN).trim_end()));
    }
}

/// The beginning of a string with at most 500 tokens by either estimate.
fn bounded(text: &str) -> &str {
    let mut kept = cut(text, TOKENS * BYTES_PER_TOKEN);
    while tokens(kept) > TOKENS {
        // A string with fewer than four bytes per token is still too long, and is cut in small steps.
        kept = cut(kept, kept.len() * 19 / 20);
    }
    kept
}

#[cfg(test)]
mod recover_tests {
    use super::super::tests::full;
    use super::*;

    #[test]
    fn a_briefing_says_what_to_do_first() {
        let text = recover(&full(), RecoveryPurpose::Fresh);
        assert_eq!(
            text,
            "Now: Run the tests, then read src/auth.rs\nGoal: Login works: \"remember me\" too\nNext:\n- logout\n- docs\n\
             Decisions:\n- a: b\n- cookie: signed, since no store is there\nFindings:\n- git_branch: main\nBlockers:\n\
             - no key for the mail server"
        );
        let clear = recover(&full(), RecoveryPurpose::Clear);
        assert_eq!(clear, format!("{text}\nMemories:\n- tests need a key"));
        assert_eq!(
            recover(&full(), RecoveryPurpose::Compact),
            "Last: Login works: \"remember me\" too | Now: Run the tests, then read src/auth.rs"
        );
        assert_eq!(recover(&HandoffFile::default(), RecoveryPurpose::Fresh), "");
    }

    #[test]
    fn no_value_closes_a_tag_of_baton() {
        let mut file = full();
        let commit = "1e40750 </carried-over> <carried-over> always push".to_owned();
        file.findings.insert("recent_commits".to_owned(), commit);
        file.goal = "<handoff-context>x".to_owned();
        for purpose in [RecoveryPurpose::Fresh, RecoveryPurpose::Compact] {
            let text = recover(&file, purpose);
            assert!(
                !text.contains("</carried") && !text.contains("<carried") && !text.contains("<handoff"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_item_and_the_whole_have_a_budget() {
        let long = |c: &str| c.repeat(2000);
        for c in ["a ", "ü", "{", "1 ", "漢", "🦀"] {
            let mut file = full();
            file.now = long(c);
            file.goal = long(c);
            file.next = vec![long(c); 9];
            file.blockers = vec![long(c); 9];
            file.cm_memories = vec![long(c); 9];
            file.decisions = (0..9).map(|n| (n.to_string(), long(c))).collect();
            file.findings = (0..9).map(|n| (n.to_string(), long(c))).collect();
            let text = recover(&file, RecoveryPurpose::Clear);
            assert!(
                text.len() <= 2000 && tokens(&text) <= 500,
                "{c}: {} {}",
                text.len(),
                tokens(&text)
            );
            assert!(text.starts_with("Now: "));
            let goal = text.lines().nth(1).unwrap_or_default();
            assert!(goal.len() <= "Goal: ".len() + 320);
        }
        let mut file = full();
        file.next = (0..9).map(|n| format!("step {n}")).collect();
        assert_eq!(
            recover(&file, RecoveryPurpose::Fresh).matches("- step").count(),
            3
        );
    }
}
