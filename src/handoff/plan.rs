//! From the agent's request to what goes upstream: cut, hidden pairs, text given back, tool.
//!
//! Two steps, so that whoever calls can ask the store between them: `Reading` finds what might be ours,
//! `rewrite` applies what turned out to be. Both are pure.

use bytes::Bytes;

use super::preamble;
use super::record::{HiddenPair, Place};
use super::sentinel::{self, Mark, MarkKind, Sentinel};
use crate::json::{self, Span};
use crate::splice::{self, Edit};
use crate::wire::view::{Anatomy, PartKind, Role, View};
use crate::wire::{Call, Unread, Wire};

/// A request, and everything in it that looks like ours.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The request.
    pub view: View,
    marks: Vec<Mark>,
}

/// A sentinel in a place where it counts; whether its id does is for the store and the seal to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What was read.
    pub sentinel: Sentinel,
    /// Its turn.
    pub turn: usize,
    /// Its part of that turn.
    pub part: usize,
    /// A person resumes here: it stands at the start of a user text.
    pub by_user: bool,
}

impl Reading {
    /// Reads a request body.
    pub fn new(wire: &dyn Wire, body: &Bytes, call: Call) -> Result<Self, Unread> {
        let view = wire.read(body, call)?;
        let marks = sentinel::marks(&body[view.list.start..view.list.end]);
        let marks = marks.into_iter().map(|m| shifted(m, view.list.start)).collect();
        Ok(Self { view, marks })
    }

    /// Sentinels that count if their ids do, last one first.
    pub fn candidates(&self, wire: &dyn Wire) -> Vec<Candidate> {
        let opens = (0..self.marks.len())
            .rev()
            .filter(|&i| matches!(self.marks[i].kind, MarkKind::Open(_)));
        opens.filter_map(|i| self.candidate(wire, i)).collect()
    }

    fn candidate(&self, wire: &dyn Wire, i: usize) -> Option<Candidate> {
        let at = self.marks[i].span.start;
        let turn = self.view.turn_at(at)?;
        let role = self.view.turns[turn].role;
        if !matches!(role, Role::Assistant | Role::User) {
            return None;
        }
        let anatomy = wire.anatomy(&self.view, turn);
        let part = anatomy.text_at(at)?;
        let inside = anatomy.parts[part].text?;
        let by_user = role == Role::User;
        if by_user
            && !json::unescape(self.view.text(Span::new(inside.start, at)))
                .trim()
                .is_empty()
        {
            return None;
        }
        let sentinel = sentinel::read(&self.view.body, inside, &self.marks, i)?;
        Some(Candidate {
            sentinel,
            turn,
            part,
            by_user,
        })
    }

    /// Ids of the asides in the transcript.
    pub fn asides(&self) -> Vec<uuid::Uuid> {
        self.marks
            .iter()
            .filter_map(|m| {
                if let MarkKind::Aside(id) = m.kind {
                    Some(id)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Ids of the visible calls in the transcript, as the agent echoes them.
    pub fn call_ids(&self, wire: &dyn Wire) -> Vec<String> {
        let turns = (0..self.view.turns.len()).filter(|&i| self.view.turns[i].role == Role::Assistant);
        turns
            .flat_map(|i| wire.anatomy(&self.view, i).parts)
            .filter(|p| p.kind == PartKind::Call)
            .filter_map(|p| Some(self.view.str(p.id?).into_owned()))
            .collect()
    }
}

fn shifted(mark: Mark, by: usize) -> Mark {
    let shift = |s: Span| Span::new(s.start + by, s.end + by);
    let kind = match mark.kind {
        MarkKind::Close(id, seal) => MarkKind::Close(id, shift(seal)),
        MarkKind::Broken(slash) => MarkKind::Broken(shift(slash)),
        other => other,
    };
    Mark {
        span: shift(mark.span),
        kind,
    }
}

/// Where the transcript is cut.
#[derive(Debug, Clone, Copy)]
pub enum Cut<'a> {
    /// Nowhere.
    None,
    /// At a sentinel in it: `head`, then what follows.
    At {
        /// The sentinel.
        candidate: &'a Candidate,
        /// The handoff's prompt, for what is left of a sentinel without its closing line.
        prompt: &'a str,
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
    /// Behind its end: a leg that starts afresh.
    Fresh {
        /// Preamble and carry-over prompt, as elements.
        head: &'a str,
    },
}

/// What to do to a request.
#[derive(Debug, Clone, Copy)]
pub struct Rewrite<'a> {
    /// The cut.
    pub cut: Cut<'a>,
    /// The tool's description, where the tool goes in.
    pub tool: Option<&'a str>,
    /// Hidden pairs that may have their place in the transcript.
    pub pairs: &'a [HiddenPair],
    /// Elements to append: the model is asked again.
    pub more: &'a [String],
    /// Tags by which a preamble is recognised, for counting.
    pub tags: &'a [String],
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Rewritten {
    /// The body to send.
    pub rope: Vec<Bytes>,
    /// Messages in the model's view behind the carry-over prompt; system messages and preamble not counted.
    pub messages: usize,
    /// Pairs that found their place, in the transcript's order.
    pub placed: Vec<uuid::Uuid>,
    /// Carry-over prompt and reason of a handoff that waits for the turn's end.
    pub pending: Option<(String, Option<String>)>,
    /// Broken-up texts given back.
    pub given_back: usize,
}

/// Rewrites a request. A rewrite that does nothing returns the same bytes.
pub fn rewrite(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Rewritten {
    let cut = cut_edits(wire, &reading.view, what.cut);
    let mut placed = Vec::new();
    let with_asides = (!what.pairs.is_empty() && !matches!(what.cut, Cut::Fresh { .. }))
        .then(|| put_asides(wire, reading, &cut, what, &mut placed))
        .flatten();
    let (reading, mut edits) = match &with_asides {
        Some(again) => (again, Vec::new()),
        None => (reading, cut.clone()),
    };
    let from = if with_asides.is_some() {
        0
    } else {
        kept_from(&reading.view, what.cut)
    };
    let view = &reading.view;
    let pending = put_besides(wire, view, what, from, &mut edits, &mut placed);
    let given_back = give_back(wire, reading, from, &mut edits);
    if let Some(description) = what.tool {
        edits.extend(wire.tool(view, description));
        edits.extend(wire.companions(view));
    }
    for element in what.more {
        edits.push(Edit::insert(view.list.end - 1, format!(",{element}")));
    }
    let messages = match (&with_asides, what.cut) {
        (None, Cut::At { .. } | Cut::Fresh { .. }) => behind_cut(view, what.cut, &cut),
        (Some(again), Cut::At { head, .. }) => again
            .view
            .turns
            .iter()
            .filter(|t| spoken(t.role))
            .count()
            .saturating_sub(heads(head)),
        _ => counted(wire, view, what.tags),
    };
    Rewritten {
        rope: splice::splice(&view.body, edits),
        messages,
        placed,
        pending,
        given_back,
    }
}

/// Whether a pair stands in the very turn that is cut: its place may be in front of text that an agent glued to
/// the sentinel, and that is a place only once the cut is made.
fn beside_in_cut_turn(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> bool {
    let Cut::At { candidate, .. } = what.cut else {
        return false;
    };
    let anatomy = wire.anatomy(&reading.view, candidate.turn);
    what.pairs.iter().any(|p| match &p.place {
        Place::Beside { sibling, .. } => anatomy.call(&reading.view.body, sibling).is_some(),
        Place::Aside => false,
    })
}

/// Applies the cut, then puts one aside's pair back after another; `None` where the cut need not come first.
fn put_asides(
    wire: &dyn Wire,
    reading: &Reading,
    cut: &[Edit],
    what: &Rewrite<'_>,
    placed: &mut Vec<uuid::Uuid>,
) -> Option<Reading> {
    let known = |id| {
        what.pairs
            .iter()
            .find(|p: &&HiddenPair| p.id == id && p.place == Place::Aside)
    };
    if reading.asides().into_iter().find_map(known).is_none() && !beside_in_cut_turn(wire, reading, what) {
        return None;
    }
    let mut body = splice::flat(splice::splice(&reading.view.body, cut.to_vec()));
    loop {
        let now = Reading::new(wire, &body, Call::Generate).ok()?;
        let Some((edits, id)) = now.marks.iter().find_map(|m| aside_edits(wire, &now, m, &known)) else {
            return Some(now);
        };
        placed.push(id);
        body = splice::flat(splice::splice(&body, edits));
    }
}

fn aside_edits<'a>(
    wire: &dyn Wire,
    reading: &Reading,
    mark: &Mark,
    known: &impl Fn(uuid::Uuid) -> Option<&'a HiddenPair>,
) -> Option<(Vec<Edit>, uuid::Uuid)> {
    let MarkKind::Aside(id) = mark.kind else {
        return None;
    };
    let pair = known(id).filter(|p| p.wire == wire.id())?;
    let turn = reading.view.turn_at(mark.span.start)?;
    if reading.view.turns[turn].role != Role::Assistant {
        return None;
    }
    let anatomy = wire.anatomy(&reading.view, turn);
    let part = anatomy.text_at(mark.span.start)?;
    let edits = wire.put_aside(&reading.view, turn, &anatomy, part, mark.span, pair);
    (!edits.is_empty()).then_some((edits, id))
}

/// Puts pairs back beside their siblings, and returns what the last of them left pending.
fn put_besides(
    wire: &dyn Wire,
    view: &View,
    what: &Rewrite<'_>,
    from: usize,
    edits: &mut Vec<Edit>,
    placed: &mut Vec<uuid::Uuid>,
) -> Option<(String, Option<String>)> {
    if matches!(what.cut, Cut::Fresh { .. }) {
        return None;
    }
    let mut pending: Option<(usize, (String, Option<String>))> = None;
    for pair in what.pairs.iter().filter(|p| p.wire == wire.id()) {
        let Place::Beside { sibling, .. } = &pair.place else {
            continue;
        };
        let Some((turn, anatomy, part)) = find_call(wire, view, sibling, from) else {
            continue;
        };
        edits.extend(wire.put_beside(view, turn, &anatomy, part, pair));
        placed.push(pair.id);
        if let Some(waiting) = &pair.pending
            && pending.as_ref().is_none_or(|(at, _)| *at <= turn)
        {
            pending = Some((turn, waiting.clone()));
        }
    }
    pending.map(|(_, waiting)| waiting)
}

/// The assistant turn at or behind `from` that holds the call `id`.
fn find_call(wire: &dyn Wire, view: &View, id: &str, from: usize) -> Option<(usize, Anatomy, usize)> {
    let region = view.body.get(from..)?;
    memchr::memmem::find_iter(region, id).find_map(|hit| {
        let turn = view
            .turn_at(from + hit)
            .filter(|&t| view.turns[t].role == Role::Assistant)?;
        let anatomy = wire.anatomy(view, turn);
        let part = anatomy.call(&view.body, id)?;
        Some((turn, anatomy, part))
    })
}

/// Takes the backslashes out of the model's broken-up text.
fn give_back(wire: &dyn Wire, reading: &Reading, from: usize, edits: &mut Vec<Edit>) -> usize {
    let before = edits.len();
    for mark in &reading.marks {
        let MarkKind::Broken(slash) = mark.kind else {
            continue;
        };
        if mark.span.start < from {
            continue;
        }
        let Some(turn) = reading.view.turn_at(mark.span.start) else {
            continue;
        };
        if reading.view.turns[turn].role == Role::Assistant
            && wire
                .anatomy(&reading.view, turn)
                .text_at(mark.span.start)
                .is_some()
        {
            edits.push(Edit::delete(slash));
        }
    }
    edits.len() - before
}

/// Offset from which the agent's own bytes are kept.
fn kept_from(view: &View, cut: Cut<'_>) -> usize {
    match cut {
        Cut::None => 0,
        Cut::At { candidate, .. } => candidate.sentinel.rest,
        Cut::Fresh { .. } => view.list.end,
    }
}

fn cut_edits(wire: &dyn Wire, view: &View, cut: Cut<'_>) -> Vec<Edit> {
    match cut {
        Cut::None => Vec::new(),
        Cut::Fresh { head } => {
            let from = view.leading();
            let start = view.turns.get(from).map_or(view.list.end - 1, |t| t.span.start);
            let end = view.turns.last().map_or(start, |t| t.span.end).max(start);
            vec![Edit::replace(
                Span::new(start, end),
                opening(wire, view, from, view.turns.len(), head),
            )]
        }
        Cut::At {
            candidate,
            prompt,
            head,
        } => cut_at(wire, view, candidate, prompt, head),
    }
}

/// Head and re-emitted turns for a cut that drops `turns[from..to]`.
fn opening(wire: &dyn Wire, view: &View, from: usize, to: usize, head: &str) -> String {
    let mut all = vec![head.to_owned()];
    all.extend(preamble::re_emitted(wire, view, from, to));
    all.join(",")
}

fn cut_at(wire: &dyn Wire, view: &View, candidate: &Candidate, prompt: &str, head: &str) -> Vec<Edit> {
    let from = view.leading().min(candidate.turn);
    let whole = view.turns[candidate.turn].span;
    let start = view.turns[from].span.start;
    let mut with = opening(wire, view, from, candidate.turn, head);
    let anatomy = wire.anatomy(view, candidate.turn);
    let tail = tail(wire, view, candidate, prompt, &anatomy);
    let mut edits = Vec::new();
    match &tail {
        Some(tail) => {
            with.push(',');
            with.push_str(&tail.prefix);
            edits.push(Edit::replace(Span::new(start, tail.from), with));
        }
        None => edits.push(Edit::replace(Span::new(start, whole.end), with)),
    }
    let kept = tail.map_or(anatomy.parts.len(), |t| t.part);
    edits.extend(drop_orphans(wire, view, candidate, &anatomy, kept));
    edits
}

/// What is left of the sentinel's own turn.
struct Tail {
    /// What opens the turn again.
    prefix: String,
    /// Offset from which its own bytes go on.
    from: usize,
    /// First part that is kept.
    part: usize,
}

fn tail(
    wire: &dyn Wire,
    view: &View,
    candidate: &Candidate,
    prompt: &str,
    anatomy: &Anatomy,
) -> Option<Tail> {
    let here = anatomy.parts.get(candidate.part)?;
    let inside = here.text?;
    let text: &[u8] = &view.body;
    let rest = match candidate.sentinel.sealed {
        None if !candidate.by_user => {
            sentinel::behind_unclosed(text, candidate.sentinel.rest, inside.end, prompt)
        }
        _ => candidate.sentinel.rest,
    };
    let turn = view.turns[candidate.turn].span;
    let left = Span::new(rest, inside.end);
    let empty = if wire.drops_blank_text() {
        json::unescape(left.of(text)).trim().is_empty()
    } else {
        left.is_empty()
    };
    let next = anatomy.parts.get(candidate.part + 1);
    match (anatomy.list, empty) {
        (Some(list), false) => {
            let open = view.str(Span::new(turn.start, list.start + 1)).into_owned();
            let block = view.str(Span::new(here.span.start, inside.start));
            Some(Tail {
                prefix: format!("{open}{block}"),
                from: rest,
                part: candidate.part,
            })
        }
        (None, false) => {
            let prefix = view.str(Span::new(turn.start, inside.start)).into_owned();
            Some(Tail {
                prefix,
                from: rest,
                part: candidate.part,
            })
        }
        (Some(list), true) if next.is_some_and(|n| list.holds(n.span.start)) => {
            let prefix = view.str(Span::new(turn.start, list.start + 1)).into_owned();
            Some(Tail {
                prefix,
                from: next?.span.start,
                part: candidate.part + 1,
            })
        }
        (list, true) => {
            next?;
            let content = list.unwrap_or(here.span);
            let absent = wire.absent_content()?;
            let prefix = format!("{}{absent}", view.str(Span::new(turn.start, content.start)));
            Some(Tail {
                prefix,
                from: content.end,
                part: candidate.part + 1,
            })
        }
    }
}

/// Results right behind the cut whose calls went with it.
fn drop_orphans(
    wire: &dyn Wire,
    view: &View,
    candidate: &Candidate,
    anatomy: &Anatomy,
    kept: usize,
) -> Vec<Edit> {
    let text: &[u8] = &view.body;
    let calls: Vec<&[u8]> = anatomy.parts[kept.min(anatomy.parts.len())..]
        .iter()
        .filter(|p| p.kind == PartKind::Call)
        .filter_map(|p| Some(p.id?.of(text)))
        .collect();
    let orphan = |p: &crate::wire::Part| {
        p.kind == PartKind::Result && p.id.is_some_and(|id| !calls.contains(&id.of(text)))
    };
    let mut edits = Vec::new();
    for turn in candidate.turn + 1..view.turns.len() {
        if !matches!(view.turns[turn].role, Role::User | Role::Tool) {
            break;
        }
        let anatomy = wire.anatomy(view, turn);
        let lost: Vec<bool> = anatomy.parts.iter().map(orphan).collect();
        if !lost.contains(&true) {
            break;
        }
        if lost.iter().all(|l| *l) {
            edits.push(Edit::delete(Span::new(
                view.turns[turn - 1].span.end,
                view.turns[turn].span.end,
            )));
        } else {
            edits.extend(without_parts(&anatomy, &lost));
        }
    }
    edits
}

/// Deletes parts of a list with the commas between; at least one part stays.
fn without_parts(anatomy: &Anatomy, lost: &[bool]) -> Vec<Edit> {
    let parts = &anatomy.parts;
    let first = lost.iter().position(|l| !l).unwrap_or_default();
    let mut edits = Vec::new();
    if first > 0 {
        edits.push(Edit::delete(Span::new(
            parts[0].span.start,
            parts[first].span.start,
        )));
    }
    for i in first + 1..parts.len() {
        if lost[i] {
            edits.push(Edit::delete(Span::new(parts[i - 1].span.end, parts[i].span.end)));
        }
    }
    edits
}

/// Messages behind the head of a cut.
fn behind_cut(view: &View, cut: Cut<'_>, edits: &[Edit]) -> usize {
    let Cut::At { candidate, .. } = cut else { return 0 };
    let whole = view.turns[candidate.turn].span;
    let left = usize::from(edits.first().is_some_and(|e| e.span.end < whole.end));
    let dropped = edits
        .iter()
        .skip(1)
        .filter(|e| view.turns.iter().any(|t| t.span.end == e.span.end))
        .count();
    let later = view.turns[candidate.turn + 1..]
        .iter()
        .filter(|t| spoken(t.role))
        .count();
    (left + later).saturating_sub(dropped)
}

/// Messages of a whole transcript, without system messages and preamble.
fn counted(wire: &dyn Wire, view: &View, tags: &[String]) -> usize {
    let all = view.turns.iter().filter(|t| spoken(t.role)).count();
    all.saturating_sub(preamble::whole_turns(wire, view, tags))
}

fn spoken(role: Role) -> bool {
    !matches!(role, Role::System | Role::Tools)
}

/// How many elements a head has.
fn heads(head: &str) -> usize {
    let wrapped = format!("[{head}]");
    json::elements(wrapped.as_bytes(), Span::new(0, wrapped.len())).len()
}
