//! From the agent's request to what goes upstream: cut, hidden pairs, text given back, tool.
//!
//! Two steps, so that whoever calls can ask the store between them: `Reading` finds what might be ours,
//! `rewrite` applies what turned out to be. Both are pure.

use bytes::Bytes;

use super::preamble;
use super::record::{HiddenPair, Place};
use super::sentinel::{self, Mark, MarkKind, Sentinel};
use crate::json::{self, Span};
use crate::limits;
use crate::splice::{self, Edit};
use crate::wire::view::{Anatomy, OwnItem, PartKind, Role, View};
use crate::wire::{Call, Unread, Wire};

/// A request, and everything in it that looks like ours.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The request.
    pub view: View,
    marks: Vec<Mark>,
    items: Vec<OwnItem>,
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
        let items = wire.own_items(&view);
        Ok(Self { view, marks, items })
    }

    /// Sentinels that count if their ids do, last one first.
    pub fn candidates(&self, wire: &dyn Wire) -> Vec<Candidate> {
        let opens = (0..self.marks.len())
            .rev()
            .filter(|&i| matches!(self.marks[i].kind, MarkKind::Open(_)));
        let mut all: Vec<Candidate> = opens.filter_map(|i| self.candidate(wire, i)).collect();
        for item in self.items.iter().filter(|i| !i.aside) {
            let told = all
                .iter()
                .any(|c| c.turn == item.turn && c.sentinel.id == item.id);
            if !told {
                all.push(self.by_item(item));
            }
        }
        all.sort_by_key(|c| std::cmp::Reverse(c.sentinel.at));
        all
    }

    /// A sentinel of which nothing is left but its item's id: the whole item is the sentinel.
    fn by_item(&self, item: &OwnItem) -> Candidate {
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
        }
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
        let by_text = self.marks.iter().filter_map(|m| {
            if let MarkKind::Aside(id) = m.kind {
                Some(id)
            } else {
                None
            }
        });
        let by_item = self.items.iter().filter(|i| i.aside).map(|i| i.id);
        by_text.chain(by_item).collect()
    }

    /// What hidden pairs may name the transcript's visible calls by: ids, as the agent echoes them in the calls,
    /// and in results that are turns of their own (their calls may be upstream's to remember).
    pub fn call_ids(&self, wire: &dyn Wire) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        let turns = |role| (0..self.view.turns.len()).filter(move |&i| self.view.turns[i].role == role);
        let calls = turns(Role::Assistant).flat_map(|i| wire.call_keys(&self.view, i));
        let results = turns(Role::Tool)
            .flat_map(|i| wire.anatomy(&self.view, i).parts)
            .filter(|p| p.kind == PartKind::Result)
            .filter_map(|p| Some(self.view.str(p.id?).into_owned()));
        calls
            .chain(results)
            .filter(|id| seen.insert(id.clone()))
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
    /// In front of all that is not the system's: the request goes on from a response that ended with a
    /// handoff, and upstream's own memory of it is left behind (Responses).
    Before {
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
    /// Upstream's id of the response that the request goes on from, where the agent knows another. A cut drops
    /// the reference.
    pub previous: Option<&'a str>,
    /// Tags by which a preamble is recognised, for counting.
    pub tags: &'a [String],
}

/// Why bytes were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// History before the active handoff gave way to preamble and carry-over prompt.
    Cut,
    /// A hidden pair was put back, or what stands in for one that is lost.
    Pair,
    /// A model's own text, broken up on its way down, was given back whole.
    GivenBack,
    /// The tool was added, with what it needs.
    Tool,
    /// The model is asked again behind a refused call.
    AskAgain,
    /// References to items of ours were taken out, of which upstream has never heard.
    Reference,
    /// The response that it goes on from has another name upstream, or was left behind.
    Previous,
}

/// What one reason changed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// The reason.
    pub why: Why,
    /// Bytes that went.
    pub removed: usize,
    /// Bytes that came.
    pub added: usize,
}

impl Change {
    fn of(why: Why, edits: &[Edit]) -> Option<Self> {
        let removed = edits.iter().map(|e| e.span.len()).sum();
        let added = edits.iter().map(|e| e.with.len()).sum();
        (!edits.is_empty()).then_some(Self { why, removed, added })
    }
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
    /// What was changed, by reason.
    pub changes: Vec<Change>,
}

/// Rewrites a request. A rewrite that does nothing returns the same bytes.
pub fn rewrite(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Rewritten {
    match listed(wire, reading, what) {
        Some(listed) => {
            let (found, cut) = (listed.candidates(wire), what.cut);
            let cut = match cut {
                Cut::At {
                    candidate,
                    prompt,
                    head,
                } => {
                    let again = found.iter().find(|c| c.sentinel.id == candidate.sentinel.id);
                    again.map_or(Cut::Before { head }, |candidate| Cut::At {
                        candidate,
                        prompt,
                        head,
                    })
                }
                cut => cut,
            };
            rewrite_list(wire, &listed, &Rewrite { cut, ..*what })
        }
        None => rewrite_list(wire, reading, what),
    }
}

/// The request with its lone string made a list, where elements are to go into it.
fn listed(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Option<Reading> {
    if matches!(what.cut, Cut::None) && what.more.is_empty() {
        return None;
    }
    let edits = wire.listed(&reading.view);
    if edits.is_empty() {
        return None;
    }
    let body = splice::flat(splice::splice(&reading.view.body, edits));
    Reading::new(wire, &body, Call::Generate).ok()
}

fn rewrite_list(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>) -> Rewritten {
    let cut = cut_edits(wire, &reading.view, what.cut);
    let mut placed = Vec::new();
    let mut changes: Vec<Change> = Change::of(Why::Cut, &cut).into_iter().collect();
    let with_asides = (!what.pairs.is_empty() && !matches!(what.cut, Cut::Fresh { .. }))
        .then(|| put_asides(wire, reading, &cut, what, &mut placed, &mut changes))
        .flatten();
    let (reading, from) = match &with_asides {
        Some(again) => (again, 0),
        None => (reading, kept_from(&reading.view, what.cut)),
    };
    let view = &reading.view;
    let mut edits = if with_asides.is_some() {
        Vec::new()
    } else {
        cut.clone()
    };
    let mut add = |why: Why, some: Vec<Edit>| {
        changes.extend(Change::of(why, &some));
        edits.extend(some);
    };
    let mut beside = Vec::new();
    let pending = put_besides(wire, view, what, from, &mut beside, &mut placed);
    if what.tool.is_some() {
        let repairs = wire.repairs(view, from, &beside);
        beside.extend(repairs);
    }
    add(Why::Pair, beside);
    add(Why::GivenBack, give_back(wire, reading, from));
    add(Why::Reference, drop_references(reading, from));
    if let Some(description) = what.tool {
        let mut tool: Vec<Edit> = wire.tool(view, description).into_iter().collect();
        tool.extend(wire.companions(view));
        add(Why::Tool, tool);
    }
    add(Why::Previous, previous(wire, view, what));
    add(Why::AskAgain, more(view, what));
    let messages = messages(wire, reading, what, &cut, with_asides.is_some());
    Rewritten {
        rope: splice::splice(&view.body, edits),
        messages,
        placed,
        pending,
        changes,
    }
}

/// The earlier response by the name that upstream knows; a cut leaves it behind.
fn previous(wire: &dyn Wire, view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    match (what.cut, what.previous) {
        (Cut::None, Some(id)) => wire.previous(view, Some(id)),
        (Cut::None, None) => Vec::new(),
        _ => wire.previous(view, None),
    }
}

/// The elements to append.
fn more(view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let empty = view.turns.is_empty() && matches!(what.cut, Cut::None);
    let comma = |i: usize| if empty && i == 0 { "" } else { "," };
    let elements = what.more.iter().enumerate();
    elements
        .map(|(i, element)| Edit::insert(view.list.end - 1, format!("{}{element}", comma(i))))
        .collect()
}

/// Messages in the model's view behind the carry-over prompt.
fn messages(wire: &dyn Wire, reading: &Reading, what: &Rewrite<'_>, cut: &[Edit], applied: bool) -> usize {
    match (applied, what.cut) {
        (false, Cut::At { .. } | Cut::Before { .. } | Cut::Fresh { .. }) => {
            behind_cut(&reading.view, what.cut, cut)
        }
        (true, Cut::At { head, .. } | Cut::Before { head }) => reading
            .view
            .turns
            .iter()
            .filter(|t| spoken(t.role))
            .count()
            .saturating_sub(heads(head)),
        _ => counted(wire, &reading.view, what.tags),
    }
}

/// Applies the cut, then puts one aside's pair back after another; `None` where there is none.
fn put_asides(
    wire: &dyn Wire,
    reading: &Reading,
    cut: &[Edit],
    what: &Rewrite<'_>,
    placed: &mut Vec<uuid::Uuid>,
    changes: &mut Vec<Change>,
) -> Option<Reading> {
    let known = |id| {
        what.pairs
            .iter()
            .find(|p: &&HiddenPair| p.id == id && p.place == Place::Aside)
    };
    reading.asides().into_iter().find_map(known)?;
    let mut body = splice::flat(splice::splice(&reading.view.body, cut.to_vec()));
    loop {
        let now = Reading::new(wire, &body, Call::Generate).ok()?;
        let by_text = || now.marks.iter().find_map(|m| aside_edits(wire, &now, m, &known));
        let by_item = || {
            now.items
                .iter()
                .find_map(|i| aside_item_edits(wire, &now, i, &known))
        };
        let Some((edits, id)) = by_text().or_else(by_item) else {
            return Some(now);
        };
        placed.push(id);
        changes.extend(Change::of(Why::Pair, &edits));
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

fn aside_item_edits<'a>(
    wire: &dyn Wire,
    reading: &Reading,
    item: &OwnItem,
    known: &impl Fn(uuid::Uuid) -> Option<&'a HiddenPair>,
) -> Option<(Vec<Edit>, uuid::Uuid)> {
    let pair = known(item.id).filter(|p| item.aside && p.wire == wire.id())?;
    let whole = reading.view.turns[item.turn].span;
    let edits = wire.put_aside(&reading.view, item.turn, &Anatomy::default(), 0, whole, pair);
    (!edits.is_empty()).then_some((edits, item.id))
}

/// References to items of ours that nothing came of: upstream has never heard of them.
fn drop_references(reading: &Reading, from: usize) -> Vec<Edit> {
    let turns = &reading.view.turns;
    let lost = reading
        .items
        .iter()
        .filter(|i| i.reference && turns[i.turn].span.start >= from);
    lost.map(|i| {
        let whole = turns[i.turn].span;
        Edit::delete(match (i.turn.checked_sub(1), turns.get(i.turn + 1)) {
            (Some(before), _) => Span::new(turns[before].span.end, whole.end),
            (None, Some(next)) => Span::new(whole.start, next.span.start),
            (None, None) => whole,
        })
    })
    .collect()
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
        let (turn, back) = match wire.find_call(view, sibling, from) {
            Some((turn, anatomy, part)) => (turn, wire.put_beside(view, turn, &anatomy, part, pair)),
            None => match find_result(wire, view, sibling, from) {
                Some(turn) => (turn, wire.put_by_result(view, turn, pair)),
                None => continue,
            },
        };
        if back.is_empty() {
            continue;
        }
        edits.extend(back);
        placed.push(pair.id);
        if let Some(waiting) = &pair.pending
            && pending.as_ref().is_none_or(|(at, _)| *at <= turn)
        {
            pending = Some((turn, waiting.clone()));
        }
    }
    pending.map(|(_, waiting)| waiting)
}

/// The turn at or behind `from` that is the result of the call `id`.
fn find_result(wire: &dyn Wire, view: &View, id: &str, from: usize) -> Option<usize> {
    let region = view.body.get(from..)?;
    memchr::memmem::find_iter(region, id).find_map(|hit| {
        let turn = view
            .turn_at(from + hit)
            .filter(|&t| view.turns[t].role == Role::Tool)?;
        wire.anatomy(view, turn).result(&view.body, id).map(|_| turn)
    })
}

/// Takes the backslashes out of the model's broken-up text.
fn give_back(wire: &dyn Wire, reading: &Reading, from: usize) -> Vec<Edit> {
    let view = &reading.view;
    let is_models = |at: usize| {
        let turn = view
            .turn_at(at)
            .filter(|&t| view.turns[t].role == Role::Assistant);
        turn.is_some_and(|t| wire.anatomy(view, t).text_at(at).is_some())
    };
    let broken = reading.marks.iter().filter(|m| m.span.start >= from);
    broken
        .filter_map(|m| match m.kind {
            MarkKind::Broken(slash) if is_models(m.span.start) => Some(Edit::delete(slash)),
            _ => None,
        })
        .collect()
}

/// Offset from which the agent's own bytes are kept.
fn kept_from(view: &View, cut: Cut<'_>) -> usize {
    match cut {
        Cut::None | Cut::Before { .. } => 0,
        Cut::At { candidate, .. } => candidate.sentinel.rest,
        Cut::Fresh { .. } => view.list.end,
    }
}

fn cut_edits(wire: &dyn Wire, view: &View, cut: Cut<'_>) -> Vec<Edit> {
    match cut {
        Cut::None => Vec::new(),
        Cut::Before { head } => {
            let next = view.turns.get(view.leading());
            vec![match (next, view.turns.last()) {
                (Some(next), _) => Edit::insert(next.span.start, format!("{head},")),
                (None, Some(last)) => Edit::insert(last.span.end, format!(",{head}")),
                (None, None) => Edit::insert(view.list.end - 1, head.to_owned()),
            }]
        }
        Cut::Fresh { head } => {
            let from = view.leading();
            let with = opening(wire, view, from, view.turns.len(), head);
            match (view.turns.get(from), view.turns.last()) {
                (Some(first), Some(last)) => {
                    vec![Edit::replace(Span::new(first.span.start, last.span.end), with)]
                }
                // Nothing but the system has spoken.
                (None, Some(last)) => vec![Edit::insert(last.span.end, format!(",{with}"))],
                (_, None) => vec![Edit::insert(view.list.end - 1, with)],
            }
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
    let mended = wire.repair(view, candidate.turn);
    edits.extend(mended.unwrap_or_else(|| drop_orphans(wire, view, candidate, &anatomy, kept)));
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
    // One message may have come back as several elements (Gemini: one for each streamed chunk).
    let behind = (candidate.turn + 1..view.turns.len())
        .take_while(|&t| view.turns[t].role == Role::Assistant)
        .count();
    let first = candidate.turn + 1 + behind;
    let more: Vec<_> = (candidate.turn + 1..first)
        .flat_map(|t| wire.anatomy(view, t).parts)
        .collect();
    let calls: Vec<&[u8]> = anatomy.parts[kept.min(anatomy.parts.len())..]
        .iter()
        .chain(&more)
        .filter(|p| p.kind == PartKind::Call)
        .filter_map(|p| Some(p.id?.of(text)))
        .collect();
    let orphan = |p: &crate::wire::Part| {
        p.kind == PartKind::Result && p.id.is_some_and(|id| !calls.contains(&id.of(text)))
    };
    let mut edits = Vec::new();
    for turn in first..view.turns.len() {
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
    let Cut::At { candidate, .. } = cut else {
        let kept = if matches!(cut, Cut::Before { .. }) {
            &view.turns[..]
        } else {
            &[]
        };
        return kept.iter().filter(|t| spoken(t.role)).count();
    };
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
    // What upstream holds of the conversation is content, too; at least the question and its answer.
    let held = view.facts.previous.as_ref().map_or(0, |_| limits::LEAST_MESSAGES);
    all.saturating_sub(preamble::whole_turns(wire, view, tags)) + held
}

fn spoken(role: Role) -> bool {
    !matches!(role, Role::System | Role::Tools)
}

/// How many elements a head has.
fn heads(head: &str) -> usize {
    let wrapped = format!("[{head}]");
    json::elements(wrapped.as_bytes(), Span::new(0, wrapped.len())).len()
}
