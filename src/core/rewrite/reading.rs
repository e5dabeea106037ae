//! Finds marks of baton's form in a request, the texts that they are in, and where they are valid.

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;

use crate::marker::sentinel::{self, Sentinel};
use crate::marker::{self, MarkerKind, RawMarker, paste_tag, pasted};
use crate::text::{Span, cost};
use crate::wire::view::{InjectedItem, InjectedKind, Role, Turn, TurnContent, TurnPartKind, View};
use crate::wire::{CallMemo, Operation, UnreadReason, Wire};

/// A request, and everything in it that looks like ours.
#[derive(Debug, Clone)]
pub struct RequestReading {
    /// The request.
    pub view: View,
    pub(super) marks: Vec<RawMarker>,
    /// Other occurrences of the word that all marks have: a line that a user pasted may not be a mark.
    others: Vec<usize>,
    pub(super) items: Vec<InjectedItem>,
}

/// A sentinel in a place where it counts; the store and the seal decide whether its id is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What was read.
    pub sentinel: Sentinel,
    pub turn: usize,
    /// Its part of that turn.
    pub part: usize,
    /// A user resumes here: it is at the start of a user text.
    pub by_user: bool,
    /// The first and the last id that it may mean, where a user's line has lost the end of its id.
    pub id_range: Option<(uuid::Uuid, uuid::Uuid)>,
}

impl RequestReading {
    /// Reads a request body.
    ///
    /// # Errors
    /// The wire cannot read it: it is relayed as it is.
    pub fn new(wire: &dyn Wire, body: &Bytes, operation: Operation) -> Result<Self, UnreadReason> {
        Self::searched(wire, body, operation, &marker::stems(body))
    }

    /// Reads a body in which the [stems](marker::stems) of marks were found.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn searched(
        wire: &dyn Wire,
        body: &Bytes,
        operation: Operation,
        stems: &[usize],
    ) -> Result<Self, UnreadReason> {
        let view = wire.read(body, operation)?;
        let (marks, others) = marker::marks_in(body, view.list, stems);
        let rules = view.item_rules();
        let items = rules.map_or(Vec::new(), |rules| (rules.own_items)(&view));
        Ok(Self {
            view,
            marks,
            others,
            items,
        })
    }

    /// Drops the text and keeps what was found in it; [`again`](Self::again) reads it again.
    pub fn unload(&mut self) {
        self.view.body = Bytes::new();
        self.view.turns = Vec::new();
        self.marks = Vec::new();
        self.others = Vec::new();
        self.items = Vec::new();
    }

    /// The same request, to which a model answers, read from its text again; or with some of its bytes
    /// changed. What its path says stays.
    pub fn again(&self, body: &Bytes) -> Option<Self> {
        let mut again = Self::new(self.view.wire(), body, Operation::Generate).ok()?;
        let (facts, earlier) = (&mut again.view.facts, &self.view.facts);
        facts.model.clone_from(&earlier.model);
        facts.stream = earlier.stream;
        facts.ours = earlier.ours;
        Some(again)
    }

    /// Sentinels that count if their ids do, last one first.
    pub fn candidates(&self) -> Vec<Candidate> {
        let opens = (0..self.marks.len())
            .rev()
            .filter(|&i| matches!(self.marks[i].kind, MarkerKind::Open(_)));
        let mut texts = TextFinder::new(&self.view);
        let mut all: Vec<Candidate> = opens.filter_map(|i| self.candidate(&mut texts, i)).collect();
        let mut known: HashSet<_> = all.iter().map(|c| (c.turn, c.sentinel.id)).collect();
        let items = self.items.iter().filter(|i| i.kind == InjectedKind::Sentinel);
        let unseen = items.filter(|i| known.insert((i.turn, i.id)));
        all.extend(unseen.map(|i| self.by_item(i)).collect::<Vec<_>>());
        all.extend(self.pasted());
        all.sort_by_key(|c| std::cmp::Reverse(c.sentinel.at));
        all
    }

    /// Lines at the start of user texts that are malformed marks.
    fn pasted(&self) -> Vec<Candidate> {
        let mut texts = TextFinder::new(&self.view);
        let mut seen = None;
        let mut all = Vec::new();
        for &at in &self.others {
            let Some((turn, part, inside)) = texts.at(at, &[Role::User]) else {
                continue;
            };
            // The first word of a text decides.
            if seen.replace(inside) == Some(inside) {
                continue;
            }
            let marked = self.marks.partition_point(|m| m.span.start < inside.start);
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

    /// A sentinel of which only the item's id remains: the whole item is the sentinel.
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
            part: usize::MAX,
            by_user: false,
            id_range: None,
        }
    }

    fn candidate(&self, texts: &mut TextFinder<'_>, i: usize) -> Option<Candidate> {
        let at = self.marks[i].span.start;
        let (turn, part, inside) = texts.at(at, &[Role::Assistant, Role::User])?;
        let by_user = self.view.turns[turn].role == Role::User;
        // Only the first mark of a text can be at its start.
        if by_user && i > 0 && self.marks[i - 1].span.start >= inside.start {
            return None;
        }
        if by_user && !paste_tag::starts_at(&self.view.body, inside, at) {
            return None;
        }
        let mut sentinel = sentinel::read(&self.view.body, inside, &self.marks, i)?;
        if by_user {
            sentinel.rest = paste_tag::after_closing(&self.view.body, inside, sentinel.rest);
        }
        Some(Candidate {
            sentinel,
            turn,
            part,
            by_user,
            id_range: None,
        })
    }

    /// The marks in a turn of a rewritten request: of the agent's own turns they are known.
    pub(super) fn marks_of(&self, view: &View, turn: usize) -> Cow<'_, [RawMarker]> {
        let Turn { span, text: 0, .. } = view.turns[turn] else {
            return Cow::Owned(marker::marks(view.raw(turn)));
        };
        let first = self.marks.partition_point(|mark| mark.span.start < span.start);
        let last = self.marks.partition_point(|mark| mark.span.start < span.end);
        Cow::Borrowed(&self.marks[first..last])
    }

    /// Where asides begin, by their ids.
    pub(super) fn aside_places(&self) -> impl Iterator<Item = (uuid::Uuid, usize)> {
        let marks = self.marks.iter().filter_map(|mark| match mark.kind {
            MarkerKind::Aside(id) => Some((id, mark.span.start)),
            _ => None,
        });
        let items = self.items.iter().filter(|item| item.kind == InjectedKind::Aside);
        marks.chain(items.map(|item| (item.id, self.view.turns[item.turn].span.start)))
    }

    /// Ids of the asides in the model's turns, each once.
    pub fn asides(&self) -> Vec<uuid::Uuid> {
        self.asides_after(0)
    }

    /// Those at or after offset `from`.
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

    /// Names by which hidden pairs refer to the transcript's visible calls: the ids in calls, and in results that are
    /// turns of their own, whose calls upstream may store.
    pub fn call_names(&self) -> Vec<String> {
        let mut seen = HashSet::new();
        let back = self.call_names_back(0).map(|(_, name)| name);
        let new = back.filter(|name| seen.insert(name.clone()));
        let mut all: Vec<String> = new.collect();
        all.reverse();
        all
    }

    /// The same, each with its turn, from the transcript's end back to the turn `from`, as far as it is requested; a
    /// name comes again where its result does.
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
        parts
            .filter(|p| p.kind == TurnPartKind::Result)
            .filter_map(|p| Some(self.view.str(p.id?).into_owned()))
            .collect()
    }
}

/// Finds texts by offset. Offsets in the order of turns, in either direction, cost one walk over each turn, however
/// many there are.
pub(super) struct TextFinder<'a> {
    view: &'a View,
    turn: Option<usize>,
    texts: SortedTexts,
}

/// The texts of a turn with their parts' numbers, by place: a turn's parts need not be in the body's order.
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

    /// The part whose text holds this offset, and that text.
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

    /// The turn and the part whose text holds this offset, and that text, where the turn is one of these roles'.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::anthropic::Anthropic;

    /// A tool's result may consist of marks alone: it costs one step a turn, and contains no valid mark.
    #[test]
    fn a_result_full_of_marks_is_read_at_once() {
        let id = "00000000-0000-7000-8000-000000000000";
        let page = format!("[[handoff-resume:{id}]]\n[[handoff-aside:{id}]]\n").repeat(10_000);
        let body = serde_json::json!({"messages": [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": page.clone()}]},
            {"role": "user", "content": page},
        ]});
        let body = Bytes::from(body.to_string());
        let reading = RequestReading::new(&Anthropic, &body, Operation::Generate).unwrap();
        assert!(reading.candidates().len() <= 1);
        assert!(reading.asides().is_empty());
    }
}
