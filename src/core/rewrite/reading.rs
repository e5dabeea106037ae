//! Finds markers of baton's form in a request, the strings that contain them, and whether they are valid.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use crate::agents::speakers::INTERJECTION;
use crate::marker::sentinel::{self, Sentinel};
use crate::marker::{self, MarkerKind, RawMarker, pasted, stem_at};
use crate::text::scan::{self, PAIR_DISTANCE, Pairs};
use crate::text::{Span, cost};
use crate::wire::view::{InjectedItem, InjectedKind, Role, Turn, TurnContent, TurnPartKind, View};
use crate::wire::{CallMemo, Operation, UnreadReason, Wire};

/// A request, and everything in it that looks like baton's.
#[derive(Debug, Clone)]
pub struct RequestReading {
    /// The request.
    pub view: View,
    pub(super) marks: Vec<RawMarker>,
    /// Other occurrences of the word that all markers share. A line that the user pasted may not be a valid
    /// marker.
    others: Vec<usize>,
    pub(super) items: Vec<InjectedItem>,
    /// Whether the body may contain a message that the user typed while the agent worked.
    pub(super) may_interject: bool,
}

/// A sentinel in a valid position. The store and the seal decide whether its id is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The parsed sentinel.
    pub sentinel: Sentinel,
    pub turn: usize,
    /// Index of its part in that turn.
    pub part: usize,
    /// Whether the user resumes here: the sentinel is at the start of a user message.
    pub by_user: bool,
    /// First and last id that it may mean, if a user's line has lost the end of its id.
    pub id_range: Option<(uuid::Uuid, uuid::Uuid)>,
}

impl RequestReading {
    /// Reads a request body.
    ///
    /// # Errors
    /// The wire cannot read it. The request is then relayed unchanged.
    pub fn new(wire: &Wire, body: &Bytes, operation: Operation) -> Result<Self, UnreadReason> {
        Self::scanned(wire, body, operation, &BodyScan::new(body, 0))
    }

    /// Reads a body that was scanned before.
    ///
    /// # Errors
    /// Like [`new`](Self::new).
    pub fn scanned(
        wire: &Wire,
        body: &Bytes,
        operation: Operation,
        scan: &BodyScan,
    ) -> Result<Self, UnreadReason> {
        let view = wire.read(body, operation)?;
        let (marks, others) = marker::marks_in(body, view.list, &scan.stems);
        let rules = view.item_rules();
        let items = rules.map_or(Vec::new(), |rules| (rules.own_items)(&view));
        Ok(Self {
            view,
            marks,
            others,
            items,
            may_interject: scan.may_interject,
        })
    }

    /// Drops the text and keeps the findings. [`again`](Self::again) reads it again.
    pub fn unload(&mut self) {
        self.view.body = Bytes::new();
        self.view.turns = Vec::new();
        self.marks = Vec::new();
        self.others = Vec::new();
        self.items = Vec::new();
    }

    /// Reads the same request again from its text, which may have changed bytes. A model must answer it.
    ///
    /// Facts from its path are kept.
    pub fn again(&self, body: &Bytes) -> Option<Self> {
        let mut again = Self::new(self.view.wire(), body, Operation::Generate).ok()?;
        let (facts, earlier) = (&mut again.view.facts, &self.view.facts);
        // Taken from the request's path and not from its body.
        facts.model.clone_from(&earlier.model);
        facts.stream = earlier.stream;
        facts.ours = earlier.ours;
        Some(again)
    }

    /// Sentinels that count if their ids are valid, last one first.
    pub fn candidates(&self) -> Vec<Candidate> {
        let newest_first = (0..self.marks.len()).rev();
        let opens = newest_first.filter(|&i| matches!(self.marks[i].kind, MarkerKind::Open(_)));
        let mut texts = TextFinder::new(&self.view);
        let mut all: Vec<Candidate> = opens.filter_map(|i| self.candidate(&mut texts, i)).collect();
        let mut known: HashSet<_> = all.iter().map(|c| (c.turn, c.sentinel.id)).collect();
        let items = self.items.iter().filter(|i| i.kind == InjectedKind::Sentinel);
        let unseen = items.filter(|i| known.insert((i.turn, i.id)));
        all.extend(unseen.map(|i| self.by_item(i)).collect::<Vec<_>>());
        all.extend(self.pasted());
        // The three kinds were found separately.
        all.sort_by_key(|c| std::cmp::Reverse(c.sentinel.at));
        all
    }

    /// Malformed markers at the start of user messages.
    fn pasted(&self) -> Vec<Candidate> {
        let mut texts = TextFinder::new(&self.view);
        let mut seen = None;
        let mut all = Vec::new();
        for &at in &self.others {
            let Some((turn, part, inside)) = texts.at(at, &[Role::User]) else {
                continue;
            };
            // Only the first word of a message decides.
            if seen.replace(inside) == Some(inside) {
                continue;
            }
            let marked = self.marks.partition_point(|m| m.span.start < inside.start);
            // A valid marker comes first, and `candidate` reads that one.
            if self.marks.get(marked).is_some_and(|m| m.span.start < at) {
                continue;
            }
            let Some(line) = pasted::read(&self.view.body, inside) else {
                continue;
            };
            all.push(Candidate {
                sentinel: Sentinel {
                    id: line.ids.0,
                    at: inside.start,
                    sealed: None,
                    rest: line.rest,
                },
                turn,
                part,
                by_user: true,
                id_range: (line.ids.0 != line.ids.1).then_some(line.ids),
            });
        }
        all
    }

    /// Creates a candidate for a sentinel that is only left as an item's id. The whole item is the sentinel.
    fn by_item(&self, item: &InjectedItem) -> Candidate {
        let span = self.view.turns[item.turn].span;
        Candidate {
            sentinel: Sentinel {
                id: item.id,
                at: span.start,
                sealed: None,
                rest: span.end,
            },
            turn: item.turn,
            // No part: nothing of the item stays after the cut.
            part: usize::MAX,
            by_user: false,
            id_range: None,
        }
    }

    fn candidate(&self, texts: &mut TextFinder<'_>, i: usize) -> Option<Candidate> {
        let at = self.marks[i].span.start;
        let (turn, part, inside) = texts.at(at, &[Role::Assistant, Role::User])?;
        let by_user = self.view.turns[turn].role == Role::User;
        // Only the first marker of a message can be at its start.
        if by_user && i > 0 && self.marks[i - 1].span.start >= inside.start {
            return None;
        }
        // Elsewhere in a user message, a sentinel is a quotation.
        if by_user && !pasted::starts_at(&self.view.body, inside, at) {
            return None;
        }
        let mut sentinel = sentinel::read(&self.view.body, inside, &self.marks, i)?;
        if by_user {
            sentinel.rest = pasted::after_closing(&self.view.body, inside, sentinel.rest);
        }
        Some(Candidate {
            sentinel,
            turn,
            part,
            by_user,
            id_range: None,
        })
    }

    /// Markers in a turn of a rewritten request. For unchanged agent turns they are already found.
    pub(super) fn marks_of(&self, view: &View, turn: usize) -> Cow<'_, [RawMarker]> {
        let Turn { span, text: 0, .. } = view.turns[turn] else {
            return Cow::Owned(marker::marks(view.raw(turn)));
        };
        let first = self.marks.partition_point(|mark| mark.span.start < span.start);
        let last = self.marks.partition_point(|mark| mark.span.start < span.end);
        Cow::Borrowed(&self.marks[first..last])
    }

    /// Start offsets of asides, by id.
    pub(super) fn aside_places(&self) -> impl Iterator<Item = (uuid::Uuid, usize)> {
        let marks = self.marks.iter().filter_map(|mark| match mark.kind {
            MarkerKind::Aside(id) => Some((id, mark.span.start)),
            _ => None,
        });
        let items = self.items.iter().filter(|item| item.kind == InjectedKind::Aside);
        marks.chain(items.map(|item| (item.id, self.view.turns[item.turn].span.start)))
    }

    /// Ids of the asides in the model's turns, without duplicates.
    pub fn asides(&self) -> Vec<uuid::Uuid> {
        self.asides_after(0)
    }

    /// Ids of the asides at or after offset `from`.
    pub(super) fn asides_after(&self, from: usize) -> Vec<uuid::Uuid> {
        let models = |at| {
            let turn = self.view.turn_at(at);
            at >= from && turn.is_some_and(|t| self.view.turns[t].role == Role::Assistant)
        };
        let by_text = self.marks.iter().filter_map(|m| match m.kind {
            MarkerKind::Aside(id) if models(m.span.start) => Some(id),
            _ => None,
        });
        let after =
            |i: &&InjectedItem| i.kind == InjectedKind::Aside && self.view.turns[i.turn].span.start >= from;
        let by_item = self.items.iter().filter(after).map(|i| i.id);
        let mut seen = HashSet::new();
        by_text.chain(by_item).filter(|id| seen.insert(*id)).collect()
    }

    /// Names that hidden pairs use for the transcript's visible calls.
    ///
    /// These are the ids in calls, and in results that are separate turns, whose calls upstream may store.
    pub fn call_names(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let back = self.call_names_back(0).map(|(_, name)| name);
        let new = back.filter(|name| seen.insert(name.clone()));
        let mut all: Vec<String> = new.collect();
        all.reverse();
        all
    }

    /// Iterates over call names with their turns, from the transcript's end back to the turn `from`.
    ///
    /// Lazy: only the requested part is read. A name comes again with its result.
    pub fn call_names_back(&self, from: usize) -> impl Iterator<Item = (usize, String)> {
        let turns = (from..self.view.turns.len()).rev();
        let mut memo = CallMemo::default();
        turns.flat_map(move |i| {
            let names = match self.view.turns[i].role {
                Role::Assistant => self.view.call_names(i, &mut memo),
                Role::Tool => self.answered(i),
                _ => Vec::new(),
            };
            names.into_iter().rev().map(move |name| (i, name))
        })
    }

    /// Ids of the calls that a turn's results answer.
    fn answered(&self, turn: usize) -> Vec<String> {
        let parts = self.view.content(turn).parts.into_iter();
        let results = parts.filter(|p| p.kind == TurnPartKind::Result);
        results
            .filter_map(|p| Some(self.view.str(p.id?).into_owned()))
            .collect()
    }
}

/// Finds text parts by offset.
///
/// Offsets in the order of turns, in either direction, cost one walk over each turn, however many there are.
pub(super) struct TextFinder<'a> {
    view: &'a View,
    turn: Option<usize>,
    texts: SortedTexts,
}

/// Text parts of a turn with their indices, sorted by position, because a turn's parts need not be in the
/// body's order.
#[derive(Default)]
pub(super) struct SortedTexts(Vec<(Span, usize)>);

impl SortedTexts {
    pub(super) fn new(content: &TurnContent) -> Self {
        let parts = content.parts.iter().enumerate();
        let texts = parts.filter(|(_, p)| p.kind == TurnPartKind::Text);
        let mut spans: Vec<_> = texts.filter_map(|(i, p)| Some((p.text?, i))).collect();
        spans.sort_unstable();
        Self(spans)
    }

    /// The part whose text holds this offset, and the span of that text.
    pub(super) fn at(&self, offset: usize) -> Option<(usize, Span)> {
        let i = self.0.partition_point(|(span, _)| span.end <= offset);
        let (text, part) = self.0.get(i).filter(|(span, _)| span.holds(offset))?;
        Some((*part, *text))
    }
}

impl<'a> TextFinder<'a> {
    pub(super) fn new(view: &'a View) -> Self {
        Self {
            view,
            turn: None,
            texts: SortedTexts::default(),
        }
    }

    /// The turn and the part whose text holds this offset, and the span of that text, if the turn has one of
    /// these roles.
    pub(super) fn at(&mut self, offset: usize, roles: &[Role]) -> Option<(usize, usize, Span)> {
        cost::add(1);
        let turn = self.view.turn_at(offset)?;
        if !roles.contains(&self.view.turns[turn].role) {
            return None;
        }
        if self.turn != Some(turn) {
            self.texts = SortedTexts::new(&self.view.content(turn));
            self.turn = Some(turn);
        }
        let (part, text) = self.texts.at(offset)?;
        Some((turn, part, text))
    }
}

/// Results of the scan.
#[derive(Debug, Default)]
pub struct BodyScan {
    /// Offsets of candidate markers, in order: their [stems](marker::stems).
    pub stems: Vec<usize>,
    /// About the number of opening braces.
    pub braces: usize,
    /// Whether the text has the words before a message that the user typed while the agent worked.
    pub(super) may_interject: bool,
}

/// A pair of bytes at the start of [`marker::WORD`], and one in [`INTERJECTION`]. Both are rare in text and in code.
const PAIRS: Pairs = Pairs {
    first: b'h',
    seconds: [b'f', b'y'],
};

/// Offset in [`INTERJECTION`] of its pair.
const IN_INTERJECTION: usize = 29;

impl BodyScan {
    /// Scans a body. The braces are estimated by a `sample` of random bits that no sender knows, so that none can hide them.
    pub fn new(text: &[u8], sample: u64) -> Self {
        let interjection = INTERJECTION.trim_end().as_bytes();
        let mut found = Self::default();
        found.braces = scan::find_pairs(text, PAIRS, sample, |at| {
            if text[at + PAIR_DISTANCE] == PAIRS.seconds[1] {
                let start = at.checked_sub(IN_INTERJECTION);
                found.may_interject |= start.is_some_and(|start| text[start..].starts_with(interjection));
            } else if text[at..].starts_with(marker::WORD) {
                found.stems.extend(stem_at(text, at));
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::note::PROGRESS;
    use crate::wire::anthropic;
    use memchr::memmem;
    use proptest::prelude::*;

    /// A tool's result may consist of markers only. It costs one step per turn, and contains no valid marker.
    #[test]
    fn a_result_full_of_marks_is_read_at_once() {
        let id = "00000000-0000-7000-8000-000000000000";
        let page = format!("[[handoff-resume:{id}]]\n[[handoff-aside:{id}]]\n").repeat(10_000);
        let body = serde_json::json!({"messages": [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": page.clone()}]},
            {"role": "user", "content": page},
        ]});
        let body = Bytes::from(body.to_string());
        let reading = RequestReading::new(&anthropic::WIRE, &body, Operation::Generate).unwrap();
        assert!(reading.candidates().len() <= 1);
        assert!(reading.asides().is_empty());
    }

    proptest! {
        #[test]
        fn one_pass_finds_the_same_as_separate_searches(pieces in proptest::collection::vec(prop_oneof![
            Just("handoff-"), Just("handof"), Just("handoff"), Just("f-"), Just(PROGRESS), Just(&PROGRESS[..20]),
            Just("[[handoff-resume:"), Just(INTERJECTION), Just(&INTERJECTION[..30]), Just("{"), Just("é"),
            Just("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")], 0..40), cut in any::<proptest::sample::Index>()) {
            let text = pieces.concat().into_bytes();
            let text = &text[..cut.index(text.len() + 1)];
            let scan = BodyScan::new(text, 0);
            let mut stems: Vec<usize> = memmem::find_iter(text, "handoff-").collect();
            stems.extend(memmem::find_iter(text, PROGRESS));
            stems.sort_unstable();
            prop_assert_eq!(&scan.stems, &stems);
            prop_assert_eq!(marker::stems(text), stems);
            prop_assert_eq!(scan.may_interject, memmem::find(text, INTERJECTION.trim_end().as_bytes()).is_some());
            // Longer text has an estimate.
            if text.len() < 256 {
                prop_assert_eq!(scan.braces, memchr::memchr_iter(b'{', text).count());
            }
        }
    }
}
