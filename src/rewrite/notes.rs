//! Takes out of a transcript what is never in the model's view: commands that baton answered by itself, its answers, and
//! the sentinels of handoffs that were undone.
//!
//! An answer has the line `[[handoff-note:ID]]`, and answers the user's turn directly before it. The note of an undo has the
//! handoff's id: the handoff does not count behind an odd number of them. So forks and rewinds follow by themselves, and
//! nothing of it has to be stored.

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use super::Reading;
use super::preamble::tagged_len;
use super::texts::Texts;
use crate::agents::wordings::{self, UserText};
use crate::commands;
use crate::mark::{MarkKind, gap, note, sentinel};
use crate::text::cost;
use crate::text::splice::{self, Edit};
use crate::text::{Span, json};
use crate::wire::Wire;
use crate::wire::view::{self, OwnKind, Part, PartKind, Role, View};

/// How Claude Code tells of a command of the person's own that it expanded.
const INVOCATIONS: [&str; 2] = ["<command-message>", "<command-name>"];

/// What a transcript is without them.
#[derive(Debug, Clone)]
pub struct Cleaned {
    /// The transcript.
    pub reading: Reading,
    /// Bytes that went.
    pub removed: usize,
    /// What was undone.
    pub undone: Undone,
}

/// The handoffs that were undone, and those that were and are not.
#[derive(Debug, Clone, Default)]
pub struct Undone {
    /// Ids of the notes that stand an odd number of times: handoffs that do not count, and notes of other answers.
    now: HashSet<Uuid>,
    /// Handoffs that were undone at any time.
    ever: HashSet<Uuid>,
    /// The handoff whose undo, or whose undo's own, is the last change of what the model sees.
    pub last: Option<Uuid>,
}

impl Undone {
    /// Whether this handoff does not count.
    pub fn is_undone(&self, handoff: Uuid) -> bool {
        self.now.contains(&handoff)
    }

    /// The handoff whose undo is the last change of what the model sees; `None` where it was taken back.
    pub fn now(&self) -> Option<Uuid> {
        self.last.filter(|last| self.is_undone(*last))
    }

    /// Handoffs that were undone at any time: calls that were queued before them are void.
    pub fn ever(&self) -> &HashSet<Uuid> {
        &self.ever
    }
}

/// What to look for beside notes.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// What commands begin with; empty: nothing.
    pub prefix: &'a str,
    /// Tags by which text of the agent's harness is known.
    pub tags: &'a [String],
    /// Whether a command may stand in the transcript whose answer the agent left out.
    pub unanswered: bool,
    /// A note that the answer to this request will begin with: what it undoes is undone in the request already.
    pub coming: Option<Uuid>,
}

/// The transcript without commands, answers and undone sentinels; `None` where it has none of them, or nothing else.
pub fn take_out(wire: &dyn Wire, reading: &Reading, look: Look<'_>) -> Option<Cleaned> {
    let is_ours = |kind: &MarkKind| matches!(kind, MarkKind::Note(_) | MarkKind::Draft(_));
    let noted = reading.marks.iter().any(|m| is_ours(&m.kind));
    if !noted && !look.unanswered && look.coming.is_none() {
        return None;
    }
    let view = &reading.view;
    let marks = Found::in_reading(wire, reading);
    let asked = last_users(view);
    let mut gone = Gone::default();
    for (answer, span) in marks.notes.iter().zip(marks.answers(view)) {
        gone.text(answer.turn, answer.part, span);
        if let Some(user) = asked[answer.turn] {
            gone.command(wire, view, user, look);
        }
    }
    for draft in &marks.drafts {
        let note = marks.note_of(draft);
        let from = begins(view, draft, draft.inside.start);
        let end = match note {
            Some(note) if note.part == draft.part => continue,
            _ => draft.inside.end,
        };
        gone.text(draft.turn, draft.part, Span::new(from, end));
        gone.texts_between(wire, view, draft.turn, draft.part + 1, note.map(|note| note.part));
        if let Some(user) = asked[draft.turn] {
            gone.command(wire, view, user, look);
        }
    }
    if look.unanswered {
        for turn in unanswered(wire, view, look) {
            gone.command(wire, view, turn, look);
        }
    }
    let history = History::of(view, &marks, look.coming);
    for open in marks.opens.iter().filter(|o| history.undone.is_undone(o.id)) {
        match open.span {
            Some(span) => gone.text(open.turn, open.part, span),
            None => gone.whole(open.turn),
        }
    }
    let edits = gone.edits(wire, view, &history);
    if edits.is_empty() {
        return None;
    }
    let body = splice::flat(splice::splice(&view.body, edits));
    // An agent that counts tokens may have said nothing yet but a command.
    let mut left = reading.again(wire, &body)?;
    left.view.facts.summary = view.facts.summary;
    left.view.tools = left.view.tools.filter(|_| view.tools.is_some());
    let is_said = |role: Role| !matches!(role, Role::System | Role::Tools);
    left.view.turns.iter().any(|t| is_said(t.role)).then(|| Cleaned {
        removed: view.body.len().saturating_sub(body.len()),
        reading: left,
        undone: history.undone,
    })
}

/// The transcript without the command that the user's last turn is: what a handoff is made of that it asks for. `None` where
/// nothing else is there.
pub fn without_last(wire: &dyn Wire, reading: &Reading, look: Look<'_>) -> Option<Reading> {
    let view = &reading.view;
    let last = view.turns.iter().rposition(|t| t.role == Role::User)?;
    let mut gone = Gone::default();
    gone.command(wire, view, last, look);
    let history = History {
        undone: Undone::default(),
        states: Vec::new(),
    };
    let edits = gone.edits(wire, view, &history);
    if edits.is_empty() {
        return None;
    }
    reading.again(wire, &splice::flat(splice::splice(&view.body, edits)))
}

/// Whether the last user's turn may begin with this prefix: told by its bytes, since most do not.
pub fn may_say(view: &View, prefix: &str) -> bool {
    if prefix.is_empty() {
        return false;
    }
    let is_aside = |role: Role| matches!(role, Role::System | Role::Tools);
    let last = view.turns.iter().rfind(|t| !is_aside(t.role));
    let Some(turn) = last.filter(|t| t.role == Role::User) else {
        return false;
    };
    let raw = view.text(turn.span);
    // At the start of a text, or behind what the agent's harness puts in front of it.
    let starts = |at: usize| match raw[..at].last() {
        Some(b'"' | b' ' | b'>') => true,
        Some(b'n' | b't' | b'r') => raw[..at - 1].ends_with(b"\\"),
        _ => false,
    };
    memchr::memmem::find_iter(raw, prefix).any(starts)
}

/// The own text of the last user's turn, which must be the last turn of the transcript: without what the agent's harness
/// puts in front of it. `None` where there is none.
pub fn last_said(wire: &dyn Wire, view: &View, tags: &[String]) -> Option<String> {
    let is_aside = |role: Role| matches!(role, Role::System | Role::Tools);
    let turn = view.turns.iter().rposition(|t| !is_aside(t.role))?;
    if view.turns[turn].role != Role::User {
        return None;
    }
    own_text(wire, view, turn, tags).map(|(_, _, text)| text)
}

/// What stands in place of a command where a request beside the session quotes it.
const QUOTED: &str = "(a command)";

/// A request beside the session that quotes what the person said last, without the command that this is: something else
/// stands there, since such a request asks about nothing else. `None` where its last user's turn has none.
pub fn without_quoted(wire: &dyn Wire, reading: &Reading, look: Look<'_>) -> Option<Reading> {
    let view = &reading.view;
    let turn = view.turns.iter().rposition(|t| t.role == Role::User)?;
    let texts = wire.content(view, turn).parts.into_iter().filter_map(|p| p.text);
    let mut quoted: Vec<Span> = texts
        .filter(|inside| commands::is_command(&json::unescape(view.text(*inside)), look.prefix))
        .collect();
    if quoted.is_empty() {
        let (_, span, text) = own_text(wire, view, turn, look.tags)?;
        quoted.extend(commands::parse(&text, look.prefix).map(|_| span));
    }
    let edits: Vec<Edit> = quoted
        .into_iter()
        .map(|span| Edit::replace(span, QUOTED))
        .collect();
    if edits.is_empty() {
        return None;
    }
    reading.again(wire, &splice::flat(splice::splice(&view.body, edits)))
}

/// The first text of a user's turn that is the user's own: its part, where it begins, and what it says.
fn own_text(wire: &dyn Wire, view: &View, turn: usize, tags: &[String]) -> Option<(usize, Span, String)> {
    let content = wire.content(view, turn);
    let texts = content.parts.iter().enumerate();
    texts
        .filter(|(_, p)| p.kind == PartKind::Text)
        .find_map(|(n, p)| {
            let inside = p.text?;
            let said = json::unescape(view.text(inside));
            let tagged = tagged_len(&said, tags);
            let own = said[tagged..].trim();
            if own.is_empty() || wordings::user_text(own, tags) == UserText::Harness {
                return None;
            }
            let from = match tagged {
                0 => inside.start,
                _ => inside.start + json::spelled(view.text(inside), &said[..tagged])?,
            };
            Some((n, Span::new(from, inside.end), own.to_owned()))
        })
}

/// Of each turn, the user's turn that an answer in it is to: the one directly before, though the answer may come back as
/// several elements.
fn last_users(view: &View) -> Vec<Option<usize>> {
    let mut last = None;
    let turns = view.turns.iter().enumerate();
    turns
        .map(|(n, turn)| {
            let before = last;
            match turn.role {
                Role::User => last = Some(n),
                Role::Tool => last = None,
                _ => {}
            }
            before
        })
        .collect()
}

/// Of each turn, and of the one to come, the last turn before it that is not the model's: what an answer in it is to.
fn last_asking(view: &View) -> Vec<Option<usize>> {
    let mut last = None;
    let mut all = Vec::with_capacity(view.turns.len() + 1);
    for (n, turn) in view.turns.iter().enumerate() {
        all.push(last);
        if matches!(turn.role, Role::User | Role::Tool) {
            last = Some(n);
        }
    }
    all.push(last);
    all
}

/// The users' turns with a command that no answer follows. The last one is still to be answered.
fn unanswered(wire: &dyn Wire, view: &View, look: Look<'_>) -> Vec<usize> {
    let last = view.turns.iter().rposition(|t| t.role == Role::User);
    let users = view.turns.iter().enumerate().filter(|(n, t)| {
        let next = view.turns.get(n + 1);
        t.role == Role::User && Some(*n) != last && next.is_some_and(|next| next.role != Role::Assistant)
    });
    let said = |turn| own_text(wire, view, turn, look.tags).map(|(_, _, text)| text);
    users
        .map(|(n, _)| n)
        .filter(|n| said(*n).is_some_and(|text| commands::is_command(&text, look.prefix)))
        .collect()
}

/// A note, or a sentinel, where it counts.
struct At {
    id: Uuid,
    turn: usize,
    part: usize,
    /// The mark; `None` where an item is known by its id alone.
    span: Option<Span>,
    /// The inside of the text that it stands in.
    inside: Span,
}

#[derive(Default)]
struct Found {
    notes: Vec<At>,
    /// The lines in front of drafts that were shown while they were written.
    drafts: Vec<At>,
    opens: Vec<At>,
}

impl Found {
    fn in_reading(wire: &dyn Wire, reading: &Reading) -> Self {
        let mut texts = Texts::new(wire, &reading.view);
        let mut found = Self::default();
        for (i, mark) in reading.marks.iter().enumerate() {
            let (MarkKind::Note(id) | MarkKind::Draft(id) | MarkKind::Open(id)) = mark.kind else {
                continue;
            };
            let Some((turn, part)) = texts.at(mark.span.start, &[Role::Assistant]) else {
                continue;
            };
            let Some(inside) = texts.content().parts[part].text else {
                continue;
            };
            let at = |span| At {
                id,
                turn,
                part,
                span: Some(span),
                inside,
            };
            if matches!(mark.kind, MarkKind::Note(_)) {
                found.notes.push(at(mark.span));
            } else if matches!(mark.kind, MarkKind::Draft(_)) {
                found.drafts.push(at(mark.span));
            } else if let Some(read) = sentinel::read(&reading.view.body, inside, &reading.marks, i) {
                let from = told_from(&reading.view.body, inside.start, read.at);
                found.opens.push(at(Span::new(from, read.rest)));
            }
        }
        let mut known: HashSet<_> = found.opens.iter().map(|at| (at.turn, at.id)).collect();
        let sentinels = reading.items.iter().filter(|item| item.kind == OwnKind::Sentinel);
        for item in sentinels {
            if known.insert((item.turn, item.id)) {
                found.opens.push(At {
                    id: item.id,
                    turn: item.turn,
                    part: 0,
                    span: None,
                    inside: Span::default(),
                });
            }
        }
        found
    }

    /// The answers that end with the notes: each from where it begins, as far as the text in front of its note tells, and
    /// never over another note.
    fn answers(&self, view: &View) -> Vec<Span> {
        let mut done = 0;
        let spans = self.notes.iter().map(|at| {
            let mark = at.span.unwrap_or_default();
            let start = begins(view, at, done);
            done = mark.end;
            Span::new(start, mark.end)
        });
        spans.collect()
    }

    /// The note that ends a draft which was shown; `None` where the answer broke off before: all that follows in it is the
    /// draft, too.
    fn note_of(&self, draft: &At) -> Option<&At> {
        let from = self
            .notes
            .partition_point(|at| (at.turn, at.part) < (draft.turn, draft.part));
        let here = self.notes[from..].iter().take_while(|at| at.turn == draft.turn);
        here.take(NOTES_BEHIND).find(|at| at.id == draft.id)
    }
}

/// Notes of one turn among which a draft's own is looked for: it is the first one behind it.
const NOTES_BEHIND: usize = 8;

/// Where the answer begins in which this mark stands, behind `done`: at the last line in front of it that begins one, else
/// where its text does.
fn begins(view: &View, at: &At, done: usize) -> usize {
    let text: &[u8] = &view.body;
    let mark = at.span.unwrap_or_default();
    let start = at.inside.start.max(done).min(mark.start);
    let line_start = |at: &usize| *at == start || text[..*at].ends_with(br"\n");
    cost::add(mark.start - start);
    let hits = memchr::memmem::rfind_iter(&text[start..mark.start], note::BEGINS);
    hits.map(|hit| start + hit).find(line_start).unwrap_or(start)
}

/// Where begins what baton says in front of a sentinel: a line of its own, right before it.
fn told_from(text: &[u8], start: usize, open: usize) -> usize {
    /// Bytes of such a line.
    const TOLD: usize = 1024;
    let end = gap::before(text, start, open);
    let from = start.max(end.saturating_sub(TOLD));
    let line = memchr::memmem::rfind(&text[from..end], br"\n").map_or(from, |at| from + at + 2);
    match text[line..end].starts_with(note::BEGINS.as_bytes()) {
        true => line,
        false => open,
    }
}

/// What the notes say of the handoffs, and which handoff counted where.
struct History {
    undone: Undone,
    /// From each of these offsets on, the handoff that counted there; empty where nothing was ever undone.
    states: Vec<(usize, Option<Uuid>)>,
}

impl History {
    fn of(view: &View, found: &Found, coming: Option<Uuid>) -> Self {
        let asked = last_asking(view);
        let start = |at: &At| at.span.map_or(view.turns[at.turn].span.start, |span| span.start);
        let mut all: Vec<(usize, bool, &At)> = found.opens.iter().map(|at| (start(at), true, at)).collect();
        all.extend(found.notes.iter().map(|at| (start(at), false, at)));
        all.sort_by_key(|(at, ..)| *at);
        let coming = coming.map(|id| At {
            id,
            turn: view.turns.len(),
            part: 0,
            span: None,
            inside: Span::default(),
        });
        all.extend(coming.iter().map(|at| (view.list.end, false, at)));
        let mut undone = Undone::default();
        let mut opened: HashMap<Uuid, usize> = HashMap::new();
        let mut counting: BTreeSet<(usize, Uuid)> = BTreeSet::new();
        let mut states = vec![(0, None)];
        let mut toggled = false;
        let mut counted: HashMap<Uuid, Option<usize>> = HashMap::new();
        for (at, is_open, mark) in all {
            if is_open {
                if let Some(before) = opened.insert(mark.id, at) {
                    counting.remove(&(before, mark.id));
                }
                counting.insert((at, mark.id));
                undone.now.remove(&mark.id);
                counted.remove(&mark.id);
                undone.last = None;
            } else {
                // An answer that an agent resends twice answers one turn.
                let asked = asked[mark.turn];
                if counted.insert(mark.id, asked) == Some(asked) {
                    continue;
                }
                let counts = undone.now.remove(&mark.id);
                if !counts {
                    undone.now.insert(mark.id);
                }
                let Some(open) = opened.get(&mark.id) else {
                    continue;
                };
                undone.ever.insert(mark.id);
                match counts {
                    true => counting.insert((*open, mark.id)),
                    false => counting.remove(&(*open, mark.id)),
                };
                toggled = true;
                undone.last = Some(mark.id);
            }
            states.push((at, counting.last().map(|(_, id)| *id)));
        }
        if !toggled {
            states.clear();
        }
        Self { undone, states }
    }

    /// Whether what the model thought at this offset was thought behind another transcript than the one it has now.
    fn is_stale(&self, offset: usize) -> bool {
        let Some((_, now)) = self.states.last() else {
            return false;
        };
        let until = self.states.partition_point(|(at, _)| *at <= offset);
        until > 0 && self.states[until - 1].1 != *now
    }
}

/// What goes: stretches of texts by turn and part, and whole turns.
#[derive(Default)]
struct Gone {
    texts: HashMap<(usize, usize), Vec<Span>>,
    turns: HashSet<usize>,
    asked: HashSet<usize>,
}

impl Gone {
    fn text(&mut self, turn: usize, part: usize, span: Span) {
        self.texts.entry((turn, part)).or_default().push(span);
    }

    /// The texts of a turn from this part on, up to another part, or all of them.
    fn texts_between(&mut self, wire: &dyn Wire, view: &View, turn: usize, from: usize, to: Option<usize>) {
        let parts = wire.content(view, turn).parts;
        let to = to.unwrap_or(parts.len()).min(parts.len());
        for (n, part) in parts.iter().enumerate().take(to).skip(from) {
            if let (PartKind::Text, Some(inside)) = (part.kind, part.text) {
                self.text(turn, n, inside);
            }
        }
    }

    fn whole(&mut self, turn: usize) {
        self.turns.insert(turn);
    }

    /// The command in a user's turn.
    fn command(&mut self, wire: &dyn Wire, view: &View, turn: usize, look: Look<'_>) {
        if self.asked.insert(turn)
            && let Some((part, span, text)) = own_text(wire, view, turn, look.tags)
            && commands::is_or_was_command(&text, look.prefix)
        {
            self.text(turn, part, span);
            self.invocation(wire, view, turn);
        }
    }

    /// What the agent says beside a command that it expanded: that it was called, and how.
    fn invocation(&mut self, wire: &dyn Wire, view: &View, turn: usize) {
        let parts = wire.content(view, turn).parts.into_iter().enumerate();
        for (n, inside) in parts.filter_map(|(n, part)| Some((n, part.text?))) {
            let said = view.text(inside);
            if INVOCATIONS.iter().any(|tag| said.starts_with(tag.as_bytes())) {
                self.text(turn, n, inside);
            }
        }
    }

    fn edits(&self, wire: &dyn Wire, view: &View, history: &History) -> Vec<Edit> {
        let mut turns: Vec<usize> = self.texts.keys().map(|(turn, _)| *turn).collect();
        if !history.states.is_empty() {
            let models = |turn: &usize| view.turns[*turn].role == Role::Assistant;
            turns.extend((0..view.turns.len()).filter(models));
        }
        turns.sort_unstable();
        turns.dedup();
        let mut lost: Vec<bool> = (0..view.turns.len()).map(|n| self.turns.contains(&n)).collect();
        let mut edits = Vec::new();
        for turn in turns {
            if lost[turn] {
                continue;
            }
            match self.in_turn(wire, view, turn, history) {
                Some(some) => edits.extend(some),
                None => lost[turn] = true,
            }
        }
        blank_neighbours(wire, view, &mut lost);
        let spans: Vec<Span> = view.turns.iter().map(|t| t.span).collect();
        if lost.contains(&true) {
            // Where nothing would be left, nothing is taken out.
            let Some(whole) = view::kept(&spans, &lost) else {
                return Vec::new();
            };
            edits.extend(whole);
        }
        edits
    }

    /// The edits in one turn; `None` where nothing is left of it.
    fn in_turn(&self, wire: &dyn Wire, view: &View, turn: usize, history: &History) -> Option<Vec<Edit>> {
        let content = wire.content(view, turn);
        let mut edits = Vec::new();
        let mut lost = vec![false; content.parts.len()];
        let is_models = view.turns[turn].role == Role::Assistant;
        for (n, part) in content.parts.iter().enumerate() {
            if is_models && history.is_stale(part.span.start) {
                lost[n] |= part.kind == PartKind::Thinking;
                edits.extend(wire.unbind(view, turn, part));
            }
            if let (Some(spans), Some(inside)) = (self.texts.get(&(turn, n)), part.text) {
                match without(view, inside, spans) {
                    Some(some) => edits.extend(some),
                    None => lost[n] = true,
                }
            }
        }
        let says = |(n, part): (usize, &Part)| !lost[n] && part.kind != PartKind::Thinking;
        if !lost.contains(&true) {
            return Some(edits);
        }
        if !content.parts.iter().enumerate().any(says) {
            return None;
        }
        match content.list {
            Some(list) => {
                let spans: Vec<Span> = content.parts.iter().map(|p| p.span).collect();
                let (inside, beside): (Vec<usize>, Vec<usize>) =
                    (0..spans.len()).partition(|&n| list.holds(spans[n].start));
                debug_assert!(
                    beside
                        .iter()
                        .all(|&n| !lost[n] || content.parts[n].text.is_none())
                );
                let in_list: Vec<Span> = inside.iter().map(|&n| spans[n]).collect();
                let lost: Vec<bool> = inside.iter().map(|&n| lost[n]).collect();
                let kept = view::kept(&in_list, &lost);
                let absent = || vec![Edit::replace(list, wire.absent_content().unwrap_or("[]"))];
                edits.extend(kept.unwrap_or_else(absent));
            }
            // A string beside calls.
            None => {
                let first = content.parts.first().filter(|p| p.text.is_some())?;
                let absent = wire.absent_content()?;
                edits.push(Edit::replace(first.span, absent));
            }
        }
        Some(edits)
    }
}

/// A text without these stretches and the line breaks around them; `None` where nothing is left of it.
fn without(view: &View, inside: Span, spans: &[Span]) -> Option<Vec<Edit>> {
    let text: &[u8] = &view.body;
    let mut spans = spans.to_vec();
    spans.sort_unstable_by_key(|s| s.start);
    let mut edits = Vec::new();
    let mut left = false;
    let mut at = inside.start;
    for span in spans {
        let from = gap::before(text, inside.start, span.start).max(at);
        let to = gap::behind(text, span.end.max(from), inside.end);
        left |= says(&text[at..from]);
        let between = left && says(&text[to..inside.end]);
        edits.push(Edit::replace(
            Span::new(from, to),
            if between { r"\n\n" } else { "" },
        ));
        at = to;
    }
    (left || says(&text[at..inside.end])).then_some(edits)
}

/// Whether the inside of a literal has anything but white space.
fn says(raw: &[u8]) -> bool {
    let mut at = 0;
    while at < raw.len() {
        cost::add(1);
        let (c, used) = match raw[at] {
            b'\\' => json::escape_at(&raw[at..]),
            byte => (byte as char, 1),
        };
        if !c.is_whitespace() {
            return true;
        }
        at += used;
    }
    false
}

/// Elements of the same answer that say nothing: an agent may keep a stream's chunks as elements of their own.
fn blank_neighbours(wire: &dyn Wire, view: &View, lost: &mut [bool]) {
    let answers: Vec<usize> = (0..lost.len())
        .filter(|&n| lost[n] && view.turns[n].role == Role::Assistant)
        .collect();
    let blank = |turn: usize| {
        let parts = wire.content(view, turn).parts;
        let says_nothing = |p: &Part| p.kind == PartKind::Text && p.text.is_some_and(|t| !says(view.text(t)));
        parts.iter().all(says_nothing)
    };
    let mut done = 0;
    for answer in answers {
        if answer < done {
            continue;
        }
        let message = wire.message(view, answer);
        done = message.end;
        for turn in message {
            if !lost[turn] && view.turns[turn].role == Role::Assistant && blank(turn) {
                lost[turn] = true;
            }
        }
    }
}
