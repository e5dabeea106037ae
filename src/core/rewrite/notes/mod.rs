//! Removes from a transcript everything that the model never sees: commands that baton itself answered, its
//! replies, the sentinels of undone handoffs, and the traces in subagents' reports.
//!
//! A reply has the line `[[handoff-note:]]`, and answers the user turn directly before it. The note of an
//! undo has the handoff's id, `[[handoff-note:ID]]`. After an odd number of them the handoff does not count.
//! So forks and rewinds are handled without any stored state.

mod in_flattened;
mod interjected;
mod removed_texts;
pub mod undone;

use uuid::Uuid;

pub use self::interjected::{InterjectedCommand, interjected};
use self::removed_texts::{RemovedTexts, without};
pub use self::undone::UndoneHandoffs;
use super::chat_markers::ChatMarker;
use super::elements::Elements;
use super::reading::TextFinder;
pub use super::users_words::{NoteSearch, has_unanswered, last_message, last_typed, may_say};
use super::users_words::{own_text, unanswered};
use super::{ChangeReason, RequestReading, elements, positions};
use crate::agents::tools::ToolKind;
use crate::agents::wordings;
use crate::commands;
use crate::marker::{MarkerKind, sentinel};
use crate::record::CutPoint;
use crate::rewrite::chat_markers::{announcement_start, answer_start};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::transcript::Transcript;
use crate::wire::view::{InjectedKind, Role, TurnChange, View};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// A transcript without baton's traces.
#[derive(Debug, Clone)]
pub struct CleanedTranscript {
    /// The cleaned transcript.
    pub reading: RequestReading,
    /// Number of removed bytes.
    pub removed: usize,
    /// Handoffs that were undone.
    pub undone: UndoneHandoffs,
}

/// Removes commands, replies and undone sentinels; `None` if there are none, or nothing else.
///
/// `points` are cut points of handoffs whose sentinels the transcript may lack.
pub fn take_out(
    reading: &RequestReading,
    look: NoteSearch<'_>,
    points: &[&CutPoint],
) -> Option<CleanedTranscript> {
    let mut inside_results = interjected::removals(reading, look);
    inside_results.extend(removals(reading));
    let (mut left, undone) = match removed(reading, look, points) {
        Some((mut changes, undone)) => {
            changes.extend(inside_results);
            (elements::changed(reading, changes)?, undone)
        }
        None if inside_results.is_empty() => in_flattened::without_notes(reading, look.prefix)?,
        None => (
            elements::changed(reading, inside_results)?,
            UndoneHandoffs::default(),
        ),
    };
    // `changed` reads the result as a request for a model's response, but a compaction is a summary and has no tools.
    let view = &reading.view;
    left.view.facts.summary = view.facts.summary;
    left.view.tools = left.view.tools.filter(|_| view.tools.is_some());
    // A request without any message is not sent. It occurs if an agent counts tokens after nothing but a command.
    left.view.last_spoken()?;
    Some(CleanedTranscript {
        removed: view.body.len().saturating_sub(left.view.body.len()),
        reading: left,
        undone,
    })
}

/// Changes that remove the traces.
fn removed(
    reading: &RequestReading,
    look: NoteSearch<'_>,
    points: &[&CutPoint],
) -> Option<(Vec<TurnChange>, UndoneHandoffs)> {
    let mut marks = reading.marks.iter();
    let noted = marks.any(|m| matches!(m.kind, MarkerKind::Note(_)));
    let view = &reading.view;
    let unanswered = unanswered(view, look);
    // Most transcripts have neither and need no further pass.
    if !noted && unanswered.is_empty() {
        return None;
    }
    let marks = ChatMarker::in_reading(reading);
    let last_user = last_users(view);
    let mut gone = answered_commands(view, &marks, &last_user, look);
    for turn in unanswered {
        gone.command(view, turn, look);
    }
    let dropped = places(reading, &gone, points);
    let undone = UndoneHandoffs::find(view, &marks, &dropped);
    for open in marks.opens.iter().filter(|open| undone.is_undone(open.id)) {
        match open.span {
            Some(span) => gone.text(open.turn, open.part, span),
            None => {
                gone.whole(open.turn);
                // The sentinel may be in the reply to a command.
                if let Some(user) = last_user[open.turn] {
                    gone.command(view, user, look);
                }
            }
        }
    }
    let changes = gone.changes(view, &undone);
    (!changes.is_empty()).then_some((changes, undone))
}

/// Collects commands with their replies.
fn answered_commands(
    view: &View,
    marks: &ChatMarker,
    last_user: &[Option<usize>],
    look: NoteSearch<'_>,
) -> RemovedTexts {
    let mut gone = RemovedTexts::default();
    for (answer, span) in marks.notes.iter().zip(marks.answers(view)) {
        gone.text(answer.turn, answer.part, span);
        if let Some(user) = last_user[answer.turn] {
            gone.command(view, user, look);
        }
    }
    gone
}

/// Removes the command in the user's last turn, to get the source of the handoff that it requests.
///
/// `None` if the transcript has nothing else.
pub fn without_last(reading: &RequestReading, look: NoteSearch<'_>) -> Option<RequestReading> {
    let view = &reading.view;
    let last = view.turns.iter().rposition(|t| t.role == Role::User)?;
    let mut gone = RemovedTexts::default();
    gone.command(view, last, look);
    gone.taken_out_of(reading)
}

/// Removes the marker lines of these asides after offset `from`; `None` if there are none, or nothing else.
pub fn without_asides(reading: &RequestReading, asides: &[Uuid], from: usize) -> Option<RequestReading> {
    let view = &reading.view;
    let mut texts = TextFinder::new(view);
    let mut gone = RemovedTexts::default();
    let is_meant = |id: &Uuid, at: usize| at >= from && asides.contains(id);
    for mark in &reading.marks {
        let MarkerKind::Aside(id) = mark.kind else {
            continue;
        };
        if is_meant(&id, mark.span.start)
            && let Some((turn, part, _)) = texts.at(mark.span.start, &[Role::Assistant])
        {
            gone.text(turn, part, mark.span);
        }
    }
    let items = reading.items.iter();
    for item in items.filter(|item| item.kind == InjectedKind::Aside) {
        if is_meant(&item.id, view.turns[item.turn].span.start) {
            gone.whole(item.turn);
        }
    }
    gone.taken_out_of(reading)
}

/// Removes the sentinels of this turn; `None` if there are none, or nothing else.
pub fn without_sentinel(reading: &RequestReading, turn: usize) -> Option<RequestReading> {
    let mut gone = RemovedTexts::default();
    let opens = ChatMarker::in_reading(reading).opens.into_iter();
    for open in opens.filter(|open| open.turn == turn) {
        match open.span {
            Some(span) => gone.text(open.turn, open.part, span),
            None => gone.whole(open.turn),
        }
    }
    gone.taken_out_of(reading)
}

/// Placeholder for a command that a side call quotes.
const QUOTED: &str = "(a command)";

/// Replaces the command in a side call that quotes the user's last message.
///
/// A placeholder is needed, because such a request has no other content. `None` if its last user turn has no
/// command, or for `at_end_only` none after the wording of a title's request.
pub fn without_quoted(
    reading: &RequestReading,
    look: NoteSearch<'_>,
    at_end_only: bool,
) -> Option<RequestReading> {
    let view = &reading.view;
    let turn = view.turns.iter().rposition(|t| t.role == Role::User)?;
    let texts = view.content(turn).parts.into_iter().filter_map(|p| p.text);
    let quoted = texts.filter_map(|inside| quoted_command(view, inside, look.prefix));
    let quoted = quoted.filter(|(inside, quoted)| !at_end_only || inside != quoted);
    let mut quoted: Vec<Span> = quoted.map(|(_, quoted)| quoted).collect();
    if quoted.is_empty() && !at_end_only {
        let (_, span, text) = own_text(view, turn, look.tags)?;
        quoted.extend(commands::parse(&text, look.prefix).map(|_| span));
    }
    let placeholder = |span| TurnChange::Within(turn, Edit::replace(span, QUOTED));
    elements::changed(reading, quoted.into_iter().map(placeholder).collect())
}

/// Span of a block, and of the command that makes it up or that it quotes at its end.
fn quoted_command(view: &View, inside: Span, prefix: &str) -> Option<(Span, Span)> {
    let raw = view.text(inside);
    let text = json::unescape(raw);
    if commands::is_command(&text, prefix) {
        return Some((inside, inside));
    }
    let quoted = wordings::quoted_at_end(&text).filter(|quoted| commands::is_command(quoted, prefix))?;
    let before = json::spelled(raw, &text[..text.len() - quoted.len()])?;
    Some((inside, Span::new(inside.start + before, inside.end)))
}

/// For each turn, the user turn that it answers. This is the one directly before, although the response may
/// come back as several elements.
fn last_users(view: &View) -> Vec<Option<usize>> {
    let mut last = None;
    let turns = view.turns.iter().enumerate();
    turns
        .map(|(n, turn)| {
            let before = last;
            match turn.role {
                Role::User => last = Some(n),
                // A reply after tool results answers no command.
                Role::Tool => last = None,
                _ => {}
            }
            before
        })
        .collect()
}

/// Offsets after these cut points in the transcript without `gone`, each with its handoff. The agent dropped the
/// responses that showed their sentinels.
///
/// A cut point counts turns without notes.
fn places(reading: &RequestReading, gone: &RemovedTexts, points: &[&CutPoint]) -> Vec<(usize, Uuid)> {
    if points.is_empty() {
        return Vec::new();
    }
    let view = &reading.view;
    let changes = gone.changes(view, &UndoneHandoffs::default());
    let left_out = changes.iter().filter_map(|change| match change {
        TurnChange::LeftOut(turn) => Some(*turn),
        _ => None,
    });
    let left_out: HashSet<usize> = left_out.collect();
    let mut elements = Elements::new(reading);
    elements.settle(ChangeReason::Note, changes);
    let is_here = |point: &&&CutPoint| positions::is_in(&elements.view, &point.position);
    let here = points.iter().filter(is_here);
    let place = |point: &&CutPoint| {
        let mut kept = (view.leading()..view.turns.len()).filter(|turn| !left_out.contains(turn));
        // Back to the numbering of the transcript with its notes.
        let turn = kept.nth(point.position.turns)?;
        Some((view.turns[turn].span.start, point.handoff))
    };
    here.filter_map(place).collect()
}

/// Handoffs that are named in notes, and whose sentinel the transcript may lack.
pub fn unseen(reading: &RequestReading) -> HashSet<Uuid> {
    let marks = || reading.marks.iter();
    let named = marks().filter_map(|mark| match mark.kind {
        MarkerKind::Note(id) if !id.is_nil() => Some(id),
        _ => None,
    });
    let mut unseen: HashSet<Uuid> = named.collect();
    for mark in marks() {
        if let MarkerKind::Open(id) = mark.kind {
            unseen.remove(&id);
        }
    }
    for item in &reading.items {
        unseen.remove(&item.id);
    }
    unseen
}

/// Changes that remove the traces.
///
/// Their form decides and not their ids: a look-alike in another agent's report is never of use to the model.
pub(super) fn removals(reading: &RequestReading) -> Vec<TurnChange> {
    let view = &reading.view;
    let with_results = |at: &usize| matches!(view.turns[*at].role, Role::User | Role::Tool);
    let marks = reading.marks.iter();
    let marked = marks.filter_map(|mark| view.turn_at(mark.span.start));
    let marked: BTreeSet<usize> = marked.filter(with_results).collect();
    if marked.is_empty() {
        return Vec::new();
    }
    let transcript = Transcript::from_view(view);
    let calls = transcript.answered_calls();
    let mut changes = Vec::new();
    for at in marked {
        for part in transcript.turn(at).into_iter().flat_map(|turn| turn.parts()) {
            let is_report = calls
                .get(&(at, part.span.start))
                .is_some_and(|used| ToolKind::from_call(&used.call.named(), &Value::Null) == ToolKind::Agent);
            if is_report {
                let spans = part.texts().into_iter().map(|text| text.span);
                // A report of nothing but traces stays, because some APIs refuse an empty result.
                let edits = spans.filter_map(|inside| without(&view.body, inside, &traces(reading, inside)));
                changes.extend(edits.flat_map(|edits| TurnChange::within(at, edits)));
            }
        }
    }
    changes
}

/// Sentinels with their reports, asides, and replies with their notes, in one string.
fn traces(reading: &RequestReading, inside: Span) -> Vec<Span> {
    let (body, marks) = (&reading.view.body, &reading.marks);
    let first = marks.partition_point(|mark| mark.span.start < inside.start);
    let last = marks.partition_point(|mark| mark.span.start < inside.end);
    let mut done = inside.start;
    let mut all = Vec::new();
    for (n, mark) in marks.iter().enumerate().take(last).skip(first) {
        let trace = match mark.kind {
            MarkerKind::Open(_) => sentinel::read(body, inside, marks, n)
                .map(|found| Span::new(announcement_start(body, done, found.at), found.rest)),
            MarkerKind::Note(_) => {
                let start = answer_start(body, done, mark.span.start);
                Some(Span::new(start, mark.span.end))
            }
            MarkerKind::Aside(_) => Some(mark.span),
            MarkerKind::Close(_) | MarkerKind::Broken(_) => None,
        };
        done = trace.map_or(done, |trace| trace.end);
        all.extend(trace);
    }
    all
}
