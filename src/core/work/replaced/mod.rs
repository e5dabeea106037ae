//! Statements that a later one replaces: "use port 9001", then "actually use 9002". Pure.
//!
//! Drafts and carried rules depend on this. An earlier statement is only omitted if the later one repeats all of it
//! except the value. If they may be about two things, both stay, and the earlier one is marked.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

mod order;
mod relation;
mod statement;
mod value;

use self::relation::{may_replace, relation};
pub(crate) use self::statement::{Relation, Statement, ValueStatement, gives_value};
use self::value::ValueKind;
use crate::text::newest;
use crate::text::prose::{TextPiece, one_line, pieces};

/// Maximum number of earlier statements with the same word or value to compare; the newest are kept.
const ALIKE: usize = 16;

/// Something that the user or the model said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpokenText<'i> {
    /// The turn's number.
    pub(crate) turn: usize,
    pub(crate) by_user: bool,
    pub(crate) text: &'i str,
}

/// Bytes of a sentence that identify it.
pub(crate) const SENTENCE: usize = 280;

/// A sentence: the number of its turn, whether the user said it, and a hash of its words.
type SentenceKey = (usize, bool, u64);

/// The statements of a conversation in order, with their replacements.
#[derive(Debug, Default)]
pub(crate) struct Statements<'i> {
    said: Vec<ValueStatement<'i>>,
    /// For each sentence that is a statement, its index in `said`; empty if none was replaced.
    places: HashMap<SentenceKey, usize>,
    /// The sentences of turns that replace something.
    repeated: HashSet<SentenceKey>,
}

impl<'i> SpokenText<'i> {
    pub(crate) fn new(turn: usize, by_user: bool, text: &'i str) -> Self {
        Self { turn, by_user, text }
    }

    fn key(&self, sentence: &str) -> SentenceKey {
        let mut hasher = DefaultHasher::new();
        one_line(sentence, SENTENCE).hash(&mut hasher);
        (self.turn, self.by_user, hasher.finish())
    }
}

impl<'i> Statements<'i> {
    /// Reads the statements of a conversation, oldest first.
    pub(crate) fn from_texts(texts: &[SpokenText<'i>]) -> Self {
        let mut found = Self::default();
        let mut earlier = Earlier::default();
        let mut has_prohibition = false;
        for text in texts {
            let all: Vec<TextPiece<'i>> = pieces(text.text).collect();
            let from = found.said.len();
            for (at, piece) in all.iter().enumerate() {
                let statement = Statement::from_sentence(piece.text);
                let next = all.get(at + 1).map(|next| next.text);
                let orders = has_prohibition && text.by_user && order::is_order(piece.text, next);
                // Code is quoted more often than it is stated; only `key: value` counts there.
                if (orders || statement.can_change()) && (statement.keyed || !piece.code) {
                    found.said.push(ValueStatement {
                        turn: text.turn,
                        by_user: text.by_user,
                        text: piece.text,
                        statement,
                        bare: false,
                        orders,
                        replaced: None,
                    });
                }
            }
            let bare = found.said[from..].iter().all(|said| said.statement.keyed)
                && found.said.len() - from == all.len();
            for at in from..found.said.len() {
                found.said[at].bare = bare;
                // Compared before any of them is added, because statements of one text do not replace each other.
                earlier.compare(&mut found.said, at);
            }
            for at in from..found.said.len() {
                // An order by itself is not replaced, because it is over when it is done.
                if found.said[at].statement.can_change() {
                    earlier.add(&found.said[at], at);
                }
            }
            has_prohibition |= found.said[from..]
                .iter()
                .any(|said| said.by_user && said.statement.forbids);
        }
        let replacing = found.said.iter().filter_map(|said| Some(said.replaced?.1));
        let turns: HashSet<usize> = replacing.map(|by| found.said[by].turn).collect();
        if turns.is_empty() {
            return found;
        }
        let key =
            |said: &ValueStatement<'_>| SpokenText::new(said.turn, said.by_user, said.text).key(said.text);
        found.places = found.said.iter().map(key).zip(0..).collect();
        for text in texts.iter().filter(|text| turns.contains(&text.turn)) {
            let keys = pieces(text.text).map(|piece| text.key(piece.text));
            found.repeated.extend(keys);
        }
        found
    }

    /// How a sentence was replaced, and by which statement; `None` if it still holds.
    pub(crate) fn fate(&self, text: &SpokenText<'_>, sentence: &str) -> Option<(Relation, usize)> {
        let at = self.places.get(&text.key(sentence))?;
        self.said[*at].replaced
    }

    /// How a whole text was replaced, and by which statement.
    ///
    /// The text is surely replaced if every sentence is, or if the replacing turn repeats it.
    pub(crate) fn of_whole(&self, text: &SpokenText<'_>) -> Option<(Relation, usize)> {
        // Most conversations replace nothing, and need no keys of sentences.
        if self.places.is_empty() {
            return None;
        }
        let mut replaced: Option<(Relation, usize)> = None;
        let mut rest = Vec::new();
        for piece in pieces(text.text) {
            match self.fate(text, piece.text) {
                Some(fate) => replaced = Some(replaced.map_or(fate, |known| known.min(fate))),
                None => rest.push(piece.text),
            }
        }
        let (relation, by) = replaced?;
        let there = SpokenText::new(self.said[by].turn, text.by_user, text.text);
        let is_over = rest.iter().all(|piece| self.repeated.contains(&there.key(piece)));
        Some((if is_over { relation } else { Relation::Perhaps }, by))
    }

    /// The newest statement that surely stands in for another one.
    pub(crate) fn newest(&self, mut by: usize) -> &ValueStatement<'i> {
        while let Some((Relation::Surely, later)) = self.said[by].replaced {
            by = later;
        }
        &self.said[by]
    }

    /// The text verbatim, with a mark after each statement that was replaced.
    pub(crate) fn marked<'t>(&self, text: SpokenText<'t>) -> Cow<'t, str> {
        let whole = text.text;
        let mut out = String::new();
        let mut copied = 0;
        for sentence in pieces(whole).map(|piece| piece.text) {
            let Some((relation, by)) = self.fate(&text, sentence) else {
                continue;
            };
            let end = sentence.as_ptr() as usize - whole.as_ptr() as usize + sentence.len();
            out.push_str(&whole[copied..end]);
            out.push_str(&self.mark(relation, by));
            copied = end;
        }
        if copied == 0 {
            return Cow::Borrowed(whole);
        }
        out.push_str(&whole[copied..]);
        Cow::Owned(out)
    }

    pub(crate) fn mark(&self, relation: Relation, by: usize) -> String {
        let turn = self.said[by].turn;
        match relation {
            Relation::Surely => format!(" [replaced in turn {turn}]"),
            Relation::Perhaps => format!(" [replaced in turn {turn} where the two conflict]"),
        }
    }
}

/// Finds earlier statements by their subject and by their values.
#[derive(Default)]
struct Earlier {
    /// Statements by each word of their subject.
    about: HashMap<u64, Vec<usize>>,
    /// Statements by each of their values.
    values: HashMap<String, Vec<usize>>,
    /// The last statement with a value of each kind, and of each kind and unit.
    last: HashMap<ValueKind, usize>,
    last_of_unit: HashMap<(ValueKind, Option<u64>), usize>,
}

impl Earlier {
    fn add(&mut self, said: &ValueStatement<'_>, at: usize) {
        let place = |places: &mut Vec<usize>| {
            newest::push(places, ALIKE, at);
        };
        for word in &said.statement.about {
            place(self.about.entry(*word).or_default());
        }
        for value in &said.statement.values {
            place(self.values.entry(value.text.clone()).or_default());
            self.last.insert(value.kind, at);
            self.last_of_unit.insert((value.kind, value.unit), at);
        }
    }

    /// Records which earlier statements this one replaces. Statements of the same text are excluded.
    fn compare(&self, said: &mut [ValueStatement<'_>], at: usize) {
        let (before, rest) = said.split_at_mut(at);
        let Some(later) = rest.first() else { return };
        let about = later.statement.about.iter();
        let about = about.filter_map(|word| self.about.get(word));
        let texts = later.statement.values.iter().map(|value| &value.text);
        let values = texts.filter_map(|text| self.values.get(text));
        let mut alike: Vec<usize> = about.chain(values).flatten().copied().collect();
        alike.sort_unstable();
        alike.dedup();
        let mut replaces = false;
        for place in alike {
            let Some(relation) = relation(&before[place], later) else {
                continue;
            };
            replaces = true;
            let known = &mut before[place].replaced;
            // A sure replacement is not weakened by a later possible one.
            if known.is_none_or(|(known, _)| known <= relation) {
                *known = Some((relation, at));
            }
        }
        // "Actually 9002" refers to the last value of the same kind, and not to the 3 of "add 3 tests".
        let new = &later.statement;
        if !replaces && new.corrects && !new.changes && new.about.len() <= 1 {
            let values = || new.values.iter().filter(|value| value.kind != ValueKind::Words);
            let alike = values().find_map(|value| self.last_of_unit.get(&(value.kind, value.unit)));
            let last = alike.or_else(|| values().find_map(|value| self.last.get(&value.kind)));
            if let Some(last) = last.map(|last| &mut before[*last])
                && may_replace(last, later)
            {
                last.replaced = last.replaced.or(Some((Relation::Perhaps, at)));
            }
        }
    }
}
