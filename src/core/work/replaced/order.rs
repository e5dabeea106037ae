//! Orders that lift an earlier prohibition: "don't push yet", then "now commit and push". Pure.

use super::statement::Relation;
use super::value::{WORDS, WordList, WordLists, meaning};
use crate::text::prose::lower;

/// The actions of a clause, and the meanings of the words for their object, sorted.
struct Act<'t> {
    actions: Vec<&'t str>,
    object: Vec<u64>,
}

impl<'t> Act<'t> {
    fn new(actions: Vec<&'t str>, rest: &[&str]) -> Self {
        let is_vague = |word: &str| {
            WordLists::of(word).has(WordList::Stop) || WORDS.vague.contains(&word) || is_until(word)
        };
        let object = rest.iter().filter(|word| !is_vague(word));
        let mut object: Vec<u64> = object.map(|word| meaning(word)).collect();
        object.sort_unstable();
        Self { actions, object }
    }
}

/// A prohibited act.
struct Prohibition<'t> {
    act: Act<'t>,
    /// Whether it holds for a time only: "don't push yet".
    is_temporary: bool,
}

/// Whether a user's sentence may order something without a condition.
///
/// `next` is the sentence after it, which may limit it: "Push it. But only if all tests pass."
pub(super) fn is_order(sentence: &str, next: Option<&str>) -> bool {
    let small = lower(sentence);
    let limits = next.is_some_and(|next| {
        let next = lower(next);
        let first = words(&next).next().unwrap_or_default();
        matches!(first, "but" | "wait") || WORDS.limits.contains(&first)
    });
    !limits && !words(&small).any(|word| WORDS.limits.contains(&word)) && !orders(&small).is_empty()
}

/// The effect of an order on an earlier sentence; `None` if that forbids nothing that the order is about.
pub(super) fn lifted(earlier: &str, order: &str) -> Option<Relation> {
    let (earlier, order) = (lower(earlier), lower(order));
    let clauses = clauses(&earlier);
    let forbidden: Vec<Prohibition<'_>> = clauses.iter().filter_map(|clause| prohibition(clause)).collect();
    let orders = orders(&order);
    let is_about = |action: &str, object: &[u64]| {
        let mut orders = orders.iter().filter(|order| order.actions.contains(&action));
        orders.any(|order| object.is_empty() || order.object == object)
    };
    let covers = |one: &&Prohibition<'_>| {
        let mut actions = one.act.actions.iter();
        actions.any(|action| is_about(action, &one.act.object))
    };
    let covered: Vec<&Prohibition<'_>> = forbidden.iter().filter(covers).collect();
    // An order for a part, such as `push the docs`, leaves the rest forbidden.
    let is_whole = |one: &&Prohibition<'_>| {
        let is_all = |action: &&str| {
            let mut orders = orders.iter().filter(|order| order.actions.contains(action));
            orders.any(|order| order.object == one.act.object)
        };
        one.is_temporary && one.act.actions.iter().all(is_all)
    };
    let is_sure = covered.len() == clauses.len() && covered.iter().all(is_whole);
    let relation = if is_sure {
        Relation::Surely
    } else {
        Relation::Perhaps
    };
    (!covered.is_empty()).then_some(relation)
}

/// The acts that a lower-case sentence orders.
fn orders(small: &str) -> Vec<Act<'_>> {
    clauses(small).iter().filter_map(|clause| order(clause)).collect()
}

/// The act that a clause orders. It begins with a verb, perhaps after words like `now`.
fn order<'t>(clause: &[&'t str]) -> Option<Act<'t>> {
    let (action, rest) = led(clause).split_first()?;
    // `push notifications are broken` begins with a noun.
    let is_verb = rest.first().is_none_or(|next| WORDS.after_action.contains(next));
    is_verb.then(|| Act::new(action.split('/').collect(), rest))
}

/// The act that a clause forbids.
fn prohibition<'t>(clause: &[&'t str]) -> Option<Prohibition<'t>> {
    let rest = match led(clause) {
        ["don't" | "dont", rest @ ..] | ["do", "not", rest @ ..] => rest,
        _ => return None,
    };
    let (action, mut rest) = rest.split_first()?;
    let mut actions: Vec<&str> = action.split('/').collect();
    while let ["or", other, after @ ..] = rest {
        actions.push(other);
        rest = after;
    }
    let end = rest.iter().position(|word| is_until(word));
    let is_temporary = end.is_some() || rest.iter().any(|word| WORDS.temporary.contains(word));
    let act = Act::new(actions, &rest[..end.unwrap_or(rest.len())]);
    Some(Prohibition { act, is_temporary })
}

/// The clauses of a lower-case sentence, each with its words.
fn clauses(small: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    for raw in small.split_whitespace() {
        let word = trimmed(raw);
        let joins = word.is_empty() || matches!(word, "and" | "but" | "then");
        if let Some(last) = all.last_mut().filter(|_| !joins) {
            last.push(word);
        }
        if joins || raw.ends_with([',', ';', ':', '.', '!', '?', ')']) {
            all.push(Vec::new());
        }
    }
    all.retain(|clause| !clause.is_empty());
    all
}

/// A clause without the words that lead to its verb.
fn led<'c, 't>(clause: &'c [&'t str]) -> &'c [&'t str] {
    let leads = clause
        .iter()
        .take_while(|word| WORDS.before_action.contains(word));
    &clause[leads.count()..]
}

fn is_until(word: &str) -> bool {
    matches!(word, "until" | "till")
}

fn words(small: &str) -> impl Iterator<Item = &str> {
    small.split_whitespace().map(trimmed)
}

fn trimmed(raw: &str) -> &str {
    raw.trim_matches(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_lifts_a_prohibition_of_the_same_act() {
        use Relation::{Perhaps, Surely};
        for (earlier, later, relation) in [
            ("Don't push yet.", "now commit and push", Some(Surely)),
            ("Please don’t commit yet", "Looks good, commit it.", Some(Surely)),
            ("Do not commit or push for now.", "ok commit/push", Some(Surely)),
            (
                "Don't push until I say so.",
                "Go ahead and push it!",
                Some(Surely),
            ),
            ("Don't commit or push yet.", "Commit it.", Some(Perhaps)),
            ("Don't push.", "Push it now.", Some(Perhaps)),
            ("Port it, but don't push yet.", "Can you push it?", Some(Perhaps)),
            ("Don't deploy yet.", "Deploy the hall to staging.", Some(Perhaps)),
            ("Don't push to main yet.", "Push to main.", Some(Surely)),
            ("Don't push to main.", "Now commit and push.", None),
            ("Don't change the API.", "Change the docs of the API.", None),
            ("Don't push without asking me.", "Push it.", None),
            ("Don't merge before the review.", "Merge it.", None),
            ("Never push.", "Push it.", None),
            ("Don't push yet.", "Commit it.", None),
            ("Don't push yet.", "Push notifications are broken.", None),
            ("Don't push yet.", "You pushed it.", None),
            ("Don't push yet.", "Tell me how to push it.", None),
            ("Don't push yet.", "The push is slow.", None),
        ] {
            let lifts = is_order(later, None).then(|| lifted(earlier, later)).flatten();
            assert_eq!(lifts, relation, "{earlier} {later}");
        }
    }

    #[test]
    fn a_condition_makes_no_order() {
        for order in [
            "commit and push after I reviewed",
            "Push it once the tests pass.",
            "If all is green, push it.",
            "Don't push it.",
            "We should push it.",
            "Push it later.",
            "Push only the docs.",
            "Ask me before you push.",
        ] {
            assert!(!is_order(order, None), "{order}");
        }
        for (next, is_free) in [
            ("But only if all tests pass.", false),
            ("Wait for my review first.", false),
            ("Then paint the hall.", true),
        ] {
            assert_eq!(is_order("Push it.", Some(next)), is_free, "{next}");
        }
    }
}
