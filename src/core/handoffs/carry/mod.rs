//! The checked cut: what a carry-over prompt lacks of what the person said and of what was seen. Pure.
//!
//! ```text
//! transcript ─► the person's own words ─► rules ─► without what a later word replaced
//! prompt ─► what of rules, to-dos and evidence it lacks ─► one block behind it, and what did not fit
//! ```
//! Rules come from real user text alone: never from results, pasted files, the harness or the model. No model is asked.
//! The same transcript and prompt make the same bytes. Must not know: stores, clocks, who wrote the prompt.

mod again;
mod block;
mod newest;
mod open;
mod person;
mod prompt_index;
mod receipt;
mod rule;
mod words;

#[cfg(test)]
mod linear_tests;
#[cfg(test)]
mod tests;

pub use again::{REQUESTS, called_again, looked_up_again};
pub use block::without_blocks;
pub use newest::rules;
pub use person::PersonTexts;
pub use receipt::{Omissions, Receipt, omissions};
pub use rule::{Rule, RuleSources};

use self::block::BlockWriter;
use self::prompt_index::PromptIndex;
use crate::agents::todo::{TodoItem, TodoState};
use crate::handoffs::draft::{ClaimStatus, SeenFacts, one_line};
use crate::mark::sentinel;
use crate::record::{CarriedItem, CarriedKind, Handoff};

named! {
    /// `handoff.carry`: what is put behind a carry-over prompt where the prompt lacks it.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum CarryScope {
        /// Rules, open to-dos, and evidence against claims.
        #[default]
        All = "all",
        /// Rules of the person.
        Rules = "rules",
        /// Nothing: the prompt is the only thing.
        Off = "off",
    }
}

/// What may be carried, and how much of it.
#[derive(Debug, Clone, Copy)]
pub struct CarryPolicy {
    pub scope: CarryScope,
    /// Tokens of the block, with what is around it.
    pub tokens: usize,
}

/// Bytes of a to-do item, and of a contradicted claim.
const LINE: usize = 200;
/// Open items of a to-do list that are carried.
const TODOS: usize = 12;
/// Contradicted claims that are carried.
const CLAIMS: usize = 3;

/// The rules that a handoff was checked for, newest first.
pub fn rules_of(handoff: &Handoff) -> Vec<String> {
    let rules = handoff
        .carried
        .iter()
        .filter(|item| item.kind == CarriedKind::Rule);
    rules.map(|item| rule::unmarked(&item.text).to_owned()).collect()
}

/// A stored prompt without what was put behind it.
pub fn prompt_alone(prompt: &str) -> &str {
    block::split(prompt).0
}

/// The rules behind a prompt of which nothing else is known, newest first.
pub fn rules_behind(prompt: &str) -> Vec<String> {
    let rules = block::split(prompt).1.into_iter();
    rules.map(|rule| rule::unmarked(rule).to_owned()).collect()
}

/// A carry-over prompt with what it lacked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    pub prompt: String,
    /// Each rule, open to-do and contradicted claim, and where it is.
    pub items: Vec<CarriedItem>,
}

/// Puts behind a prompt what it lacks: rules (newest first), open to-dos, claims that the evidence contradicts. `seen`:
/// the work since the last handoff.
pub fn carry(prompt: &str, rules: &[Rule], seen: Option<&SeenFacts>, policy: CarryPolicy) -> Carried {
    let prompt = without_blocks(prompt);
    let prompt = prompt.trim_end();
    if policy.scope == CarryScope::Off {
        return Carried {
            prompt: prompt.to_owned(),
            items: Vec::new(),
        };
    }
    let index = PromptIndex::of(prompt);
    let mut block = BlockWriter::within(policy.tokens);
    let mut items = Vec::new();
    let seen = seen.filter(|_| policy.scope == CarryScope::All);
    for claim in seen.into_iter().flat_map(|seen| contradicted(seen, prompt)) {
        items.push(block.put(CarriedKind::Claim, claim, false));
    }
    // What is forbidden comes first where not all of it fits.
    let mut ranked: Vec<(usize, &Rule)> = rules.iter().enumerate().collect();
    ranked.sort_by_key(|(at, rule)| (!rule.forbids, *at));
    let put = |(at, rule): (usize, &Rule)| {
        let is_there = index.has(&rule.text, rule.forbids);
        (at, block.put(CarriedKind::Rule, rule.shown(), is_there))
    };
    let mut of_rules: Vec<(usize, CarriedItem)> = ranked.into_iter().map(put).collect();
    of_rules.sort_by_key(|(at, _)| *at);
    items.extend(of_rules.into_iter().map(|(_, item)| item));
    let todos = seen.map_or(&[][..], |seen| &seen.todos);
    for todo in open_todos(todos) {
        let text = one_line(&todo.text, LINE);
        let is_there = index.has(&text, false);
        items.push(block.put(
            CarriedKind::Todo,
            format!("[{}] {text}", todo.state.name()),
            is_there,
        ));
    }
    let prompt = match block::text(&items) {
        // What was said may hold what looks like a mark of ours; the prompt's are broken up already.
        Some(block) => format!("{prompt}\n\n{}", sentinel::normalised(&block)),
        None => prompt.to_owned(),
    };
    Carried { prompt, items }
}

/// The open items of a to-do list, those under way first.
fn open_todos(todos: &[TodoItem]) -> impl Iterator<Item = &TodoItem> {
    let of = |state: TodoState| todos.iter().filter(move |todo| todo.state == state);
    of(TodoState::Active).chain(of(TodoState::Pending)).take(TODOS)
}

/// What a prompt says that was seen otherwise: claims that the last runs contradict, ended things that it lists as open.
fn contradicted(seen: &SeenFacts, prompt: &str) -> Vec<String> {
    let claims = seen.claims(prompt).into_iter();
    let wrong = claims.filter(|claim| claim.status == ClaimStatus::Contradicted);
    let wrong = wrong.map(|claim| format!("\"{}\": {}", one_line(&claim.text, LINE), claim.why));
    let open = open::wrongly_open(seen, prompt).into_iter();
    wrong.take(CLAIMS).chain(open.take(TODOS)).collect()
}
