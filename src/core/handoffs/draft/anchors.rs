//! The sentences of a conversation that a draft keeps. Pure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::left_open::LeftOpen;
use super::markers::{AnchoredSentence, SentenceClass};
use super::message::IndexedText;
use super::turns::IndexedTurn;
use crate::agents::wordings::UserText;
use crate::handoffs::replaced::{SpokenText, Statements};

/// Sentences to keep: of each wording the last one, of each value the newest one. Of those that leave something open, the ones
/// that nothing settled.
pub(super) fn anchors<'i>(
    turns: &[IndexedTurn<'i>],
    left_open: &LeftOpen<'i>,
    statements: &Statements<'i>,
) -> Vec<(usize, Cow<'i, AnchoredSentence>)> {
    let mut seen = HashMap::new();
    let mut found: Vec<(usize, Cow<'i, AnchoredSentence>)> = Vec::new();
    for turn in turns.iter().rev() {
        let spoken = turn.replies.iter().rev().chain(turn.opening.iter().rev());
        for anchor in spoken.flat_map(|spoken| spoken.anchors.iter().rev()) {
            if anchor.class == SentenceClass::LeftOpen && !left_open.holds(anchor) {
                continue;
            }
            let instead = statements.instead(turn.n, anchor).filter(|_| is_kept(anchor));
            let instead = instead.map(|(turn, instead)| (turn, Cow::Owned(instead)));
            let shown = statements.shown(turn.n, anchor).map(|anchor| (turn.n, anchor));
            for (turn, anchor) in instead.into_iter().chain(shown) {
                let class = (!is_kept(&anchor)).then_some(anchor.class);
                match seen.entry((class, anchor.text.to_lowercase())) {
                    Entry::Vacant(free) => {
                        free.insert(found.len());
                        found.push((turn, anchor));
                    }
                    // What replaces a constraint is one.
                    Entry::Occupied(known) if anchor.class == SentenceClass::Constraint => {
                        found[*known.get()].1.to_mut().class = anchor.class;
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
    }
    found.reverse();
    found.sort_by_key(|(turn, _)| *turn);
    found
}

/// What was said, in order: the person's words, summaries, and the model's sentences to keep.
pub(super) fn spoken<'i>(turns: &[IndexedTurn<'i>]) -> Vec<SpokenText<'i>> {
    let texts = turns.iter().flat_map(|turn| {
        let by_person = |spoken: &IndexedText| spoken.kind == UserText::Person;
        let opening = turn.opening.iter();
        let opening = opening.map(move |spoken| SpokenText::new(turn.n, by_person(spoken), &spoken.text));
        let kept = turn.replies.iter().flat_map(|spoken| &spoken.anchors);
        opening.chain(kept.map(|anchor| SpokenText::new(turn.n, false, &anchor.text)))
    });
    texts.collect()
}

/// Whether a sentence of this class must not be lost.
pub(super) fn is_kept(anchor: &AnchoredSentence) -> bool {
    use SentenceClass::{Blocker, Constraint, Decision, Fact, LeftOpen};
    matches!(anchor.class, Constraint | Fact | Decision | Blocker | LeftOpen)
}
