//! User statements that a handoff may carry: the newest message, the active rules, and the rest by rank.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::block::{LeftOut, is_edge};
use super::earlier::RuleSources;
use super::prompt_index::plain;
use super::rule::{self, Rule};
use super::user::UserMessage;
use crate::agents::todo::NumberedTodo;
use crate::redact::Redactor;
use crate::text::cut::{ceil, floor};
use crate::text::prose::{has_word, joined, one_line};
use crate::transcript::ToolUse;
use crate::work::replaced::{Relation, SpokenText, Statement, Statements};
use crate::work::said::score::Score;
use crate::work::said::{self, PastedError, RuleStatement, TypedSentence};
use crate::work::{self, SeenStatement, requests};

/// Maximum size in bytes of a newest message that is kept whole, and of the typed lines of a longer one.
const MAX_MESSAGE_BYTES: usize = 1500;
const MAX_TYPED_BYTES: usize = 4000;

/// Maximum size of a carried sentence in bytes. People who dictate write long ones.
const MAX_CARRIED_BYTES: usize = 600;

/// Maximum number of rules, and of other sentences, and how many of them are the newest in any case.
const MAX_SENTENCES: usize = 300;
const NEWEST: usize = 200;

/// Maximum number of these of one message, as long as other messages have some: a long one leaves room for earlier ones.
const MAX_OF_MESSAGE: usize = 40;

/// The user's words, redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsersWords {
    pub newest: Option<NewestMessage>,
    /// Active rules, newest first.
    pub rules: Vec<Rule>,
    /// Other sentences since the last cut, newest message first.
    pub rest: Vec<SaidSentence>,
    /// Sentences from before the last cut that may hold beyond their request, newest message first.
    pub earlier: Vec<SaidSentence>,
    /// Results that the cut leaves out, if recall is offered to find them.
    pub left_out: Option<LeftOut>,
    /// Number of calls whose results came after the prompt was written.
    pub calls_since: usize,
    /// Whether recall is offered after the cut.
    pub has_recall: bool,
    /// To-do list of the whole history.
    pub todos: Vec<NumberedTodo>,
}

/// The newest message.
///
/// If it only answers the model or tells it to continue, the previous message and the model's question belong to it. So
/// does the question if it begins with an answer, and the previous message if this one reports that it is not done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewestMessage {
    request: Option<String>,
    asked: Option<String>,
    text: String,
    is_reply: bool,
}

/// A user's sentence that is not a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidSentence {
    /// The number of the message.
    pub message: usize,
    pub text: String,
    /// How much the sentence is worth a place in the block.
    pub worth: i32,
    /// Whether the sentence is over if its request is done.
    pub is_over: bool,
    /// Whether a later statement has another value, possibly for the same thing.
    pub replaced: bool,
}

/// Worth above which a statement may hold beyond its request. Nearly all rules without a word of a rule are above it.
const OUTLASTS: i32 = -300;

/// A sentence before its selection.
struct Candidate {
    /// Numbers of the message and of the sentence in it.
    at: (usize, usize),
    /// The effect on later work; `None` if the sentence neither is a rule nor lifts one.
    saying: Option<RuleStatement>,
    score: Score,
    /// Whether the sentence asks for something.
    asks: bool,
    /// The sentence as it was said, on one line.
    text: String,
}

impl Candidate {
    /// Whether the sentence is carried apart from the rules.
    ///
    /// A sentence that lifts a rule is not a rule, but the model must still read it.
    fn is_rest(&self) -> bool {
        matches!(self.saying, None | Some(RuleStatement::Lifts))
            && !requests::is_reply(&self.text)
            && !said::is_stub(&self.text)
    }

    /// Whether the sentence may hold beyond its request: it lifts a rule, or states something that is worth carrying.
    fn may_outlast(&self) -> bool {
        self.saying.is_some() || !self.asks && !self.score.is_over && self.score.worth() > OUTLASTS
    }

    /// The sentence with the words of the model that it refers to; `None` if it is quoted, and not the user's own.
    fn in_message(mut self, message: &UserMessage) -> Option<Self> {
        if message.quoted.contains(&self.text) {
            return None;
        }
        // A choice is meaningless without its option.
        if let Some(words) = message.choices.get(&self.text) {
            self.text = said::in_answer(&self.text, words);
            self.saying = self.saying.or(Some(RuleStatement::Seems));
        }
        // `It fails when I open it:` says little without the error below it.
        let is_beside = |error: &&PastedError| error.beside.trim_end().ends_with(&self.text);
        let error = message.error.as_ref().filter(|_| self.saying.is_none());
        if let Some(error) = error.filter(is_beside) {
            self.text = format!("{} (pasted: {})", self.text, error.text);
        }
        Some(self)
    }
}

/// The newest to-do list of a transcript's calls, redacted; empty if there is none.
pub fn todo_list(uses: &[ToolUse<'_>], redactor: &Redactor) -> Vec<NumberedTodo> {
    let mut todos = work::todo_list(uses, 0);
    for todo in &mut todos {
        todo.item.text = redactor.text(&todo.item.text).into_owned();
    }
    todos
}

/// The user's statements, each once, without those that a later one replaced or lifted.
///
/// A statement that replaced a rule is a rule itself.
pub fn users_words(sources: &RuleSources<'_>) -> UsersWords {
    let markers: Vec<String> = sources.markers.iter().map(|word| word.to_lowercase()).collect();
    let earlier = sources.earlier;
    let [stated, carried] = [earlier.said.len(), earlier.said.len() + earlier.rules.len()];
    let messages = &sources.said.0;
    let said = messages.iter().map(|message| message.typed.clone());
    // The words of an earlier handoff are older than the remaining history.
    let before = earlier.said.iter().rev().chain(earlier.rules.iter().rev());
    let texts: Vec<String> = before.cloned().chain(said).collect();
    let mut candidates = candidates(&texts, messages, stated, &markers);
    // The history may still have it. Its sentences would be joined otherwise.
    let said = format!(" {} ", plain(&texts[carried..].join("\n")));
    candidates.retain(|one| one.at.0 >= stated || !said.contains(&format!(" {} ", plain(&one.text))));
    let spoken = texts.iter().enumerate();
    let spoken: Vec<SpokenText<'_>> = spoken
        .map(|(turn, text)| SpokenText::new(turn, true, text))
        .collect();
    let statements = Statements::from_texts(&spoken);
    let mut held = ActiveRules::new(sources.redactor);
    // Newest first, so that sentences that lift a rule come before the rule.
    let with_force = candidates.iter().rev().filter(|one| one.saying.is_some());
    for candidate in of_all_messages(with_force.collect()) {
        held.add(candidate, &statements);
    }
    let newest = newest(messages, earlier.newest.as_deref(), sources.redactor);
    // Candidates number the carried rules first, and the messages after them.
    let since = carried + since(messages, sources.since);
    let (before, after) = candidates.split_at(candidates.partition_point(|one| one.at.0 < since));
    let after = after.iter().rev().filter(|one| one.is_rest());
    let rest = held.sentences(after.collect(), &statements);
    let before = before.iter().rev();
    let before = before.filter(|one| one.may_outlast() && one.is_rest());
    let earlier = held.sentences(before.collect(), &statements);
    UsersWords {
        newest,
        left_out: None,
        calls_since: 0,
        has_recall: false,
        todos: Vec::new(),
        rules: held.rules(sources.without, &texts[carried..], carried),
        rest,
        earlier,
    }
}

/// The sentences of these messages, oldest first. `messages` are the last of them, the first `stated` are carried statements,
/// and the others carried rules.
fn candidates(
    texts: &[String],
    messages: &[UserMessage],
    stated: usize,
    markers: &[String],
) -> Vec<Candidate> {
    let carried = texts.len() - messages.len();
    let found = texts.iter().enumerate().flat_map(|(turn, text)| {
        let typed = said::in_lines(text.lines(), markers).into_iter();
        let mut typed: Vec<TypedSentence> = typed.collect();
        let has_force = typed.iter().any(|one| one.saying.is_some());
        let message = turn.checked_sub(carried).map(|at| &messages[at]);
        let is_rule = (stated..carried).contains(&turn);
        if is_rule && (!has_force || said::is_in_answer(text)) {
            // No rule by its own words: it was carried because it replaced a rule, or because it is an answer.
            typed = vec![TypedSentence::new(Some(RuleStatement::Holds), text)];
        }
        // `B` is shorter than a sentence.
        let first = text.lines().next().unwrap_or_default().trim();
        let is_choice = message.is_some_and(|message| message.choices.contains_key(first));
        if is_choice && !typed.iter().any(|one| one.text == first) {
            typed.insert(0, TypedSentence::new(None, first));
        }
        // `These rules hold:` means nothing without the lines after it.
        let is_heading = |text: &str| text.trim_end().ends_with([':', '：']);
        let place = move |(n, one): (usize, TypedSentence)| {
            let text = one.whole();
            Candidate {
                at: (turn, n),
                score: one.score,
                asks: one.asks,
                saying: one.saying.filter(|_| !is_heading(&text)),
                text,
            }
        };
        typed.into_iter().enumerate().map(place)
    });
    let of_message = |one: Candidate| match one.at.0.checked_sub(carried) {
        Some(at) => one.in_message(&messages[at]),
        None => Some(one),
    };
    found
        .filter_map(of_message)
        .filter(|one| !is_edge(&one.text))
        .collect()
}

/// At most [`MAX_SENTENCES`] of the candidates, in their order. The first [`MAX_OF_MESSAGE`] of each message come before
/// the others, and the [`NEWEST`] before those that are worth less than older ones.
fn of_all_messages(candidates: Vec<&Candidate>) -> Vec<&Candidate> {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    let ranked = candidates.iter().enumerate().map(|(at, one)| {
        let count = counts.entry(one.at.0).or_default();
        *count += 1;
        let worth = if at < NEWEST { i32::MAX } else { one.score.worth() };
        (*count > MAX_OF_MESSAGE, Reverse(worth), at)
    });
    let mut ranked: Vec<(bool, Reverse<i32>, usize)> = ranked.collect();
    ranked.sort_unstable();
    ranked.truncate(MAX_SENTENCES);
    ranked.sort_unstable_by_key(|(.., at)| *at);
    ranked.into_iter().map(|(.., at)| candidates[at]).collect()
}

/// Index of the first message after the last cut; 0 if there is none, because then the work before the cut continues.
fn since(messages: &[UserMessage], cut: Option<usize>) -> usize {
    let first = cut.and_then(|cut| messages.iter().position(|message| message.turn > cut));
    first.unwrap_or_default()
}

/// The newest message; if it is a reply to the model, with the question and the request before it. That request may be
/// the `earlier` one, which a handoff carried.
fn newest(messages: &[UserMessage], earlier: Option<&str>, redactor: &Redactor) -> Option<NewestMessage> {
    let Some((last, before)) = messages.split_last() else {
        return earlier.map(|earlier| NewestMessage {
            text: earlier.to_owned(),
            ..NewestMessage::default()
        });
    };
    let clean =
        |text: String| Some(redactor.cleaned(&text)).filter(|text| !text.is_empty() && !is_edge(text));
    let text = clean(whole(last))?;
    let is_answer = !last.asked.is_empty() && requests::is_answer(&text);
    let goes_on = |text: &str| requests::is_reply(text) || requests::continues(text);
    let is_reply = is_answer || goes_on(&last.text);
    let is_complaint = |text: &str| requests::is_complaint(text);
    let is_request = |text: &str| !goes_on(text) && !is_complaint(text);
    let request = before.iter().rev().find(|message| is_request(&message.text));
    // An earlier handoff may have carried this very message.
    let earlier = earlier.map(|earlier| earlier.strip_suffix(&*text).unwrap_or(earlier));
    let request = match request {
        Some(message) => clean(whole(message)),
        None => earlier
            .map(str::trim_end)
            .filter(|earlier| !earlier.is_empty())
            .map(str::to_owned),
    };
    let request = request.filter(|_| is_reply || is_complaint(&last.text));
    let asked = Some(one_line(&last.asked, MAX_CARRIED_BYTES));
    let asked = asked.filter(|_| is_reply || requests::accepts(&last.text));
    Some(NewestMessage {
        request,
        asked: asked.and_then(clean),
        text,
        is_reply,
    })
}

/// A newest message as it is quoted.
pub(super) struct NewestParts<'m> {
    pub(super) request: Option<&'m str>,
    /// Whether the request is done. It then only shows the subject of a reply.
    pub(super) is_done: bool,
    pub(super) asked: Option<&'m str>,
    pub(super) text: &'m str,
}

impl NewestMessage {
    /// The parts of the message as it is quoted: the request before it, the model's question, and its text. A finished request
    /// stands only with a reply that has nothing else. `None` if nothing remains that shows the task.
    pub(super) fn parts(&self, finished: &[SeenStatement]) -> Option<NewestParts<'_>> {
        let is_finished = |text: &str| finished.iter().any(|done| done.text == joined(text));
        let is_done = self.request.as_deref().is_some_and(is_finished);
        let asked = self.asked.as_deref();
        let is_only_reply = self.is_reply && asked.is_none() && requests::is_reply(&self.text);
        let says = match is_only_reply {
            true => self.request.is_some() && !(is_done && requests::is_praise(&self.text)),
            false => self.is_reply || !is_finished(&self.text),
        };
        let request = self.request.as_deref().filter(|_| !is_done || is_only_reply);
        says.then_some(NewestParts {
            request,
            is_done,
            asked,
            text: &self.text,
        })
    }
}

/// The text of a message. A long one is shortened to its typed lines, or to an accepted plan, and both ends of the rest.
fn whole(message: &UserMessage) -> String {
    /// Maximum size of both ends in bytes.
    const MAX_ENDS_BYTES: usize = 1000;
    let text = message.text.trim();
    let first = match said::is_plan(text) {
        true => text,
        false => &message.typed,
    };
    let error = message.error.as_ref().map_or("", |error| &error.text);
    let first = &[first, error].join("\n");
    match MAX_TYPED_BYTES.checked_sub(first.len()) {
        _ if text.len() <= MAX_MESSAGE_BYTES => text.to_owned(),
        Some(room) => ends(text, room.min(MAX_ENDS_BYTES), first),
        None => ends(first, MAX_TYPED_BYTES, ""),
    }
}

/// The beginning and the end of a message in about `most` bytes, and the lines of `between` that neither of them has.
fn ends(text: &str, most: usize, between: &str) -> String {
    if text.len() <= most + between.len() {
        return text.to_owned();
    }
    let head = &text[..floor(text, most * 2 / 3)];
    let tail = &text[ceil(text, text.len() - most / 3)..];
    let lines = between.lines();
    let lacking: Vec<&str> = lines
        .filter(|line| !head.contains(line) && !tail.contains(line))
        .collect();
    let parts = [head, &lacking.join("\n"), tail];
    parts.map(str::trim).join(" […] ").replace(" […]  […] ", " […] ")
}

/// The active rules found so far, newest first.
struct ActiveRules<'r> {
    redactor: &'r Redactor,
    rules: Vec<((usize, usize), Rule)>,
    /// Wordings of the rules and other sentences so far.
    known: HashSet<String>,
    /// Later sentences that lift rules.
    lifting: Vec<Statement>,
    /// Numbers of the messages that the one after them retracts.
    retracted: HashSet<usize>,
}

impl<'r> ActiveRules<'r> {
    fn new(redactor: &'r Redactor) -> Self {
        Self {
            redactor,
            rules: Vec::new(),
            known: HashSet::new(),
            lifting: Vec::new(),
            retracted: HashSet::new(),
        }
    }

    fn add(&mut self, candidate: &Candidate, statements: &Statements<'_>) {
        let Candidate {
            at,
            saying,
            score,
            text,
            ..
        } = candidate;
        let Some(saying) = saying.filter(|saying| *saying != RuleStatement::Lifts) else {
            self.lifting.push(said::lifting(text));
            return;
        };
        let statement = Statement::from_sentence(text);
        if self.lifting.iter().any(|later| said::lifts(later, &statement)) {
            return;
        }
        let fate = statements.of_whole(&SpokenText::new(at.0, true, text));
        if let Some((_, by)) = fate {
            // The replacement is a rule even if its own words would not make it one.
            let by = statements.newest(by);
            let mut rules = self.rules.iter();
            let is_known = rules.any(|((turn, _), rule)| *turn == by.turn && has_word(&rule.text, by.text));
            // The report of a fault may name a value, and replaces no rule. An order that lifts a prohibition is over when it is done.
            let lifts = by.orders && statement.forbids;
            if !is_known && !lifts && !said::describes(by.text) {
                let saying = match by.statement.forbids {
                    true => RuleStatement::Forbids,
                    false => RuleStatement::Holds,
                };
                // `usize::MAX` sorts it as the last sentence of its message.
                self.hold((by.turn, usize::MAX), by.text, saying, 0, by.replaced.is_some());
            }
        }
        // A rule that is only possibly replaced stays, and is marked.
        if !matches!(fate, Some((Relation::Surely, _))) {
            let replaced = fate.is_some() || self.retracted.contains(&at.0);
            self.hold(*at, text, saying, score.holds, replaced);
        }
        if said::retracts(text) {
            self.retracted.extend(at.0.checked_sub(1));
        }
    }

    fn hold(&mut self, at: (usize, usize), text: &str, saying: RuleStatement, score: i32, replaced: bool) {
        let text = self.clean(text);
        if self.known.insert(plain(&text)) {
            let rule = Rule {
                text,
                forbids: saying == RuleStatement::Forbids,
                seems: saying == RuleStatement::Seems,
                score,
                replaced,
                message: String::new(),
            };
            self.rules.push((at, rule));
        }
    }

    /// The sentences among some that are not rules.
    fn sentences(&mut self, of: Vec<&Candidate>, statements: &Statements<'_>) -> Vec<SaidSentence> {
        let chosen = of_all_messages(of).into_iter();
        chosen.filter_map(|one| self.sentence(one, statements)).collect()
    }

    /// A sentence that is not a rule; `None` if it was repeated or replaced later.
    fn sentence(&mut self, candidate: &Candidate, statements: &Statements<'_>) -> Option<SaidSentence> {
        let fate = statements.of_whole(&SpokenText::new(candidate.at.0, true, &candidate.text));
        if matches!(fate, Some((Relation::Surely, _))) {
            return None;
        }
        let text = self.clean(&candidate.text);
        self.known.insert(plain(&text)).then_some(SaidSentence {
            message: candidate.at.0,
            text,
            worth: candidate.score.worth(),
            is_over: candidate.score.is_over,
            // An order replaces no earlier one; both may hold.
            replaced: fate.is_some() && !requests::asks(&candidate.text),
        })
    }

    fn clean(&self, text: &str) -> String {
        self.redactor.cleaned(&one_line(text, MAX_CARRIED_BYTES))
    }

    /// The rules except those in `without`, each with its message: those of the newest message first, each in the user's order.
    ///
    /// The first of `messages` has the number `first`.
    fn rules(mut self, without: &[String], messages: &[String], first: usize) -> Vec<Rule> {
        for ((turn, _), rule) in &mut self.rules {
            if let Some(message) = turn.checked_sub(first).and_then(|at| messages.get(at)) {
                rule.message = self.redactor.cleaned(&joined(message));
            }
        }
        // Compared without marks, because those depend on the state of the work at each handoff.
        let dropped: HashSet<String> = without.iter().map(|text| plain(rule::unmarked(text))).collect();
        self.rules.sort_by_key(|((turn, n), _)| (Reverse(*turn), *n));
        let rules = self.rules.into_iter().map(|(_, rule)| rule);
        rules
            .filter(|rule| !dropped.contains(&plain(&rule.text)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::ends;

    #[test]
    fn the_ends_of_a_message_have_the_lines_between_them() {
        assert_eq!(ends("abcdef", 6, "cd"), "abcdef");
        assert_eq!(ends("abcdefghijklmnopqr", 6, "cd\nef\nr"), "abcd […] ef […] qr");
        assert_eq!(ends("abcdefghi", 6, ""), "abcd […] hi");
    }
}
