//! The clauses of a sentence, and how they begin.

use std::ops::Range;

use super::words::WORDS;
use crate::text::phrases::Beginnings;
use crate::text::prose::has_word;
use crate::work::requests;

/// A clause of a lower-case sentence, without its leading filler words.
pub(super) struct Clause<'t> {
    pub(super) text: &'t str,
    /// Whether the sentence is an order up to here.
    pub(super) is_order: bool,
    /// Whether the clause may be an order by itself, because `and` does not join it to a statement.
    pub(super) may_order: bool,
}

pub(super) fn clauses(small: &str) -> Vec<Clause<'_>> {
    let mut all: Vec<Clause<'_>> = Vec::new();
    for part in small.split([',', ';', ':', '—', '(']) {
        let begins_joined = usize::from(part.starts_with("and "));
        let joined = part
            .split(" and ")
            .enumerate()
            .map(|(at, part)| (at + begins_joined, part));
        let texts = joined.flat_map(|(at, part)| {
            part.split(" but ")
                .enumerate()
                .map(move |(n, text)| (at > 0 && n == 0, text))
        });
        for (is_joined, text) in texts {
            let text = clause_start(text);
            // The first clause of `but no test` belongs to an earlier sentence.
            let is_first = all.is_empty()
                && !small
                    .trim_start_matches(|c: char| !c.is_alphabetic())
                    .starts_with("but ");
            let before = all.last().is_some_and(|before| before.is_order);
            let begins_denial = begins_with(text, &WORDS.denies_first);
            let is_order = before || if begins_denial { is_first } else { orders(text) };
            let may_order = !is_joined || before;
            all.push(Clause {
                text,
                is_order,
                may_order,
            });
        }
    }
    all
}

/// Whether a clause begins like an order.
fn orders(clause: &str) -> bool {
    let begins = |all: &Beginnings| begins_with(clause, all);
    begins(&WORDS.verbs)
        || begins(&WORDS.holds_first)
        || begins(&WORDS.forbids_first)
        || requests::asks(clause)
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

pub(super) fn begins_with(clause: &str, all: &Beginnings) -> bool {
    all.rests(clause).any(goes_on)
}

/// Whether a clause begins with a denial, and states nothing: `no new doors`, `keine neuen Türen`. `No I think so` and `no changes
/// are needed` forbid nothing.
pub(super) fn denies(clause: &str) -> bool {
    let states = |rest: &str| {
        let mut after = WORDS.stating.rests(rest.trim_start());
        after.any(|after| !after.starts_with(char::is_alphanumeric))
    };
    let mut rests = WORDS.denies_first.rests(clause);
    rests.any(|rest| goes_on(rest) && !states(rest)) && !WORDS.states.occur_in(clause)
}

/// Whether a sentence forbids any work, which ends with its request: `Explain it, don't change anything`.
pub(super) fn forbids_all(small: &str) -> bool {
    let is_end = |words: Range<usize>| {
        let rest = small[words.end..].trim_start();
        let mut then = WORDS.idle_then.iter().filter_map(|then| rest.strip_prefix(then));
        let is_end = |rest: &str| !rest.starts_with([' ', '/']) && !rest.starts_with(char::is_alphanumeric);
        is_end(rest) || then.any(is_end)
    };
    WORDS.idle_within.occur_in(small) || !has_word(small, "never") && WORDS.idle.found_in(small).any(is_end)
}

/// Whether the rest of a clause after its first words belongs to them.
pub(super) fn goes_on(rest: &str) -> bool {
    let next = rest.trim_start();
    // `state.field` and `use-case` are other words.
    let is_inner = |c: char| c.is_alphanumeric() || "'._-/(=".contains(c);
    !next.is_empty() && !rest.starts_with(is_inner) && !WORDS.not_first.begin(next)
}

/// Whether a sentence has a condition and then an order. `When you open it, the window moves` describes.
pub(super) fn has_condition(clauses: &[Clause<'_>]) -> bool {
    let mut rest = clauses
        .iter()
        .skip_while(|clause| !begins_with(clause.text, &WORDS.conditions));
    let orders = |clause: &Clause<'_>| clause.may_order && !begins_with(clause.text, &WORDS.stating);
    rest.next().is_some_and(|clause| clause.may_order) && rest.any(orders)
}

/// Whether a sentence begins like a request, but has a scope (`For reports, write …`) or a word such as `every`.
pub(super) fn has_verb(clauses: &[Clause<'_>], small: &str) -> bool {
    // `one which has no price` describes a thing.
    let main = small.split(" which ").next().unwrap_or_default();
    let begins_scope = |clause: &Clause<'_>| {
        let mut words = ["for ", "in ", "when "].iter();
        words.any(|word| clause.text.starts_with(word))
    };
    let has_scope = clauses.first().is_some_and(begins_scope);
    let has_all = has_word(main, "all");
    clauses.iter().enumerate().any(|(at, clause)| {
        clause.may_order
            && begins_with(clause.text, &WORDS.verbs)
            && (at > 0 && has_scope
                || WORDS.with_verb.occur_in(main)
                || has_all && !begins_with(clause.text, &WORDS.acts))
    })
}
