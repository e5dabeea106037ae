//! Statements of a value that a later one replaces: "use port 9001", then "actually use 9002". Pure.
//!
//! An earlier statement is left out only where the later one says all that it says, besides the value. Where two things may
//! be meant, both stay, and the earlier one is marked.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::excerpt::{TextPiece, one_line, pieces};
use super::markers::{AnchoredSentence, SENTENCE};
use super::statement::{Statement, ValueKind};

/// Earlier statements of the same word or value that a statement is compared with, the newest ones.
const ALIKE: usize = 16;

/// A text of the conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpokenText<'i> {
    /// Its turn's number.
    pub(super) turn: usize,
    pub(super) by_person: bool,
    pub(super) text: &'i str,
}

/// A sentence: its turn's number, whether it is the person's, and a hash of its words.
type SentenceKey = (usize, bool, u64);

/// What a later statement does to an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Relation {
    /// It has another value for what may be something else.
    Perhaps,
    /// It says all of it, with another value.
    Surely,
}

/// A sentence that states a value.
#[derive(Debug)]
struct Said<'i> {
    turn: usize,
    by_person: bool,
    text: &'i str,
    statement: Statement,
    /// Its whole text is keys and values.
    bare: bool,
    replaced: Option<(Relation, usize)>,
}

/// The statements of a conversation, in order, with those that replace others.
#[derive(Debug, Default)]
pub(super) struct Statements<'i> {
    said: Vec<Said<'i>>,
    places: HashMap<SentenceKey, usize>,
    /// The sentences of turns that replace something.
    repeated: HashSet<SentenceKey>,
}

impl<'i> SpokenText<'i> {
    pub(super) fn of_person(turn: usize, text: &'i str) -> Self {
        Self {
            turn,
            by_person: true,
            text,
        }
    }

    fn key(&self, sentence: &str) -> SentenceKey {
        let mut hasher = DefaultHasher::new();
        one_line(sentence, SENTENCE).hash(&mut hasher);
        (self.turn, self.by_person, hasher.finish())
    }
}

impl<'i> Statements<'i> {
    /// Reads texts, oldest first.
    pub(super) fn of(texts: &[SpokenText<'i>]) -> Self {
        let mut found = Self::default();
        let mut earlier = Earlier::default();
        for text in texts {
            let all: Vec<TextPiece<'i>> = pieces(text.text).collect();
            let from = found.said.len();
            for piece in &all {
                let statement = Statement::of(piece.text).filter(|statement| statement.keyed || !piece.code);
                found.said.extend(statement.map(|statement| Said {
                    turn: text.turn,
                    by_person: text.by_person,
                    text: piece.text,
                    statement,
                    bare: false,
                    replaced: None,
                }));
            }
            let bare = found.said[from..].iter().all(|said| said.statement.keyed)
                && found.said.len() - from == all.len();
            for at in from..found.said.len() {
                found.said[at].bare = bare;
                earlier.compare(&mut found.said, at);
            }
            for at in from..found.said.len() {
                found.places.insert(text.key(found.said[at].text), at);
                earlier.add(&found.said[at], at);
            }
        }
        let replacing = found.said.iter().filter_map(|said| Some(said.replaced?.1));
        let turns: HashSet<usize> = replacing.map(|by| found.said[by].turn).collect();
        for text in texts.iter().filter(|text| turns.contains(&text.turn)) {
            found
                .repeated
                .extend(pieces(text.text).map(|piece| text.key(piece.text)));
        }
        found
    }

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
        let (_, mut by) = self.fate(&spoken(turn, anchor), &anchor.text)?;
        while let Some((Relation::Surely, later)) = self.said[by].replaced {
            by = later;
        }
        let said = &self.said[by];
        let mark = said.replaced.map(|(relation, by)| self.mark(relation, by));
        let instead = AnchoredSentence {
            class: anchor.class,
            by_person: said.by_person,
            text: one_line(said.text, SENTENCE) + &mark.unwrap_or_default(),
        };
        Some((said.turn, instead))
    }

    /// A text without what was replaced, and with marks where that is not certain.
    pub(super) fn current<'t>(&self, text: SpokenText<'t>) -> Cow<'t, str> {
        let gone = pieces(text.text).find_map(|piece| match self.fate(&text, piece.text)? {
            (Relation::Surely, by) => Some(self.said[by].turn),
            (Relation::Perhaps, _) => None,
        });
        let Some(by) = gone else {
            return self.marked(text);
        };
        // What the replacing turn says again is there.
        let there = SpokenText { turn: by, ..text };
        let left_out = |sentence: &str, fate| {
            matches!(fate, Some((Relation::Surely, _))) || self.repeated.contains(&there.key(sentence))
        };
        let rest = self.rewritten(text, left_out);
        let lines = rest.lines().map(str::trim_end);
        let lines: Vec<&str> = lines
            .filter(|line| line.chars().any(char::is_alphanumeric))
            .collect();
        Cow::Owned(lines.join("\n"))
    }

    /// A text word for word, with a mark behind each statement that was replaced.
    pub(super) fn marked<'t>(&self, text: SpokenText<'t>) -> Cow<'t, str> {
        self.rewritten(text, |_, _| false)
    }

    fn rewritten<'t>(
        &self,
        text: SpokenText<'t>,
        left_out: impl Fn(&str, Option<(Relation, usize)>) -> bool,
    ) -> Cow<'t, str> {
        let whole = text.text;
        let mut out = String::new();
        let mut copied = 0;
        for sentence in pieces(whole).map(|piece| piece.text) {
            let start = sentence.as_ptr() as usize - whole.as_ptr() as usize;
            let fate = self.fate(&text, sentence);
            if left_out(sentence, fate) {
                out.push_str(&whole[copied..start]);
            } else if let Some((relation, by)) = fate {
                out.push_str(&whole[copied..start + sentence.len()]);
                out.push_str(&self.mark(relation, by));
            } else {
                continue;
            }
            copied = start + sentence.len();
        }
        if copied == 0 {
            return Cow::Borrowed(whole);
        }
        out.push_str(&whole[copied..]);
        Cow::Owned(out)
    }

    fn mark(&self, relation: Relation, by: usize) -> String {
        let turn = self.said[by].turn;
        match relation {
            Relation::Surely => format!(" [replaced in turn {turn}]"),
            Relation::Perhaps => format!(" [replaced in turn {turn} where they differ]"),
        }
    }

    fn fate(&self, text: &SpokenText<'_>, sentence: &str) -> Option<(Relation, usize)> {
        let at = self.places.get(&text.key(sentence))?;
        self.said[*at].replaced
    }
}

fn spoken<'a>(turn: usize, anchor: &'a AnchoredSentence) -> SpokenText<'a> {
    SpokenText {
        turn,
        by_person: anchor.by_person,
        text: &anchor.text,
    }
}

/// Where statements are found again: by what they are about and by their values.
#[derive(Default)]
struct Earlier {
    about: HashMap<u64, Vec<usize>>,
    values: HashMap<String, Vec<usize>>,
    last: HashMap<ValueKind, usize>,
}

impl Earlier {
    fn add(&mut self, said: &Said<'_>, at: usize) {
        let place = |places: &mut Vec<usize>| {
            if places.len() == ALIKE {
                places.remove(0);
            }
            places.push(at);
        };
        for word in &said.statement.about {
            place(self.about.entry(*word).or_default());
        }
        for value in &said.statement.values {
            place(self.values.entry(value.text.clone()).or_default());
            self.last.insert(value.kind, at);
        }
    }

    /// Notes which earlier statements this one replaces. Statements of its own text are not among them.
    fn compare(&self, said: &mut [Said<'_>], at: usize) {
        let (before, rest) = said.split_at_mut(at);
        let Some(later) = rest.first() else { return };
        let about = later
            .statement
            .about
            .iter()
            .filter_map(|word| self.about.get(word));
        let texts = later.statement.values.iter().map(|value| &value.text);
        let values = texts.filter_map(|text| self.values.get(text));
        let alike: HashSet<usize> = about.chain(values).flatten().copied().collect();
        let mut replaces = false;
        for place in alike {
            let Some(relation) = relation(&before[place], later) else {
                continue;
            };
            replaces = true;
            let known = &mut before[place].replaced;
            if known.is_none_or(|(known, _)| known <= relation) {
                *known = Some((relation, at));
            }
        }
        // "Actually 9002": of the last value of that sort.
        if !replaces && later.statement.corrects && later.statement.about.len() <= 1 {
            let kinds = later.statement.values.iter().map(|value| value.kind);
            let last = kinds
                .filter(|kind| *kind != ValueKind::Words)
                .find_map(|kind| self.last.get(&kind));
            if let Some(last) = last
                .map(|last| &mut before[*last])
                .filter(|last| may_replace(last, later))
            {
                last.replaced = last.replaced.or(Some((Relation::Perhaps, at)));
            }
        }
    }
}

/// Whether one may replace the other at all: a model's words never replace the person's.
fn may_replace(earlier: &Said<'_>, later: &Said<'_>) -> bool {
    earlier.turn < later.turn && (later.by_person || !earlier.by_person) && !later.statement.adds
}

fn relation(earlier: &Said<'_>, later: &Said<'_>) -> Option<Relation> {
    let (old, new) = (&earlier.statement, &later.statement);
    let is_other = !old.of.is_empty() && !new.of.is_empty() && old.of != new.of;
    if is_other || old.is_other_kind(new) || !may_replace(earlier, later) {
        return None;
    }
    let shared = old
        .about
        .iter()
        .filter(|word| new.about.binary_search(word).is_ok())
        .count();
    let (lost, added) = (old.about.len() - shared, new.about.len() - shared);
    let kinds = |of: &Statement, without: &Statement| -> Vec<ValueKind> {
        let values = of.values.iter().filter(|value| !without.states(value));
        values.map(|value| value.kind).collect()
    };
    let (gone, come) = (kinds(old, new), kinds(new, old));
    if gone.is_empty() {
        // "9002 instead of 9001".
        let other = old.values.iter().any(|value| come.contains(&value.kind));
        return match new.corrects && !new.keyed {
            true if other && lost == 0 => Some(Relation::Surely),
            true if other || new.forbids => Some(Relation::Perhaps),
            _ => None,
        };
    }
    if old.keyed && new.keyed {
        let sure = earlier.bare && later.bare || new.corrects;
        return (lost + added == 0).then_some(if sure { Relation::Surely } else { Relation::Perhaps });
    }
    // Of two that differ, one may say what the sentence is about: "part_3 must stay at 30 days".
    let says_only = gone.contains(&ValueKind::Words) && !new.corrects;
    if gone.len() > 1 || says_only || !gone.iter().all(|kind| come.contains(kind)) {
        return None;
    }
    let same = lost + added == 0;
    let one_only = old.exclusive && new.exclusive;
    let surely = lost == 0
        && match same {
            true => new.corrects && shared > 0 || one_only && shared > 1,
            false => new.corrects && shared > 1,
        };
    let least = old.about.len().min(new.about.len());
    let forbids = old.forbids
        && new.forbids
        && gone
            .iter()
            .all(|kind| matches!(kind, ValueKind::Code | ValueKind::Money));
    let alike = shared > 1 && shared * 3 >= least * 2 && (old.exclusive || new.exclusive || forbids);
    let named = shared > 0 && (new.corrects || same && one_only || lost == 0 && old.keyed);
    match () {
        () if surely => Some(Relation::Surely),
        () if alike || named => Some(Relation::Perhaps),
        () => None,
    }
}
