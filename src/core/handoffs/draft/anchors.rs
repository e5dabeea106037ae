//! The sentences of a conversation that a draft keeps. Pure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::markers::{self, AnchoredSentence, SentenceClass};
use super::message::{IndexedCall, IndexedText};
use super::turns::IndexedTurn;
use crate::agents::wordings::UserText;
use crate::handoffs::newest;
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

/// What was said, in order: the user's words, summaries, and the model's sentences to keep.
pub(super) fn spoken<'i>(turns: &[IndexedTurn<'i>]) -> Vec<SpokenText<'i>> {
    let texts = turns.iter().flat_map(|turn| {
        let by_user = |spoken: &IndexedText| spoken.kind == UserText::User;
        let opening = turn.opening.iter();
        let opening = opening.map(move |spoken| SpokenText::new(turn.n, by_user(spoken), &spoken.text));
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

/// Sentences that are remembered, the newest ones: whatever the model says is compared with them.
const MAX_SENTENCES: usize = 24;

/// The sentences that nothing has settled, oldest first.
#[derive(Default)]
pub(super) struct LeftOpen<'i>(Vec<OpenSentence<'i>>);

/// A sentence with the call that failed before it in its turn.
struct OpenSentence<'i> {
    anchor: &'i AnchoredSentence,
    call: Option<&'i IndexedCall>,
}

impl<'i> LeftOpen<'i> {
    /// Adds a statement of the model's, which leaves something open or settles it. `failed`: the turn's last failed
    /// call.
    pub(super) fn add(&mut self, statement: &'i IndexedText, failed: Option<&'i IndexedCall>) {
        self.0
            .retain(|left| !markers::mends(&statement.text, &left.anchor.text));
        for anchor in &statement.anchors {
            if anchor.class == SentenceClass::LeftOpen {
                newest::push(&mut self.0, MAX_SENTENCES, OpenSentence { anchor, call: failed });
            }
        }
    }

    /// A successful call settles the matching failures.
    pub(super) fn settle(&mut self, settles: impl Fn(&IndexedCall) -> bool) {
        self.0.retain(|left| !left.call.is_some_and(&settles));
    }

    /// Whether nothing has settled this very sentence.
    pub(super) fn holds(&self, anchor: &AnchoredSentence) -> bool {
        self.0.iter().any(|left| std::ptr::eq(left.anchor, anchor))
    }
}
