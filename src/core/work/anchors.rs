//! The sentences of a conversation that a draft keeps. Pure.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::excerpt::one_line;
use super::markers::{self, AnchoredSentence, SENTENCE, SentenceClass};
use super::message::{IndexedCall, IndexedText};
use super::replaced::{Relation, SpokenText, Statement, Statements};
use super::said;
use super::turns::IndexedTurn;
use crate::agents::wordings::UserText;
use crate::text::newest;

/// Number of last turns whose sentences about something blocked count.
const BLOCKED_TURNS: usize = 3;

/// Sentences to keep, in order of their turns.
///
/// Keeps the last occurrence of each wording and the newest of each value. Of the sentences that leave something
/// open, it keeps those that nothing has settled.
pub(crate) fn anchors<'i>(
    turns: &[IndexedTurn<'i>],
    left_open: &LeftOpen<'i>,
    statements: &Statements<'i>,
) -> Vec<(usize, Cow<'i, AnchoredSentence>)> {
    let mut seen = HashMap::new();
    let mut lifting: Vec<Statement> = Vec::new();
    let mut found: Vec<(usize, Cow<'i, AnchoredSentence>)> = Vec::new();
    // Backwards, so that the newest occurrence of a wording is the one that stays.
    for turn in turns.iter().rev() {
        let spoken = turn.replies.iter().rev().chain(turn.opening.iter().rev());
        for anchor in spoken.flat_map(|spoken| spoken.anchors.iter().rev()) {
            let is_over = match anchor.class {
                SentenceClass::LeftOpen => !left_open.holds(anchor),
                SentenceClass::Blocker => turn.n + BLOCKED_TURNS <= turns.len(),
                _ => false,
            };
            if is_over {
                continue;
            }
            match anchor.class {
                SentenceClass::Lift => lifting.push(said::lifting(&anchor.text)),
                SentenceClass::Constraint if !lifting.is_empty() => {
                    let statement = Statement::from_sentence(&anchor.text);
                    if lifting.iter().any(|later| said::lifts(later, &statement)) {
                        continue;
                    }
                }
                _ => {}
            }
            // The replacing sentence may have no marker word of its own.
            let instead = statements.instead(turn.n, anchor).filter(|_| is_kept(anchor));
            let instead = instead.map(|(turn, instead)| (turn, Cow::Owned(instead)));
            let shown = statements.shown(turn.n, anchor).map(|anchor| (turn.n, anchor));
            for (turn, anchor) in instead.into_iter().chain(shown) {
                // Kept sentences are listed once, whatever their class; others may be listed under two classes.
                let class = (!is_kept(&anchor)).then_some(anchor.class);
                match seen.entry((class, anchor.text.to_lowercase())) {
                    Entry::Vacant(free) => {
                        free.insert(found.len());
                        found.push((turn, anchor));
                    }
                    // A sentence that replaces a constraint is a constraint itself.
                    Entry::Occupied(known) if anchor.class == SentenceClass::Constraint => {
                        found[*known.get()].1.to_mut().class = anchor.class;
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
    }
    found.reverse();
    // A stable sort, because replacing sentences were found at the turns of the replaced ones.
    found.sort_by_key(|(turn, _)| *turn);
    found
}

/// Everything that was said, in order: the user's words, summaries, and the model's sentences to keep.
pub(crate) fn spoken<'i>(turns: &[IndexedTurn<'i>]) -> Vec<SpokenText<'i>> {
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
pub(crate) fn is_kept(anchor: &AnchoredSentence) -> bool {
    use SentenceClass::{Blocker, Constraint, Decision, Fact, LeftOpen};
    matches!(anchor.class, Constraint | Fact | Decision | Blocker | LeftOpen)
}

/// Maximum number of remembered sentences; the newest are kept. Every statement of the model is compared with them.
const MAX_SENTENCES: usize = 24;

/// The sentences that nothing has settled, oldest first.
#[derive(Default)]
pub(crate) struct LeftOpen<'i>(Vec<OpenSentence<'i>>);

/// A sentence with the call that failed before it in the same turn.
struct OpenSentence<'i> {
    anchor: &'i AnchoredSentence,
    call: Option<&'i IndexedCall>,
}

impl<'i> LeftOpen<'i> {
    /// Adds a statement of the model, which may leave something open or settle it.
    ///
    /// `failed` is the last failed call of the turn.
    pub(crate) fn add(&mut self, statement: &'i IndexedText, failed: Option<&'i IndexedCall>) {
        self.0
            .retain(|left| !markers::mends(&statement.text, &left.anchor.text));
        for anchor in &statement.anchors {
            if anchor.class == SentenceClass::LeftOpen {
                newest::push(&mut self.0, MAX_SENTENCES, OpenSentence { anchor, call: failed });
            }
        }
    }

    /// Drops the sentences whose failed call a successful call settles.
    pub(crate) fn settle(&mut self, settles: impl Fn(&IndexedCall) -> bool) {
        self.0.retain(|left| !left.call.is_some_and(&settles));
    }

    /// Whether nothing has settled this very sentence.
    pub(crate) fn holds(&self, anchor: &AnchoredSentence) -> bool {
        // Compared by address: an equal sentence of another turn may have been settled.
        self.0.iter().any(|left| std::ptr::eq(left.anchor, anchor))
    }
}

impl<'i> Statements<'i> {
    /// A kept sentence as it is shown; `None` if a later one surely replaced it.
    pub(crate) fn shown(
        &self,
        turn: usize,
        anchor: &'i AnchoredSentence,
    ) -> Option<Cow<'i, AnchoredSentence>> {
        match self.of_whole(&spoken_text(turn, anchor)) {
            None => Some(Cow::Borrowed(anchor)),
            Some((Relation::Surely, _)) => None,
            Some((Relation::Perhaps, by)) => Some(Cow::Owned(AnchoredSentence {
                text: format!("{}{}", anchor.text, self.mark(Relation::Perhaps, by)),
                ..anchor.clone()
            })),
        }
    }

    /// The newest statement that replaces a kept sentence, with its turn.
    pub(crate) fn instead(
        &self,
        turn: usize,
        anchor: &AnchoredSentence,
    ) -> Option<(usize, AnchoredSentence)> {
        let (_, by) = self.of_whole(&spoken_text(turn, anchor))?;
        let newest = self.newest(by);
        // An order that lifts a prohibition is over when it is done.
        if newest.orders && Statement::from_sentence(&anchor.text).forbids {
            return None;
        }
        let mark = newest.replaced.map(|(relation, by)| self.mark(relation, by));
        let instead = AnchoredSentence {
            class: anchor.class,
            by_user: newest.by_user,
            text: one_line(newest.text, SENTENCE) + &mark.unwrap_or_default(),
        };
        Some((newest.turn, instead))
    }
}

fn spoken_text(turn: usize, anchor: &AnchoredSentence) -> SpokenText<'_> {
    SpokenText::new(turn, anchor.by_user, &anchor.text)
}

/// Whether `text`, in lower case, covers a required sentence, because it has most of the sentence's distinctive words.
pub(crate) fn holds(text: &str, keep: &str) -> bool {
    /// Minimum share of these words, in tenths.
    const MOST: usize = 6;
    let terms = keep.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')));
    let terms: Vec<String> = terms
        .map(|word| word.trim_matches(['.', '-', '/']).to_lowercase())
        .filter(|word| word.len() > 3 || word.bytes().any(|b| b.is_ascii_digit()))
        .collect();
    let there = terms.iter().filter(|word| text.contains(word.as_str())).count();
    there * 10 >= terms.len() * MOST
}
