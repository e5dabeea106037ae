//! Summarises a file for the start of the next session.

use std::collections::BTreeMap;

use super::line::GoalAndNow;
use super::model::HandoffFile;
use super::text::{cut, one_line};
use crate::handoffs::draft::tokens;

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
pub fn recover(file: &HandoffFile, purpose: RecoveryPurpose) -> String {
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
    bounded(&text).trim_end().to_owned()
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
mod tests {
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
