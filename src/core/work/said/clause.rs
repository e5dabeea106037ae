//! The clauses of a sentence, and how they begin.

use std::cell::OnceCell;
use std::ops::Range;

use super::words::WORDS;
use crate::text::phrases::Beginnings;
use crate::text::prose::has_word;
use crate::work::requests;

/// A clause of a lower-case sentence, without its leading filler words.
struct Clause<'t> {
    text: &'t str,
    /// Whether `and` joins it to the clause before it.
    is_joined: bool,
}

/// The clauses of a lower-case sentence.
pub(super) struct Clauses<'t> {
    all: Vec<Clause<'t>>,
    /// Whether the first clause may belong to an earlier sentence: `but no test`.
    begins_with_but: bool,
    /// The first clause that is an order. Few questions about a sentence need it.
    first_order: OnceCell<Option<usize>>,
}

pub(super) fn clauses(small: &str) -> Clauses<'_> {
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
        all.extend(texts.map(|(is_joined, text)| Clause {
            text: clause_start(text),
            is_joined,
        }));
    }
    let start = small.trim_start_matches(|c: char| !c.is_alphabetic());
    Clauses {
        all,
        begins_with_but: start.starts_with("but "),
        first_order: OnceCell::new(),
    }
}

impl Clauses<'_> {
    /// Whether the sentence is an order before the clause at this index.
    fn is_order_before(&self, at: usize) -> bool {
        let is_order =
            |(at, clause): (usize, &Clause<'_>)| match begins_with(clause.text, &WORDS.denies_first) {
                true => at == 0 && !self.begins_with_but,
                false => orders(clause.text),
            };
        let mut all = self.all.iter().enumerate();
        let first = self.first_order.get_or_init(|| all.position(is_order));
        first.is_some_and(|first| first < at)
    }

    /// Whether the clause may be an order by itself, because `and` does not join it to a statement.
    fn may_order(&self, at: usize) -> bool {
        !self.all[at].is_joined || self.is_order_before(at)
    }

    /// Whether the clause at this index begins with one of these, and may be an order by itself.
    fn begins_order(&self, at: usize, beginnings: &Beginnings) -> bool {
        begins_with(self.all[at].text, beginnings) && self.may_order(at)
    }

    /// Whether a clause that may be an order begins with one of these, and does not describe the past.
    pub(super) fn begin_with(&self, beginnings: &Beginnings, is_past: impl Fn(&str) -> bool) -> bool {
        (0..self.all.len()).any(|at| self.begins_order(at, beginnings) && !is_past(self.all[at].text))
    }

    /// Whether the sentence is an order up to a clause that denies.
    pub(super) fn deny(&self) -> bool {
        let mut all = self.all.iter().enumerate();
        all.any(|(at, clause)| denies(clause.text) && self.is_order_before(at + 1))
    }
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

fn begins_with(clause: &str, all: &Beginnings) -> bool {
    all.rests(clause).any(goes_on)
}

/// Whether a clause begins with a denial, and states nothing: `no new doors`, `keine neuen Türen`. `No I think so` and `no changes
/// are needed` forbid nothing.
fn denies(clause: &str) -> bool {
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
pub(super) fn has_condition(clauses: &Clauses<'_>) -> bool {
    let begins = |at: usize, all: &Beginnings| begins_with(clauses.all[at].text, all);
    let mut rest = (0..clauses.all.len()).skip_while(|at| !begins(*at, &WORDS.conditions));
    let orders = |at: usize| !begins(at, &WORDS.stating) && clauses.may_order(at);
    rest.next().is_some_and(|at| clauses.may_order(at)) && rest.any(orders)
}

/// Whether a sentence begins like a request, but has a scope (`For reports, write …`) or a word such as `every`.
pub(super) fn has_verb(clauses: &Clauses<'_>, small: &str) -> bool {
    let begins_scope = |clause: &Clause<'_>| {
        let mut words = ["for ", "in ", "when "].iter();
        words.any(|word| clause.text.starts_with(word))
    };
    let has_scope = || clauses.all.first().is_some_and(begins_scope);
    // `one which has no price` describes a thing.
    let main = || small.split(" which ").next().unwrap_or_default();
    let has_all = || has_word(main(), "all");
    (0..clauses.all.len()).any(|at| {
        clauses.begins_order(at, &WORDS.verbs)
            && (at > 0 && has_scope()
                || WORDS.with_verb.occur_in(main())
                || !begins_with(clauses.all[at].text, &WORDS.acts) && has_all())
    })
}
