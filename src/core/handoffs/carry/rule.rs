//! Finds the user's sentences that hold beyond their request: they forbid, constrain, prefer, correct or lift
//! something.

use super::user::UserMessages;
use super::words::{self, WORDS};
use crate::redact::Redactor;
use crate::text::phrases::Phrases;
use crate::text::prose::{has_word, sentences};
use crate::work::SeenStatement;

/// Mark after a rule that a later statement may replace.
const REPLACED: &str = " [replaced by a later word where the two conflict]";

/// Mark after a rule whose message also had a request that is done.
const SAID_WITH: &str = " [said with: ";
const IS_DONE: &str = " That is done.]";

/// A rule of the user, verbatim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub text: String,
    /// Whether the rule forbids something.
    pub forbids: bool,
    /// Whether a later statement has another value, possibly for the same thing.
    pub replaced: bool,
    /// The whole message of the rule, on one line; empty if it comes from an earlier handoff.
    pub message: String,
}

impl Rule {
    /// The rule as it appears in a block. A mark is added if the request in its message is done.
    pub(super) fn shown(&self, finished: &[SeenStatement]) -> String {
        let mark = if self.replaced { REPLACED } else { "" };
        let is_done = finished.iter().any(|done| done.text == self.message);
        let request =
            sentences(&self.message).find(|other| words::asks(other) && !self.text.contains(other.trim()));
        match request.filter(|_| is_done) {
            Some(request) => format!("{}{mark}{SAID_WITH}{}{IS_DONE}", self.text, request.trim()),
            None => format!("{}{mark}", self.text),
        }
    }
}

/// The rule in a line of a block, without the mark.
pub(super) fn unmarked(line: &str) -> &str {
    let alone = line
        .strip_suffix(IS_DONE)
        .and_then(|line| line.rsplit_once(SAID_WITH));
    let line = alone.map_or(line, |(rule, _)| rule);
    line.strip_suffix(REPLACED).unwrap_or(line)
}

/// Effect of a user's sentence on later work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleStatement {
    Forbids,
    Holds,
    Lifts,
}

/// Sources of rules, and exclusions.
#[derive(Debug, Clone, Copy)]
pub struct RuleSources<'s> {
    /// Rules that an earlier handoff carried, newest first. The history that they were said in may be gone.
    pub earlier: &'s [String],
    pub said: &'s UserMessages,
    /// The turn of the last cut. Only rules survive from before it.
    pub since: Option<usize>,
    /// Rules that the user dropped, and text that is carried otherwise.
    pub without: &'s [String],
    /// Additional words that make a rule.
    pub markers: &'s [String],
    pub redactor: &'s Redactor,
}

/// The sentences of a line, each with its effect on later work.
///
/// A line with a rule's label counts as one sentence. So does a sentence with another that announces it, or
/// that it refers back to.
pub(super) fn in_line(line: &str, markers: &[String]) -> Vec<(Option<RuleStatement>, String)> {
    let line = line.trim_start_matches(['-', '*', '•', '#', ' ']);
    if words::has_label(line) {
        let saying = sentences(line).filter_map(|sentence| saying(sentence, markers));
        let forbids = saying.collect::<Vec<_>>().contains(&RuleStatement::Forbids);
        let saying = if forbids {
            RuleStatement::Forbids
        } else {
            RuleStatement::Holds
        };
        return vec![(Some(saying), line.to_owned())];
    }
    let mut found: Vec<(Option<RuleStatement>, String)> = Vec::new();
    let mut before: Option<&str> = None;
    for sentence in sentences(line) {
        let announced = before.take().filter(|before| announces(before));
        match (saying(sentence, markers), announced) {
            // `From now on:` holds nothing by itself, and is joined with the next sentence.
            (Some(_), _) if announces(sentence) => before = Some(sentence),
            (saying, Some(before)) => {
                let saying = saying.unwrap_or(RuleStatement::Holds);
                found.push((Some(saying), format!("{} {}", before.trim(), sentence.trim())));
            }
            (saying, None) => {
                // `They must stay private.` is not a rule without the sentence that it refers to.
                let refers = saying.is_some() && words::refers_back(sentence);
                let context = found.pop_if(|(earlier, _)| refers && earlier.is_none());
                let text = context.map_or_else(String::new, |(_, context)| context + " ");
                found.push((saying, text + sentence.trim()));
            }
        }
    }
    // An announcement without a sentence after it is ordinary text.
    found.extend(before.map(|before| (None, before.trim().to_owned())));
    found
}

/// Whether a sentence only states how long the next one holds.
fn announces(sentence: &str) -> bool {
    const SHORT: usize = 80;
    let small = sentence.to_lowercase();
    let scope = [
        "for the rest of",
        "from now on",
        "important constraint",
        "in this session",
    ];
    let end = small.trim_end_matches(['.', ':', ' ']);
    let is_scope = end.ends_with("session") || end.ends_with("from now on");
    sentence.len() <= SHORT
        && is_scope
        && scope.iter().any(|words| small.contains(words))
        && small.split_whitespace().count() < 12
}

/// The effect of a sentence on later work; `None` for a question, and for a sentence that is limited to its request.
fn saying(sentence: &str, markers: &[String]) -> Option<RuleStatement> {
    let small = sentence.trim().to_lowercase();
    // Before the words of force: `this time, never …` is limited to its request.
    if small.ends_with(['?', '？']) || WORDS.scoped.occur_in(&small) || WORDS.describes.occur_in(&small) {
        return None;
    }
    let has = |all: &Phrases| all.occur_in(&small);
    // `you may` lifts a rule, but `you may not` forbids.
    if !has_word(&small, "may not") && WORDS.lifts.iter().any(|words| is_lifting(&small, words)) {
        return Some(RuleStatement::Lifts);
    }
    let clauses = clauses(&small);
    let begins = |all: &[&str]| clauses.iter().any(|clause| begins_with(clause, all));
    let within = |all: &[&str]| all.iter().any(|words| small.contains(words));
    if has(&WORDS.forbids) || begins(&WORDS.forbids_first) || within(&WORDS.forbids_within) {
        return Some(RuleStatement::Forbids);
    }
    // `write the test` is a request. With a scope (`For reports, write …`) or a word such as `every` it is a rule.
    let by_verb = clauses.iter().enumerate().any(|(at, clause)| {
        let scope = at > 0
            && ["for ", "in ", "when "]
                .iter()
                .any(|word| clauses[0].starts_with(word));
        begins_with(clause, &WORDS.verbs) && (scope || has(&WORDS.with_verb))
    });
    let configured = markers.iter().any(|word| has_word(&small, word));
    let holds = has(&WORDS.holds)
        || within(&WORDS.holds_within)
        || has_never(&small)
        || begins(&WORDS.holds_first)
        || by_verb
        || configured;
    holds.then_some(RuleStatement::Holds)
}

/// Whether these words lift something: `don't forget` does not.
fn is_lifting(small: &str, words: &str) -> bool {
    has_word(small, words)
        && small.match_indices(words).any(|(at, _)| {
            let before = small[..at].trim_end();
            !["not", "n't", "never"].iter().any(|no| before.ends_with(no))
        })
}

/// Whether `always` or `never` states a convention (`tests never touch …`). Before the verb of a pronoun, they
/// describe.
fn has_never(small: &str) -> bool {
    const DESCRIBES: [&str; 12] = [
        "it", "this", "that", "they", "he", "she", "i", "which", "has", "have", "had", "was",
    ];
    ["never", "always"].iter().any(|word| {
        small.match_indices(word).any(|(at, _)| {
            let before = small[..at].split_whitespace().next_back();
            before.is_some_and(|before| !DESCRIBES.contains(&before)) && has_word(&small[at..], word)
        })
    })
}

/// The clauses of a lower-case sentence, each without its leading filler words.
fn clauses(small: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for part in small.split([',', ';', ':', '—', '(']) {
        all.extend(part.split(" and ").flat_map(|part| part.split(" but ")));
    }
    all.iter().map(|clause| clause_start(clause)).collect()
}

fn clause_start(clause: &str) -> &str {
    let mut rest = clause.trim_start_matches(|c: char| !c.is_alphanumeric());
    while let Some((first, after)) = rest.split_once(' ')
        && WORDS.before_clause.contains(&first)
    {
        rest = after.trim_start();
    }
    rest
}

fn begins_with(clause: &str, all: &[&str]) -> bool {
    all.iter().any(|words| {
        clause.strip_prefix(words).is_some_and(|rest| {
            let goes_on = rest.trim_start();
            let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\'');
            ends && !goes_on.is_empty() && !WORDS.not_first.iter().any(|word| goes_on.starts_with(word))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::rules;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let said = UserMessages::of_text(text);
        let sources = RuleSources {
            earlier: &[],
            said: &said,
            since: None,
            without: &[],
            markers: &["wichtig".to_owned()],
            redactor: &Redactor::default(),
        };
        rules(&sources).into_iter().map(|rule| rule.text).collect()
    }

    #[test]
    fn what_forbids_constrains_or_prefers_is_a_rule() {
        for rule in [
            "Never touch `migrations/`, and keep the commit messages in English.",
            "Don't ask me to confirm before running commands.",
            "Before you answer, restate my question.",
            "When you give measurements, use metric, not imperial.",
            "Write every number in your replies as an English word, not as digits.",
            "Reply in bullet points only, no paragraphs.",
            "Use pnpm, not npm.",
            "For status reports, show clocks in Pacific time.",
            "Please make responses light, and stick to metric units.",
            "We never push on Fridays.",
            "The port must be 8080.",
            "Wichtig: Port 8080.",
        ] {
            assert_eq!(found(rule), [rule]);
        }
        assert_eq!(
            found("HARD CONSTRAINT: The cap is $500. Never exceed it."),
            ["HARD CONSTRAINT: The cap is $500. Never exceed it."]
        );
        assert_eq!(
            found("For the rest of this session. reply briefly to me. Mend the parser."),
            ["For the rest of this session. reply briefly to me."]
        );
    }

    #[test]
    fn requests_questions_and_descriptions_are_none() {
        for text in [
            "Port the exporter.",
            "Should we never push?",
            "I don't think that it is the parser.",
            "It never returns, and it always fails on CI.",
            "Use tabs in this file, not blanks.",
            "The load balancer probes run every ten seconds.",
            "Keep going.",
            "Now look at the checks.",
            "Commit it, and go on.",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
