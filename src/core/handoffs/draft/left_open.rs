//! Sentences of the model's that leave something open, until a call or a later sentence settles them.

use super::markers::{self, AnchoredSentence, SentenceClass};
use super::message::{IndexedCall, IndexedText};
use crate::handoffs::newest;

/// Sentences that are remembered, the newest ones: whatever the model says is compared with them.
const MOST: usize = 24;

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
                newest::push(&mut self.0, MOST, OpenSentence { anchor, call: failed });
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
