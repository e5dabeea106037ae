//! Tells by its words whether a user's sentence holds beyond its request: it forbids, constrains, prefers, corrects or lifts
//! something.

use std::ops::Range;

use super::clause;
use super::words::WORDS;
use crate::text::phrases::{Beginnings, Phrases, Wordings};
use crate::text::prose::{has_word, list_item, lower};
use crate::work::requests;

/// Effect of a user's sentence on later work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleStatement {
    /// Forbids something from now on.
    Forbids,
    /// Requires, prefers or corrects something from now on.
    Holds,
    /// Lifts an earlier rule.
    Lifts,
    /// Seems to hold from now on, by its score only.
    Seems,
}

/// The parts of a sentence that ask, and those that state something or hold.
///
/// Examples: `只能用这个接口，能不能打开`, `I like it, but can you move it?`, `Move it and make sure that every page has a title`.
pub(crate) fn parts(sentence: &str) -> Vec<&str> {
    let ends = joints(sentence);
    if ends.len() == 1 {
        return with_rule(sentence);
    }
    // Between Chinese commas, the matter of an order follows it: `帮我总结下，二楼的书架`.
    let asks_alone = match sentence.contains('，') {
        true => requests::is_question,
        false => requests::asks,
    };
    let mut parts: Vec<(bool, &str)> = Vec::new();
    let mut start = 0;
    for end in ends {
        let clause = &sentence[start..end];
        // The mark of a question belongs to all of the sentence.
        let asks = asks_alone(clause.trim_end_matches(['，', '?', ' ']));
        match parts.last_mut() {
            // `Mend it, but don't touch the page` is one statement.
            Some((asked, part)) if *asked == asks || *asked && !part.ends_with('，') => {
                *part = &sentence[start - part.len()..end];
            }
            _ => parts.push((asks, clause)),
        }
        start = end;
    }
    parts.into_iter().flat_map(|(_, part)| with_rule(part)).collect()
}

/// The ends of the clauses of a sentence. Any clause may be a request.
fn joints(sentence: &str) -> Vec<usize> {
    // `Keep the page, but add a title` is one statement.
    let joints: &[&str] = if sentence.ends_with('?') {
        &["，", ", but ", ", however "]
    } else {
        &["，"]
    };
    let all = joints.iter().flat_map(|joint| sentence.match_indices(joint));
    let ends = all.map(|(at, joint)| at + joint.len());
    let mut ends: Vec<usize> = ends.filter(|end| *end < sentence.len()).collect();
    // `I want it in red can you change it` has no mark between the two.
    let wishes = |_: &usize| WORDS.wishes_first.rests(&lower(sentence)).next().is_some();
    let asks = [" can you ", " could you "]
        .iter()
        .filter_map(|asks| sentence.find(asks));
    ends.extend(asks.filter(wishes).map(|at| at + 1));
    ends.sort_unstable();
    ends.push(sentence.len());
    ends
}

/// A sentence, or its request and the rule after it.
fn with_rule(sentence: &str) -> Vec<&str> {
    /// Minimum number of words of a request, such as `Can you rename it`.
    const MIN_REQUEST_WORDS: usize = 4;
    let whole = sentence.trim();
    let small = whole.to_lowercase();
    let is_wish = is_wish(&small);
    let words = if is_wish { &WORDS.standing } else { &WORDS.ensures };
    let at = standing_at(words, &small).filter(|_| small.len() == whole.len());
    let Some((request, rule)) = at.map(|at| whole.split_at(at)) else {
        return vec![sentence];
    };
    let (before, rule) = (lower(request.trim_end()), rule.trim_end_matches('?'));
    let alone = request
        .trim_end()
        .trim_end_matches(" also")
        .trim_end_matches(" and");
    // `Can you answer in French from now on?` is a rule as a whole.
    let ensures =
        || saying(rule, &[]).is_some() && WORDS.ensures.found_in(&lower(rule)).any(|words| words.start == 0);
    let is_end = |words: Range<usize>| words.end == before.len();
    let is_only_polite = || WORDS.polite.found_in(&before).any(is_end);
    match request.split_whitespace().count() >= MIN_REQUEST_WORDS {
        true if requests::asks(request) && ensures() => vec![alone, rule],
        false if is_wish && is_only_polite() => vec![rule],
        _ => vec![sentence],
    }
}

/// Whether a lower-case question politely asks for something, and not for a cause: `Can you see why it never opens?`
fn is_wish(small: &str) -> bool {
    let is_other = || {
        [&WORDS.causes, &WORDS.describes]
            .iter()
            .any(|all| all.occur_in(small))
    };
    requests::has_question_mark(small) && WORDS.polite.occur_in(small) && !is_other()
}

/// Position of the words that make a lower-case request hold beyond itself. `not always` and `it always fails` require nothing.
fn standing_at(words: &Phrases, small: &str) -> Option<usize> {
    let describes = |before: &str| {
        let last = before.split_whitespace().next_back().unwrap_or_default();
        is_negated(before) || last != "to" && WORDS.no_subject.contains(&last)
    };
    let places = words.found_in(small).map(|place| place.start);
    let first = places.filter(|at| !describes(&small[..*at])).min();
    first.filter(|_| !is_at_hand(small))
}

/// The effect of a sentence on later work; `None` for a question, and for a sentence that is limited to its request.
pub(super) fn saying(sentence: &str, markers: &[String]) -> Option<RuleStatement> {
    let sentence = sentence.trim();
    let small = lower(list_item(sentence).unwrap_or(sentence));
    let begins = || {
        let mut first = WORDS.standing_first.iter();
        first.any(|words| small.starts_with(words)) && !is_at_hand(&small)
    };
    // `For each task, can you …?`, `Could you ask me first from now on?`
    if is_wish(&small) && (begins() || standing_at(&WORDS.standing, &small).is_some()) {
        return Some(RuleStatement::Holds);
    }
    // Checked before the words that make a rule, because `this time, never …` is limited to its request.
    if requests::has_question_mark(&small)
        || WORDS.scoped.occur_in(&small)
        || clause::forbids_all(&small)
        || WORDS.describes.occur_in(&small)
    {
        return None;
    }
    // `I'd prefer that.` means nothing without the text that it answers.
    if small.split_whitespace().count() <= 3
        && small
            .split([' ', '.'])
            .any(|word| matches!(word, "that" | "it" | "this"))
    {
        return None;
    }
    let has = |all: &Phrases| all.occur_in(&small);
    if retracts(sentence) {
        return Some(RuleStatement::Holds);
    }
    // `you may` lifts a rule, but `you may not` forbids, and `don't forget` lifts nothing.
    let is_lifting = |at: Range<usize>| !is_negated(&small[..at.start]);
    let lifts = WORDS.lifts.found_in(&small).any(is_lifting);
    if !has_word(&small, "may not") && (lifts || permits(&small)) {
        return Some(RuleStatement::Lifts);
    }
    let clauses = clause::clauses(&small);
    let begins = |all: &Beginnings| clauses.begin_with(all, is_past);
    // Clauses that ask (`能不能`) state nothing, unlike others of the same sentence.
    let states = |all: &Wordings, clause: &str| all.occur_in(clause) && !requests::is_marked_question(clause);
    let within =
        |all: &Wordings| all.occur_in(&small) && small.split(['，', ',', '、']).any(|one| states(all, one));
    if has(&WORDS.forbids)
        || begins(&WORDS.forbids_first)
        || begins(&WORDS.leaves_first) && has(&WORDS.left_alone)
        || clauses.deny()
        || within(&WORDS.forbids_within)
    {
        return Some(RuleStatement::Forbids);
    }
    let configured = markers.iter().any(|word| has_word(&small, word));
    let holds = (has(&WORDS.holds) || begins(&WORDS.holds_first) || clause::has_condition(&clauses))
        && !is_at_hand(&small)
        || within(&WORDS.holds_within)
        || has_never(&small)
        || asks_forever(&small)
        || clause::has_verb(&clauses, &small)
        || configured;
    holds.then_some(RuleStatement::Holds)
}

/// Whether a sentence retracts the one before it, and states a replacement: `Scratch that, spaces.`
pub(crate) fn retracts(sentence: &str) -> bool {
    let small = lower(sentence);
    let mut rests = WORDS.retracts_first.rests(&small);
    rests.any(|rest| !rest.starts_with(char::is_alphanumeric) && rest.contains(char::is_alphanumeric))
}

/// Whether a short lower-case sentence permits something from now on.
fn permits(small: &str) -> bool {
    const MAX_PERMISSION_WORDS: usize = 12;
    let permits = WORDS.permits.occur_in(small) && WORDS.from_now.occur_in(small);
    (permits || WORDS.permits_within.occur_in(small))
        && small.split_whitespace().nth(MAX_PERMISSION_WORDS).is_none()
        && !has_word(small, "not")
        && !requests::asks(small)
}

/// The matter of a sentence that lifts a rule: a part of it, or all.
pub(super) fn lifted_matter(sentence: &str) -> &str {
    let small = sentence.to_lowercase();
    let after = WORDS.forgets.found_in(&small).map(|words| words.end).max();
    let after = after.filter(|_| small.len() == sentence.len());
    let matter = after.map(|after| &sentence[after..]);
    let clause = matter.and_then(|matter| matter.split([',', ';', '.', '!', '—']).next());
    clause
        .filter(|clause| clause.contains(char::is_alphanumeric))
        .unwrap_or(sentence)
}

/// Whether a lower-case sentence is about the work at hand, such as `make sure it passes`, and holds no longer than that.
pub(super) fn is_at_hand(small: &str) -> bool {
    let is_definite = || WORDS.definite.occur_in(small) && !WORDS.general.occur_in(small);
    WORDS.at_hand.occur_in(small) || is_definite()
}

/// Whether a sentence describes an event or the report of a fault.
pub(crate) fn describes(sentence: &str) -> bool {
    WORDS.describes.occur_in(&lower(sentence))
}

/// Whether a string ends with a word that negates the next one.
fn is_negated(before: &str) -> bool {
    let before = before.trim_end();
    ["not", "n't", "never"].iter().any(|no| before.ends_with(no))
}

/// Whether a clause that begins with `never` describes the past: `never called`.
fn is_past(clause: &str) -> bool {
    let verb = clause
        .strip_prefix("never ")
        .and_then(|rest| rest.split(' ').next());
    verb.is_some_and(is_participle)
}

fn is_participle(word: &str) -> bool {
    word.ends_with("ed") && !word.ends_with("eed") || WORDS.past.contains(&word)
}

/// Whether `always` or `never` states a convention (`tests never touch …`).
///
/// After a pronoun, before a past tense and at the end, the word only describes (`it never fails`, `the answer never
/// came`).
pub(super) fn has_never(small: &str) -> bool {
    ["never", "always"].iter().any(|word| {
        let places = small.contains(word).then(|| small.match_indices(word));
        places.into_iter().flatten().any(|(at, _)| {
            let before = small[..at].split_whitespace().next_back();
            let mut after = small[at + word.len()..].split(|c: char| !c.is_alphanumeric());
            let after = after.find(|word| !word.is_empty()).unwrap_or_default();
            let is_noun = before.is_some_and(|before| !WORDS.no_subject.contains(&before));
            is_noun && !after.is_empty() && !is_participle(after) && has_word(&small[at..], word)
        })
    })
}

/// Whether a request is for a rule: `tell it to never stop`.
fn asks_forever(small: &str) -> bool {
    let forever = [" to never ", " to always "]
        .iter()
        .any(|words| small.contains(words));
    forever && requests::asks(small)
}
