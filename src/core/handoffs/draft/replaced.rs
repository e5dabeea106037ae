//! Kept sentences that a later one replaces.

use std::borrow::Cow;

use super::excerpt::one_line;
use super::markers::AnchoredSentence;
use crate::handoffs::replaced::{Relation, SENTENCE, SpokenText, Statements};

impl<'i> Statements<'i> {
    /// A kept sentence as it is to be shown; `None`: a later one says it with another value.
    pub(super) fn shown(
        &self,
        turn: usize,
        anchor: &'i AnchoredSentence,
    ) -> Option<Cow<'i, AnchoredSentence>> {
        match self.fate(&spoken(turn, anchor), &anchor.text) {
            None => Some(Cow::Borrowed(anchor)),
            Some((Relation::Surely, _)) => None,
            Some((Relation::Perhaps, by)) => Some(Cow::Owned(AnchoredSentence {
                text: format!("{}{}", anchor.text, self.mark(Relation::Perhaps, by)),
                ..anchor.clone()
            })),
        }
    }

    /// The newest statement that replaces a kept sentence, with its turn: it is kept in the sentence's place.
    pub(super) fn instead(
        &self,
        turn: usize,
        anchor: &AnchoredSentence,
    ) -> Option<(usize, AnchoredSentence)> {
        let (_, by) = self.fate(&spoken(turn, anchor), &anchor.text)?;
        let said = self.newest(by);
        let mark = said.replaced.map(|(relation, by)| self.mark(relation, by));
        let instead = AnchoredSentence {
            class: anchor.class,
            by_person: said.by_person,
            text: one_line(said.text, SENTENCE) + &mark.unwrap_or_default(),
        };
        Some((said.turn, instead))
    }
}

fn spoken<'a>(turn: usize, anchor: &'a AnchoredSentence) -> SpokenText<'a> {
    SpokenText {
        turn,
        by_person: anchor.by_person,
        text: &anchor.text,
    }
}
