//! Reads the lines of a message: the effect of each sentence on later work, by its words, its neighbors, its list and its score.

use std::borrow::Cow;

use super::rule::{RuleStatement, has_never, is_at_hand, parts, saying};
use super::score::{Score, SentenceRole};
use super::words::{self, WORDS};
use crate::text::prose::{has_word, list_item, lower, sentences, without_markers};
use crate::work::requests;

/// A sentence of the user, with its effect on later work.
#[derive(Debug)]
pub(crate) struct TypedSentence {
    pub(crate) saying: Option<RuleStatement>,
    /// The sentence before it, if it refers back to that; otherwise empty.
    pub(crate) context: String,
    pub(crate) text: String,
    /// Whether the sentence is an item of a list.
    pub(super) is_item: bool,
    /// Whether the list has a heading like `Requirements:`.
    pub(super) is_headed: bool,
    /// Whether the sentence is a step of a plan.
    is_step: bool,
    /// Whether the sentence asks for something.
    pub(crate) asks: bool,
    pub(crate) score: Score,
}

impl TypedSentence {
    pub(crate) fn new(saying: Option<RuleStatement>, text: impl Into<String>) -> Self {
        Self {
            saying,
            context: String::new(),
            text: text.into(),
            is_item: false,
            is_headed: false,
            is_step: false,
            asks: false,
            score: Score::default(),
        }
    }

    /// The sentence with its context.
    pub(crate) fn whole(&self) -> String {
        match self.context.is_empty() {
            true => self.text.trim_start().to_owned(),
            false => format!("{} {}", self.context, self.text).trim_start().to_owned(),
        }
    }
}

/// The sentences of some lines, each with its effect on later work.
///
/// The items of a list have the force of its heading: `Do not:`. A rule that ends in a colon includes the lines below it.
pub(crate) fn in_lines<'t>(
    lines: impl IntoIterator<Item = &'t str>,
    markers: &[String],
) -> Vec<TypedSentence> {
    let lines: Vec<&str> = lines.into_iter().collect();
    let has_plan = lines.iter().filter(|line| list_item(line).is_some()).count() >= MIN_PLAN_ITEMS;
    let mut found: Vec<TypedSentence> = Vec::new();
    let mut heading: Option<(RuleStatement, &str)> = None;
    // The line of the last rule, if that ends in a colon.
    let mut above_list: Option<&str> = None;
    for line in lines {
        let above = force_of_heading(line);
        let is_item = above.is_none() && list_item(line).is_some();
        heading = above.or(heading.filter(|_| is_item));
        let inherited = heading.filter(|_| is_item);
        let ones = in_line(line, markers).into_iter().map(|one| match inherited {
            Some((RuleStatement::Forbids, text)) if one.saying.is_none() => {
                TypedSentence::new(Some(RuleStatement::Forbids), format!("{text} {}", one.text))
            }
            None if is_item && has_plan && is_step(&one) => TypedSentence {
                saying: None,
                is_step: true,
                ..one
            },
            // A step below `Requirements:` ends with its request.
            Some((force, _)) if one.saying.is_none() && !requests::asks(&one.text) => TypedSentence {
                saying: Some(force),
                ..one
            },
            _ => one,
        });
        let is_headed = inherited.is_some();
        let ones = ones.map(|one| TypedSentence {
            is_item,
            is_headed,
            ..one
        });
        let ones: Vec<TypedSentence> = ones.collect();
        above_list =
            above_list.filter(|rule| is_below(line, rule) && ones.iter().all(|one| one.saying.is_none()));
        let rule = found.last_mut().filter(|rule| rule.text.len() < MAX_JOINED_BYTES);
        if let Some(rule) = rule.filter(|_| above_list.is_some()) {
            ones.iter().for_each(|one| rule.text.extend([" ", &one.text]));
            continue;
        }
        found.extend(ones);
        let last = found.last();
        let is_above = last.is_some_and(|one| one.saying.is_some() && one.text.ends_with(':'));
        above_list = is_above.then_some(line);
    }
    judge(&mut found, markers);
    found
}

/// Scores the sentences of a message. Their scores may make them rules, or unmake them.
fn judge(found: &mut [TypedSentence], markers: &[String]) {
    let count = found.len();
    for (at, one) in found.iter_mut().enumerate() {
        one.asks = requests::asks(&one.text);
        let role = SentenceRole {
            asks: one.asks,
            forbids: one.saying == Some(RuleStatement::Forbids),
            is_item: one.is_item,
            is_headed: one.is_headed,
            at,
            count,
        };
        let small = lower(&one.text);
        one.score = Score::new(&one.text, &small, role);
        let holds = one.score.holds;
        let least = match one.saying {
            Some(RuleStatement::Forbids) => MIN_FORBIDDING_SCORE,
            Some(RuleStatement::Holds) => MIN_HOLDING_SCORE,
            _ => i32::MIN,
        };
        let is_configured = || markers.iter().any(|word| has_word(&small, word));
        let may_hold =
            || !WORDS.muses.occur_in(&small) && !is_at_hand(&small) && !WORDS.describes.occur_in(&small);
        if one.saying.is_none() && !one.is_step && holds >= MIN_RULE_SCORE && may_hold() {
            one.saying = Some(RuleStatement::Seems);
        // A message of one sentence has no other that could make it a report.
        } else if count > 1 && holds < least && !is_configured() {
            one.saying = None;
        }
    }
}

/// Minimum score of a rule that no explicit words make one.
const MIN_RULE_SCORE: i32 = 50;

/// Minimum scores of rules with explicit words. Errors and reports have words that forbid: `is not allowed`.
const MIN_FORBIDDING_SCORE: i32 = -75;
const MIN_HOLDING_SCORE: i32 = -100;

/// The force of a heading above a list, and the heading without list markers: `Do not:`, `5. Code style:`.
fn force_of_heading(line: &str) -> Option<(RuleStatement, &str)> {
    /// Maximum number of words in a heading.
    const WORDS_IN_HEADING: usize = 5;
    let line = list_item(line).unwrap_or(line).trim_matches(['#', '*', '_', ' ']);
    let small = lower(line.strip_suffix(':')?);
    // `Defaults (decided):`
    let label = small.split('(').next().unwrap_or_default().trim();
    let words: Vec<&str> = label.split_whitespace().collect();
    let is_forbidding = WORDS.forbids_first.rests(label).any(str::is_empty) || WORDS.forbids.occur_in(label);
    let force = match is_forbidding {
        true => RuleStatement::Forbids,
        false => RuleStatement::Holds,
    };
    let has_force = is_forbidding || words.last().is_some_and(|last| WORDS.labels.contains(last));
    (has_force && words.len() <= WORDS_IN_HEADING).then_some((force, line))
}

/// Maximum size in bytes of a rule that gets another line.
const MAX_JOINED_BYTES: usize = 300;

/// Whether a line completes a rule above it that ends in a colon: `Always group imports:`.
///
/// An item with the same kind of marker is the next item of the rule's own list.
fn is_below(line: &str, rule: &str) -> bool {
    /// Maximum size in bytes of such a line outside of a list.
    const SHORT: usize = 40;
    let marker = |line: &str| list_item(line).map(|_| line.starts_with(|c: char| c.is_ascii_digit()));
    match marker(line) {
        None => line.len() <= SHORT && !line.starts_with('#') && !line.ends_with(['.', '!', '?', ':']),
        item => item != marker(rule),
    }
}

/// Minimum number of list items in a message that is a plan.
const MIN_PLAN_ITEMS: usize = 8;

/// Whether an item of a plan is one of its steps: `Keep the error handling`.
fn is_step(one: &TypedSentence) -> bool {
    let small = lower(list_item(&one.text).unwrap_or(&one.text));
    let begins = ["keep ", "ensure ", "only ", "make sure "]
        .iter()
        .any(|words| small.starts_with(words));
    begins && one.saying == Some(RuleStatement::Holds) && !has_never(&small)
}

/// The sentences of a line, each with its effect on later work.
///
/// A line with a rule's label counts as one sentence. So does a sentence together with the one before it that announces
/// it.
fn in_line(line: &str, markers: &[String]) -> Vec<TypedSentence> {
    let line = without_struck_out(without_markers(line));
    let line = &*line;
    if words::has_label(line) {
        let saying = sentences(line).filter_map(|sentence| saying(sentence, markers));
        let forbids = saying.collect::<Vec<_>>().contains(&RuleStatement::Forbids);
        let saying = if forbids {
            RuleStatement::Forbids
        } else {
            RuleStatement::Holds
        };
        return vec![TypedSentence::new(Some(saying), line)];
    }
    let mut found: Vec<TypedSentence> = Vec::new();
    let mut before: Option<&str> = None;
    for sentence in sentences(line).flat_map(parts) {
        let announced = before.take().filter(|before| announces(before));
        match (saying(sentence, markers), announced) {
            // `From now on:` holds nothing by itself, and is joined with the next sentence.
            (Some(_), _) if announces(sentence) => before = Some(sentence),
            (saying, Some(before)) => {
                let saying = saying.unwrap_or(RuleStatement::Holds);
                let text = format!("{} {}", before.trim(), sentence.trim());
                found.push(TypedSentence::new(Some(saying), text));
            }
            (saying, None) if found.last().is_some_and(|last| completes(last, sentence, saying)) => {
                let first = found.pop().map_or_else(String::new, |one| one.text);
                let text = format!("{first} {}", sentence.trim());
                found.push(TypedSentence::new(Some(RuleStatement::Forbids), text));
            }
            // `Is it public? → No.` is a decision.
            (_, None) if is_answer(sentence) && found.last().is_some_and(is_question) => {
                let question = found.pop().map_or_else(String::new, |one| one.text);
                let text = format!("{question} {}", sentence.trim());
                found.push(TypedSentence::new(Some(RuleStatement::Holds), text));
            }
            (saying, None) => {
                // `They must stay private.` is not a rule without the sentence that it refers to.
                let refers = saying.is_some() && words::refers_back(sentence);
                let context = found.pop_if(|earlier| refers && earlier.saying.is_none());
                found.push(TypedSentence {
                    context: context.map_or_else(String::new, |context| context.text),
                    ..TypedSentence::new(saying, sentence.trim())
                });
            }
        }
    }
    // An announcement without a sentence after it is ordinary text.
    found.extend(before.map(|before| TypedSentence::new(None, before.trim())));
    found
}

/// A line without the sentences that were struck out: `~~Use tabs.~~` The words within one stay.
fn without_struck_out(line: &str) -> Cow<'_, str> {
    const STRIKE: &str = "~~";
    let parts: Vec<&str> = line.split(STRIKE).collect();
    if parts.len() < 3 {
        return line.into();
    }
    let is_whole = |at: usize| {
        let is_alone = || parts.len() == 3 && parts[0].is_empty() && parts[2].is_empty();
        parts[at].trim_end().ends_with(['.', '!', '?', '。', '！', '？']) || is_alone()
    };
    let mut out = parts[0].to_owned();
    for (at, part) in parts.iter().enumerate().skip(1) {
        let (is_inside, closes) = (at % 2 == 1, at + 1 < parts.len());
        match is_inside {
            true if closes && is_whole(at) => {}
            true if closes => out.extend([STRIKE, part, STRIKE]),
            true => out.extend([STRIKE, part]),
            false => out.push_str(part),
        }
    }
    out.into()
}

/// Whether a sentence and the previous one are the two halves of a rule: an order and a prohibition, in any order.
///
/// The first half has a word like `just`.
///
/// Examples: `Don't just restart it. Mend the cause.`, `Just print it. Don't open a page.`
fn completes(first: &TypedSentence, next: &str, saying: Option<RuleStatement>) -> bool {
    let (before, after) = ((first.saying, &*first.text), (saying, next));
    let is_pair = |(forbids, _): (Option<RuleStatement>, &str),
                   (order, text): (Option<RuleStatement>, &str)| {
        forbids == Some(RuleStatement::Forbids)
            && order.is_none()
            && !text.ends_with('?')
            && requests::asks(text)
    };
    (is_pair(before, after) || is_pair(after, before)) && WORDS.halves.occur_in(&lower(&first.text))
}

/// Whether a sentence begins with an arrow, after a question on the same line.
fn is_answer(sentence: &str) -> bool {
    let sentence = sentence.trim_start();
    ["→", "->", "=>"].iter().any(|arrow| sentence.starts_with(arrow))
}

fn is_question(one: &TypedSentence) -> bool {
    one.text.ends_with(['?', '？'])
}

/// Whether a sentence only states how long the next one holds.
fn announces(sentence: &str) -> bool {
    const SHORT: usize = 80;
    let small = sentence.to_lowercase();
    let end = small.trim_end_matches(['.', ':', ' ']);
    let is_scope = end.ends_with("session") || end.ends_with("from now on");
    sentence.len() <= SHORT
        && is_scope
        && WORDS.announces.occur_in(&small)
        && small.split_whitespace().count() < 12
}
