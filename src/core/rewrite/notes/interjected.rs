//! Finds commands that the user typed while the agent worked, in blocks at the end of results.
//!
//! Such blocks are always removed from the model's view. The result's own text may imitate one
//! (`agents::speakers`). The command is then doubtful and not executed.

use memchr::memmem;

use super::NoteSearch;
use crate::agents::speakers;
use crate::commands;
use crate::rewrite::RequestReading;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::transcript::{AnsweredCalls, Transcript, TranscriptPart, TranscriptPartKind};
use crate::wire::view::{Role, TurnChange};

/// Command typed while the agent worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterjectedCommand {
    pub text: String,
    /// Whether the result's own text may imitate it.
    pub is_doubtful: bool,
}

/// Command with its block.
struct FoundCommand {
    turn: usize,
    block: Span,
    command: InterjectedCommand,
}

/// Finds the commands in the results that the request adds, in order.
pub fn interjected(reading: &RequestReading, look: NoteSearch<'_>) -> Vec<InterjectedCommand> {
    // Earlier results were in a previous request, which executed their commands.
    let turns = &reading.view.turns;
    let last = turns.iter().rposition(|turn| turn.role == Role::Assistant);
    let found = find(reading, look).into_iter();
    let new = found.filter(|found| Some(found.turn) > last);
    new.map(|found| found.command).collect()
}

/// Changes that remove the blocks of all commands.
pub(super) fn removals(reading: &RequestReading, look: NoteSearch<'_>) -> Vec<TurnChange> {
    let found = find(reading, look).into_iter();
    found
        .map(|found| TurnChange::Within(found.turn, Edit::delete(found.block)))
        .collect()
}

fn find(reading: &RequestReading, look: NoteSearch<'_>) -> Vec<FoundCommand> {
    if look.prefix.is_empty() || !reading.may_interject {
        return Vec::new();
    }
    let words = speakers::INTERJECTION.trim_end().as_bytes();
    let view = &reading.view;
    let transcript = Transcript::from_view(view);
    let calls = transcript.answered_calls();
    let mut found = Vec::new();
    for (at, turn) in transcript.turns().enumerate() {
        if !matches!(turn.role, Role::User | Role::Tool) || memmem::find(view.raw(at), words).is_none() {
            continue;
        }
        for part in turn.parts() {
            if matches!(part.kind, TranscriptPartKind::Result(_)) {
                found.extend(in_result(at, &part, &calls, look.prefix));
            }
        }
    }
    found
}

/// Finds the commands at the end of a result's last text.
fn in_result(
    turn: usize,
    part: &TranscriptPart<'_>,
    calls: &AnsweredCalls<'_>,
    prefix: &str,
) -> Vec<FoundCommand> {
    let texts = part.texts();
    let Some(last) = texts.last() else {
        return Vec::new();
    };
    let text = last.get();
    let is_doubtful = calls
        .get(&(turn, part.span.start))
        // A result without its call may come from any tool.
        .is_none_or(|used| speakers::may_print_stored_text(&used.call.named(), &used.call.given(), &text));
    let found = speakers::interjected(&text).into_iter().filter_map(|one| {
        let command = commands::unquoted(text[one.typed].trim()).into_owned();
        if !commands::is_command(&command, prefix) {
            return None;
        }
        // The blank lines before a block separate it from the tool's output and go with it.
        let start = text[..one.block.start].trim_end().len();
        let offset = |at: usize| Some(last.span.start + json::spelled(last.raw(), &text[..at])?);
        Some(FoundCommand {
            turn,
            block: Span::new(offset(start)?, offset(one.block.end)?),
            command: InterjectedCommand {
                text: command,
                is_doubtful,
            },
        })
    });
    found.collect()
}
