//! The checked cut: appends user statements and observed facts that a carry-over prompt omits. Pure.
//!
//! ```text
//! transcript ─► the user's own words ─► newest message, rules, the rest ─► without replaced statements
//! prompt ─► the statements, to-dos and evidence that it omits ─► by rank, one block after it, and the omitted rest
//! ```
//! Statements come from real user text only: never from results, pasted files, the harness or the model. No model is
//! asked. The same transcript and prompt give the same bytes. Must not depend on stores,
//! clocks or the writer of the prompt.

mod again;
mod block;
mod choice;
mod earlier;
mod newest;
mod prompt_index;
mod receipt;
mod rule;
mod user;

#[cfg(test)]
mod tests;

pub(crate) use again::RepeatedLookUps;
pub use again::{REQUESTS, called_again, looked_up_again};
pub use block::{LeftOut, without_blocks};
pub use earlier::{EarlierWords, RuleSources};
pub use newest::{NewestMessage, SaidSentence, UsersWords, todo_list, users_words};
pub use receipt::{Omissions, Receipt, omissions};
pub use rule::Rule;
pub use user::UserMessages;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use self::block::BlockWriter;
use self::earlier::{ASKED, DONE_BEFORE};
use self::newest::NewestParts;
use self::prompt_index::{PromptIndex, plain};
use crate::agents::todo::{NumberedTodo, TodoState};
use crate::handoffs::draft;
use crate::marker::sentinel;
use crate::record::{CarriedItem, CarriedKind, CarriedState, Handoff};
use crate::text::prose::{has_path, one_line};
use crate::work::lines::code;
use crate::work::{ClaimStatus, SeenFacts, SeenStatement, requests};

named! {
    /// `handoff.append_missing`: the kinds of items that are appended if a carry-over prompt omits them.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum CarryScope {
        /// Rules, other user statements, open to-dos, and evidence against claims.
        #[default]
        All = "all",
        /// The user's rules.
        Rules = "rules",
        /// Nothing: the prompt stays as it is.
        Off = "off",
    }
}

/// Kinds and amount of carried items.
#[derive(Debug, Clone, Copy)]
pub struct CarryPolicy {
    pub scope: CarryScope,
    /// Token budget of the block, including its headings and edges.
    pub tokens: usize,
}

/// Maximum size of a to-do item and of a contradicted claim, in bytes.
const LINE: usize = 200;
/// Maximum number of carried to-do items.
const TODOS: usize = 12;
/// Maximum number of changed files in the block; the newest are kept.
const MAX_FILES: usize = 10;
/// Tokens that rules may fill, and divisor of a larger budget: that part of it stays free of rules.
const FOR_RULES: usize = 400;
const RESERVE: usize = 2;
/// Size in bytes of a message's sentences that come by their own score: more than the longest sentence. The score of the
/// further ones is lower, so that a message with much to say does not displace the others.
const SHARE: usize = 600;
const BEYOND: i32 = 500;
/// Score of a rule by its features alone above which it comes before others of its kind.
const SEEMS_LIKELY: i32 = 100;
/// Divisor of the budget: sentences from before the last cut fill at most that part of it.
const EARLIER: usize = 4;
/// Maximum number of carried contradicted claims.
const CLAIMS: usize = 3;

/// The user's newest message in the block after a prompt, unless the prompt reports all as done.
pub fn unanswered(handoff: &Handoff) -> Option<&str> {
    let is_newest =
        |item: &&CarriedItem| item.kind == CarriedKind::Newest && item.state == CarriedState::Added;
    let newest = handoff.carried.iter().find(is_newest)?;
    (!requests::claims_done(prompt_alone(&handoff.prompt))).then_some(&*newest.text)
}

/// A stored prompt without the block after it.
pub fn prompt_alone(prompt: &str) -> &str {
    block::split(prompt).0
}

/// A carry-over prompt with the appended items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    pub prompt: String,
    /// All items that were considered, each with its state.
    pub items: Vec<CarriedItem>,
}

/// Appends the items that a prompt omits, as far as the budget allows.
///
/// Order of priority: claims that the evidence contradicts, the user's newest message, rules, open to-dos, changed files
/// that the prompt does not name, other user statements, those from before the last cut. `seen` has the facts since the last
/// handoff.
pub fn carry(prompt: &str, words: &UsersWords, seen: Option<&SeenFacts>, policy: CarryPolicy) -> Carried {
    let prompt = without_blocks(prompt);
    let prompt = prompt.trim_end();
    if policy.scope == CarryScope::Off {
        return Carried {
            prompt: prompt.to_owned(),
            items: Vec::new(),
        };
    }
    let has_all = policy.scope == CarryScope::All;
    // These lines are written even if no item is, so their tokens are not available to items. A small block has none.
    let has_closing = !block::is_short(policy.tokens);
    let left_out = words.left_out.filter(|_| has_all && has_closing);
    let since = words.calls_since;
    let since = (has_all && has_closing && since > 0).then(|| {
        let results = match since {
            1 => "result of the last call".to_owned(),
            _ => format!("results of the last {since} calls"),
        };
        format!("The prompt was written before the {results}.")
    });
    let left_out = left_out.iter().map(LeftOut::line);
    let mut closing: Vec<String> = since.into_iter().chain(left_out).collect();
    let within = |closing: &[String]| {
        let taken: usize = closing.iter().map(|line| draft::tokens(line)).sum();
        policy.tokens.saturating_sub(taken)
    };
    let mut budget = within(&closing);
    let mut items = items_within(prompt, words, seen, policy, budget);
    // The choice shows how many rules do not fit, and the line about them takes room from others.
    let more = |items: &[CarriedItem]| block::rules_left_out(items, words.has_recall).filter(|_| has_closing);
    if let Some(line) = more(&items) {
        closing.insert(0, line);
        budget = within(&closing);
        items = items_within(prompt, words, seen, policy, budget);
        closing[0] = more(&items).unwrap_or_default();
    }
    let prompt = match block::text(&items, &closing, budget) {
        // The user's words may contain text like a marker. The markers of the prompt have been escaped before.
        Some(block) => format!("{prompt}\n\n{}", sentinel::normalised(&block)),
        None => prompt.to_owned(),
    };
    Carried { prompt, items }
}

/// The items that a prompt omits, as far as a budget in tokens allows, and all others that were considered.
fn items_within(
    prompt: &str,
    words: &UsersWords,
    seen: Option<&SeenFacts>,
    policy: CarryPolicy,
    budget: usize,
) -> Vec<CarriedItem> {
    let has_all = policy.scope == CarryScope::All;
    let (before_done, has_done) = draft::without_done(prompt);
    let mut lacking = Lacking {
        // The list of finished requests does not count: a statement in it is reported as done, and need not hold.
        index: PromptIndex::from_prompt(&before_done),
        block: BlockWriter::within(budget),
        items: Vec::new(),
    };
    let unknown = SeenFacts::default();
    let seen = seen.filter(|_| has_all).unwrap_or(&unknown);
    for claim in contradicted(seen, prompt) {
        // Never counts as included: the prompt has the claim, but not the evidence against it.
        lacking.put(CarriedKind::Claim, claim, false);
    }
    let newest = words.newest.as_ref().filter(|_| has_all);
    let newest = newest.and_then(|newest| newest.parts(&seen.finished));
    let has_rules = words.rules.iter().any(|rule| !rule.seems);
    let newest = newest.and_then(|parts| lacking.newest(parts, has_rules));
    // A long list of old rules must not displace newer statements.
    let has_rest = has_all && !has_done && !words.rest.is_empty() && !block::is_short(policy.tokens);
    lacking.block.reserve = match has_rest {
        true => budget.saturating_sub(FOR_RULES).min(budget / RESERVE),
        false => 0,
    };
    lacking.rules(&words.rules, &seen.finished, newest.as_deref());
    lacking.block.reserve = 0;
    if has_all {
        lacking.todos(words);
    }
    if let Some(files) = unnamed_files(seen, prompt) {
        lacking.put(CarriedKind::Files, files, false);
    }
    // A draft that was made without a model lists all other sentences itself, as statements or as finished requests.
    if has_all && !has_done {
        lacking.rest(&words.rest, newest.as_deref(), &seen.done_requests);
    }
    lacking.further_rules();
    if has_all && !block::is_short(policy.tokens) {
        lacking.block.limit(budget / EARLIER);
        lacking.rest(&words.earlier, newest.as_deref(), &[]);
    }
    lacking.items
}

/// Collects the items that a prompt omits.
struct Lacking {
    index: PromptIndex,
    block: BlockWriter,
    items: Vec<CarriedItem>,
}

impl Lacking {
    /// Considers an item, and returns its state.
    fn put(&mut self, kind: CarriedKind, text: String, is_there: bool) -> CarriedState {
        let item = self.block.put(kind, text, is_there);
        let state = item.state;
        self.items.push(item);
        state
    }

    /// Appends the user's newest message. Returns it if the prompt or the block has it.
    fn newest(&mut self, parts: NewestParts<'_>, has_rules: bool) -> Option<String> {
        let NewestParts {
            request,
            is_done,
            asked,
            text,
        } = parts;
        let mut quoted = [request, asked, Some(text)].into_iter().flatten();
        let is_there = quoted.all(|part| self.index.has(part, false));
        let request = request.map(|request| match is_done {
            true => format!("{DONE_BEFORE}{request})"),
            false => request.to_owned(),
        });
        let asked = asked.map(|asked| format!("{ASKED}{asked})"));
        let newest: Vec<String> = [request, asked, Some(text.to_owned())]
            .into_iter()
            .flatten()
            .collect();
        // With a small budget, the newest message must leave room for rules.
        let share = if has_rules { 2 } else { 1 };
        let newest = self.block.part(CarriedKind::Newest, &newest.join("\n"), share);
        let state = self.put(CarriedKind::Newest, newest.clone(), is_there);
        // A message that did not fit must not count as the place where its rules are quoted.
        (state != CarriedState::LeftOut).then_some(newest)
    }

    /// Adds the open to-dos.
    fn todos(&mut self, words: &UsersWords) {
        for todo in open_todos(&words.todos) {
            // Compared without number and state, which a prompt words in its own way.
            let text = one_line(&todo.item.text, LINE);
            let line = format!("[{}] {}", todo.item.state.name(), one_line(&todo.text(), LINE));
            let is_there = self.index.has(&text, false);
            self.put(CarriedKind::Todo, line, is_there);
        }
    }

    /// Adds rules, newest first. Prohibitions have priority if not all rules fit, and explicit rules over others.
    ///
    /// A rule that the newest message quotes counts as included.
    fn rules(&mut self, rules: &[Rule], finished: &[SeenStatement], newest: Option<&str>) {
        let shown = newest.map(PromptIndex::from_prompt);
        let mut ranked: Vec<(usize, &Rule)> = rules.iter().enumerate().collect();
        ranked.sort_by_key(|(at, rule)| {
            (
                !rule.forbids,
                rule.seems,
                rule.seems && rule.score < SEEMS_LIKELY,
                *at,
            )
        });
        let mut chosen: Vec<(usize, CarriedItem)> = Vec::new();
        for (at, rule) in ranked {
            let is_in = |index: &PromptIndex| index.has(&rule.text, rule.forbids);
            let is_there = shown.as_ref().is_some_and(is_in) || is_in(&self.index);
            let item = self.block.put(CarriedKind::Rule, rule.shown(finished), is_there);
            chosen.push((at, item));
        }
        // Chosen by priority, but listed newest first.
        chosen.sort_by_key(|(at, _)| *at);
        self.items.extend(chosen.into_iter().map(|(_, item)| item));
    }

    /// Adds more rules, if the other sentences left room.
    fn further_rules(&mut self) {
        let is_rule =
            |item: &&mut CarriedItem| item.kind == CarriedKind::Rule && item.state == CarriedState::LeftOut;
        for item in self.items.iter_mut().filter(is_rule) {
            if self.block.takes(item.kind, &item.text) {
                item.state = CarriedState::Added;
            }
        }
    }

    /// Adds the other sentences, one line per message.
    ///
    /// The best come first, as far as their message has a share, and sentences that only made a finished request come last.
    fn rest(&mut self, sentences: &[SaidSentence], newest: Option<&str>, done: &[SeenStatement]) {
        let shown = newest.map(PromptIndex::from_prompt);
        let is_shown = |text: &str| shown.as_ref().is_some_and(|shown| shown.has(text, false));
        let done: HashSet<String> = done.iter().map(|done| plain(&done.text)).collect();
        let kind_of = |one: &SaidSentence| match one.is_over && done.contains(&plain(&one.text)) {
            true => CarriedKind::Done,
            false => CarriedKind::Said,
        };
        let left = sentences.iter().filter(|one| !is_shown(&one.text));
        let left: Vec<(&SaidSentence, CarriedKind)> = left.map(|one| (one, kind_of(one))).collect();
        // The budget goes by rank. The list keeps its order, so that sentences of a message can be joined below.
        let mut order: Vec<usize> = (0..left.len()).collect();
        order.sort_by_key(|at| Reverse(left[*at].0.worth));
        let mut shares: HashMap<usize, usize> = HashMap::new();
        let ranked = order.into_iter().map(|at| {
            let (one, kind) = left[at];
            let share = shares.entry(one.message).or_default();
            *share += one.text.len();
            let beyond = if *share > SHARE { BEYOND } else { 0 };
            // A request that may be open comes before statements.
            let is_open = one.is_over && requests::asks(&one.text);
            ((kind == CarriedKind::Done, !is_open, beyond - one.worth), at)
        });
        let mut order: Vec<((bool, bool, i32), usize)> = ranked.collect();
        order.sort_by_key(|(rank, _)| *rank);
        let chosen = order.into_iter().map(|(_, at)| {
            let (one, kind) = left[at];
            let is_there = self.index.has(&one.text, false);
            let mark = if one.replaced { rule::REPLACED } else { "" };
            (at, self.block.put(kind, format!("{}{mark}", one.text), is_there))
        });
        let mut chosen: Vec<(usize, CarriedItem)> = chosen.collect();
        chosen.sort_by_key(|(at, _)| *at);
        let message_of = |(at, _): &(usize, CarriedItem)| left[*at].0.message;
        for message in chosen.chunk_by(|one, next| message_of(one) == message_of(next)) {
            for (kind, state) in [CarriedKind::Said, CarriedKind::Done]
                .into_iter()
                .flat_map(|kind| CarriedState::ALL.map(|state| (kind, state)))
            {
                let alike = message.iter().map(|(_, item)| item);
                let alike = alike.filter(|item| (item.kind, item.state) == (kind, state));
                // The sentences are newest first; within a message they read in the order of the user.
                let text: Vec<&str> = alike.rev().map(|item| &*item.text).collect();
                if !text.is_empty() {
                    let text = text.join(" ");
                    self.items.push(CarriedItem { kind, state, text });
                }
            }
        }
    }
}

/// The open items of a to-do list, those in progress first.
fn open_todos(todos: &[NumberedTodo]) -> impl Iterator<Item = &NumberedTodo> {
    let of = |state: TodoState| todos.iter().filter(move |todo| todo.item.state == state);
    of(TodoState::Active).chain(of(TodoState::Pending)).take(TODOS)
}

/// The changed files that a prompt does not name, on one line; `None` if it names all of them.
fn unnamed_files(seen: &SeenFacts, prompt: &str) -> Option<String> {
    let files = seen.files.iter().chain(&seen.doubtful_files);
    let changed: Vec<&str> = files.map(|file| &*file.path).collect();
    let end = |path: &'_ str, parts: usize| {
        let at = path.rmatch_indices(['/', '\\']).nth(parts - 1);
        path[at.map_or(0, |(at, _)| at + 1)..].to_owned()
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    changed
        .iter()
        .for_each(|path| *counts.entry(end(path, 1)).or_default() += 1);
    // A prompt may name a file by its name only, unless another one has the same name.
    let is_named = |path: &&str| {
        let name = end(path, 1);
        has_path(prompt, &if counts[&name] > 1 { end(path, 2) } else { name })
    };
    let lacking: Vec<&str> = changed.iter().copied().filter(|path| !is_named(path)).collect();
    let newest = &lacking[lacking.len().saturating_sub(MAX_FILES)..];
    let more = match lacking.len() - newest.len() {
        0 => String::new(),
        more => format!(", and {more} before"),
    };
    let newest: Vec<String> = newest.iter().map(|path| code(path)).collect();
    (!newest.is_empty()).then(|| newest.join(", ") + &more)
}

/// Statements of the prompt that the facts contradict: disproved claims, and finished work listed as open.
fn contradicted(seen: &SeenFacts, prompt: &str) -> Vec<String> {
    let claims = seen.claims(&draft::without_earlier(prompt)).into_iter();
    let wrong = claims.filter(|claim| claim.status == ClaimStatus::Contradicted);
    let wrong = wrong.map(|claim| format!("\"{}\": {}", one_line(&claim.text, LINE), claim.why));
    let open = prompt_index::stale_open_items(seen, prompt).into_iter();
    wrong.take(CLAIMS).chain(open.take(TODOS)).collect()
}
