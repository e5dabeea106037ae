//! The effect of a later statement on an earlier one.

use super::order;
use super::statement::{Relation, StatedValue, Statement, ValueStatement};
use super::value::ValueKind;

use Relation::{Perhaps, Surely};

/// Maximum number of words of a replaced statement that the later one lacks.
const MAX_LOST: usize = 8;

/// Overlap of the words of two statements.
struct Overlap {
    shared: usize,
    /// Numbers of words that only the earlier statement has, and only the later one.
    lost: usize,
    added: usize,
}

impl Overlap {
    fn new(old: &Statement, new: &Statement) -> Self {
        let shared = old.shared(new);
        let (lost, added) = (old.about.len() - shared, new.about.len() - shared);
        Self { shared, lost, added }
    }

    fn is_same(&self) -> bool {
        self.lost + self.added == 0
    }

    /// Whether the two share more than one word, and at least `tenths` of the shorter one's words.
    ///
    /// `more` is the number of shared subjects that are not words.
    fn is_most(&self, tenths: usize, more: usize) -> bool {
        let least = self.lost.min(self.added) + self.shared + more;
        let shared = self.shared + more;
        shared > 1 && shared * 10 >= least * tenths
    }
}

/// Whether the later statement may replace the earlier one at all. A model's words never replace the user's.
pub(super) fn may_replace(earlier: &ValueStatement<'_>, later: &ValueStatement<'_>) -> bool {
    let (old, new) = (&earlier.statement, &later.statement);
    let is_later = earlier.turn < later.turn && !new.adds;
    is_later && !old.asks && !new.asks && (later.by_user || !earlier.by_user)
}

pub(super) fn relation(earlier: &ValueStatement<'_>, later: &ValueStatement<'_>) -> Option<Relation> {
    let (old, new) = (&earlier.statement, &later.statement);
    if later.orders && earlier.by_user && earlier.turn < later.turn {
        let lifted = order::lifted(earlier.text, later.text);
        if lifted.is_some() || !new.can_change() {
            return lifted;
        }
    }
    if !may_replace(earlier, later) {
        return None;
    }
    // Statements that mark no change replace each other only if they are about exactly the same.
    let is_marked = new.corrects || old.exclusive || new.exclusive || old.keyed || old.forbids && new.forbids;
    if !is_marked && old.about != new.about {
        return None;
    }
    let words = Overlap::new(old, new);
    // The rest of a long sentence still holds.
    if words.lost > MAX_LOST {
        return None;
    }
    if old.values.is_empty() {
        return without_values(old, new, &words);
    }
    // Two long sentences that share a few words are about two things.
    let is_near =
        new.corrects || old.exclusive && new.exclusive || words.lost + words.added <= 3 * words.shared.max(1);
    let is_other =
        || !is_near || !old.of.is_empty() && !new.of.is_empty() && old.of != new.of || old.is_other_kind(new);
    with_values(earlier, later, &words).filter(|_| !is_other())
}

/// The relation to an earlier statement with values.
fn with_values(
    earlier: &ValueStatement<'_>,
    later: &ValueStatement<'_>,
    words: &Overlap,
) -> Option<Relation> {
    let (old, new) = (&earlier.statement, &later.statement);
    let gone: Vec<&StatedValue> = old.values.iter().filter(|value| !new.states(value)).collect();
    let replaced = |value: &&StatedValue| {
        let mut come = new.values.iter().filter(|value| !old.states(value));
        come.any(|other| value.is_alike(other))
    };
    if gone.is_empty() {
        // "9002 instead of 9001": the later statement repeats the old value next to the new one.
        let other = old.values.iter().any(|value| replaced(&value));
        return match new.corrects && !new.keyed {
            true if other && words.lost == 0 => Some(Surely),
            true if other || new.forbids => Some(Perhaps),
            _ => None,
        };
    }
    // Lines like `port = 9001` must have equal keys; messages of nothing but such lines replace each other surely.
    if old.keyed && new.keyed {
        let sure = earlier.bare && later.bare || new.corrects;
        return words.is_same().then_some(if sure { Surely } else { Perhaps });
    }
    if !gone.iter().all(replaced) {
        // "Use the small format, not the large one", then "actually the large one".
        let rejected = |value: &StatedValue| rejects(earlier.text, value);
        let turned = new.corrects && !new.values.is_empty() && new.values.iter().all(rejected);
        return turned.then_some(Perhaps);
    }
    of_values(old, new, words, &gone)
}

/// Whether a sentence names a value only to exclude it: `not 9002`, `not port 9002`.
fn rejects(sentence: &str, value: &StatedValue) -> bool {
    const REJECTING: [&str; 8] = ["not", "instead", "nicht", "statt", "pas", "no", "non", "não"];
    let small = sentence.to_lowercase();
    let mut found = small.match_indices(&*value.text);
    found.any(|(at, _)| {
        let mut before = small[..at].split_whitespace().rev().take(2);
        before.any(|word| REJECTING.contains(&word))
    })
}

/// The relation to an earlier statement without values: "always squash", then "never squash".
fn without_values(old: &Statement, new: &Statement, words: &Overlap) -> Option<Relation> {
    let is_turned = old.forbids != new.forbids && new.corrects && words.lost == 0;
    let is_swapped = old.forbids && new.forbids && words.lost > 0 && words.added > 0 && words.is_most(4, 0);
    let relation = if is_turned && words.is_same() {
        Surely
    } else {
        Perhaps
    };
    (new.values.is_empty() && words.shared > 0 && (is_turned || is_swapped)).then_some(relation)
}

/// The relation of statements if the later one has other values of the same kinds.
fn of_values(old: &Statement, new: &Statement, words: &Overlap, gone: &[&StatedValue]) -> Option<Relation> {
    let all = |is: fn(ValueKind) -> bool| gone.iter().all(|value| is(value.kind));
    let topics = usize::from(all(ValueKind::is_topic));
    // If two values differ, one of them may be the subject: "part_3 must stay at 30 days".
    if gone.len() > 1 && topics == 0 {
        return None;
    }
    let same = words.is_same();
    let one_only = old.exclusive && new.exclusive;
    // The later statement must repeat every word of the earlier one; otherwise something of it would be lost.
    let surely = words.lost == 0
        && match same {
            true => new.corrects && words.shared > 0 || one_only && words.shared > 1,
            false => new.corrects && words.shared > 1,
        };
    // A place or a number may be one of many things that are forbidden or required.
    let is_one = all(|kind| !matches!(kind, ValueKind::Place | ValueKind::Number));
    let forbids = old.forbids && new.forbids && is_one;
    // A sentence may name many things, but few state an amount, a date, or a topic.
    let is_single = topics > 0 || all(|kind| matches!(kind, ValueKind::Money | ValueKind::Date));
    let exclusive = match is_single {
        true => old.exclusive || new.exclusive,
        false => old.exclusive && new.exclusive,
    };
    let alike = words.is_most(5, topics) && (exclusive || forbids);
    let repeated = same && words.shared > 1 && is_one && !old.names && !new.names;
    let corrected = words.shared + topics > 0 && new.corrects;
    let named = words.shared > 0 && (same && one_only || words.lost == 0 && old.keyed);
    match () {
        () if surely => Some(Surely),
        () if alike || repeated || corrected || named => Some(Perhaps),
        () => None,
    }
}
