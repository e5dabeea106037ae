//! Removes from a transcript everything that the model never sees: commands that baton itself answered, its
//! replies, the sentinels of undone handoffs, and the traces in subagents' reports.
//!
//! A reply has the line `[[handoff-note:]]`, and answers the user turn directly before it. The note of an
//! undo has the handoff's id, `[[handoff-note:ID]]`. After an odd number of them the handoff does not count.
//! So forks and rewinds are handled without any stored state.

mod dropped;
mod in_flattened;
mod interjected;
mod removed_texts;
mod reports;
mod undone;
pub mod undone_pairs;

use uuid::Uuid;

pub use self::dropped::unseen;
pub use self::interjected::{InterjectedCommand, interjected};
use self::removed_texts::RemovedTexts;
pub use self::undone::UndoneHandoffs;
use super::RequestReading;
use super::chat_markers::ChatMarker;
use super::elements;
use super::reading::TextFinder;
pub use super::users_words::{NoteSearch, last_message, may_say};
use super::users_words::{own_text, unanswered};
use crate::agents::wordings;
use crate::commands;
use crate::marker::MarkerKind;
use crate::record::CutPoint;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::{InjectedKind, Role, TurnChange, View};

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
    inside_results.extend(reports::removals(reading));
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
    let noted = reading
        .marks
        .iter()
        .any(|m| matches!(m.kind, MarkerKind::Note(_)));
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
    let dropped = dropped::places(reading, &gone, points);
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
    for item in reading
        .items
        .iter()
        .filter(|item| item.kind == InjectedKind::Aside)
    {
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
    let mut quoted: Vec<Span> = texts
        .filter_map(|inside| quoted_command(view, inside, look.prefix))
        .filter(|(inside, quoted)| !at_end_only || inside != quoted)
        .map(|(_, quoted)| quoted)
        .collect();
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
