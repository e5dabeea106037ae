//! The user's words in a user turn, without the text of the agent's harness before them.

use std::ops::Range;

use memchr::memmem;

use crate::agents::speakers::{INTERJECTION, SpeakerSettings, Spoken};
use crate::agents::wordings::UserText;
use crate::commands;
use crate::text::{Span, json};
use crate::transcript::{SaidPart, Transcript, TranscriptPartKind};
use crate::wire::view::{Role, TurnPart, TurnPartKind, View};

/// Search terms in addition to notes.
#[derive(Debug, Clone, Copy)]
pub struct NoteSearch<'a> {
    /// Prefix of commands; empty if there are none.
    pub prefix: &'a str,
    /// Tags that identify text of the agent's harness.
    pub tags: &'a [String],
}

/// Maximum number of prefix occurrences in a turn that are examined individually. A turn with more, usually
/// code, is cheaper to read by its parts.
const LOOKED_AT: usize = 8;

/// Whether the last user turn may begin with this prefix. Only its bytes are searched, because most do not.
pub fn may_say(view: &View, prefix: &str) -> bool {
    if prefix.is_empty() {
        return false;
    }
    asking(view).is_some_and(|turn| may_begin(view, turn, prefix))
}

/// The last turn of the conversation itself, if it is the user's.
fn asking(view: &View) -> Option<usize> {
    view.last_spoken()
        .filter(|turn| view.turns[*turn].role == Role::User)
}

/// User turns with a command that no response follows.
///
/// The agent left the response out, or a process was killed before it had one. The last turn is still
/// pending.
pub(super) fn unanswered(view: &View, look: NoteSearch<'_>) -> Vec<usize> {
    if look.prefix.is_empty() {
        return Vec::new();
    }
    let neighbours = view.turns.windows(2).enumerate();
    let mut unanswered: Vec<usize> = neighbours
        .filter(|(_, pair)| pair[0].role == Role::User && pair[1].role != Role::Assistant)
        .map(|(turn, _)| turn)
        .filter(|turn| may_begin(view, *turn, look.prefix))
        .filter(|turn| {
            let own = own_text(view, *turn, look.tags);
            own.is_some_and(|(_, _, text)| commands::is_command(&text, look.prefix))
        })
        .collect();
    if !unanswered.is_empty() {
        let last = view.turns.iter().rposition(|t| t.role == Role::User);
        // The request itself asks for the response to its last turn.
        unanswered.retain(|turn| Some(*turn) != last);
    }
    unanswered
}

/// Whether the transcript has such a command.
pub fn has_unanswered(view: &View, look: NoteSearch<'_>) -> bool {
    !unanswered(view, look).is_empty()
}

/// Whether a block of text in a user turn may begin with this prefix.
fn may_begin(view: &View, turn: usize, prefix: &str) -> bool {
    let raw = view.text(view.turns[turn].span);
    let mut found = memmem::find_iter(raw, prefix);
    if found.by_ref().take(LOOKED_AT).any(|at| may_start(raw, at)) {
        return true;
    }
    found.next().is_some() && may_begin_a_part(view, turn, prefix)
}

/// Whether a string may start at `at`, because a quote or text of the agent's harness comes before.
fn may_start(raw: &[u8], at: usize) -> bool {
    match raw[..at].last() {
        Some(b'"' | b' ' | b'>') => true,
        // The JSON escapes of line breaks and tabs.
        Some(b'n' | b't' | b'r') => raw[..at - 1].ends_with(b"\\"),
        _ => false,
    }
}

/// Like [`may_begin`], but only over the turn's text parts. Results of calls, which contain code, are
/// skipped.
fn may_begin_a_part(view: &View, turn: usize, prefix: &str) -> bool {
    let parts = view.content(turn).parts;
    let texts = parts.iter().filter(|p| p.kind == TurnPartKind::Text);
    let mut texts = texts.filter_map(|p| p.text);
    texts.any(|inside| {
        // Includes the quote before it.
        let from = inside.start.saturating_sub(1);
        let raw = view.text(Span::new(from, inside.end));
        memmem::find_iter(raw, prefix).any(|at| may_start(raw, at))
    })
}

/// The user's words in the last turn of the transcript, without the harness's text before them.
///
/// `None` if the last turn is not the user's.
pub fn last_message(view: &View, tags: &[String]) -> Option<String> {
    own_text(view, asking(view)?, tags).map(|(_, _, text)| text)
}

/// The newest of these turns with a message that the user typed.
///
/// A message that the user sent while the agent worked does not count.
pub fn last_typed(view: &View, turns: Range<usize>, tags: &[String]) -> Option<usize> {
    let settings = SpeakerSettings::tagged(tags);
    let is_typed = |said: &SaidPart<'_>, spoken: &Spoken| {
        spoken.by == UserText::User && !said.text[..spoken.range.start].ends_with(INTERJECTION)
    };
    turns.rev().find(|&turn| {
        view.turns[turn].role == Role::User && {
            let said = Transcript::from_view(view).said_in(turn, &settings);
            let mut said = said.iter();
            said.any(|said| said.spoken.iter().any(|spoken| is_typed(said, spoken)))
        }
    })
}

/// Finds the first text block of a user turn that is the user's up to its end.
///
/// Returns its part, its span and its text. Quotes around the whole text are removed.
pub(super) fn own_text(view: &View, turn: usize, tags: &[String]) -> Option<(usize, Span, String)> {
    let settings = SpeakerSettings::tagged(tags);
    let said = Transcript::from_view(view).said_in(turn, &settings);
    let (said, from) = said.iter().find_map(|said| Some((said, users_from(said)?)))?;
    let TranscriptPartKind::Text(text) = said.part.kind else {
        return None;
    };
    let parts = view.content(turn).parts;
    let is_it = |part: &TurnPart| part.kind == TurnPartKind::Text && part.text == Some(text.span);
    let part = parts.iter().position(is_it)?;
    let start = match from {
        0 => text.span.start,
        _ => text.span.start + json::spelled(text.raw(), &said.text[..from])?,
    };
    Some((
        part,
        Span::new(start, text.span.end),
        commands::unquoted(said.text[from..].trim()).into_owned(),
    ))
}

/// Start of the user's words in a block that ends with them.
fn users_from(said: &SaidPart<'_>) -> Option<usize> {
    let mut own = said.spoken.iter().filter(|spoken| spoken.by == UserText::User);
    let last = own.next().filter(|_| own.next().is_none())?;
    let is_at_end = said.text[last.range.end..].trim().is_empty();
    let has_words = is_at_end && !said.of(last).trim().is_empty();
    // Leading blanks of a block belong to the command, so that nothing of it stays.
    let first = said.spoken.len() == 1 && said.text[..last.range.start].trim().is_empty();
    has_words.then_some(if first { 0 } else { last.range.start })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::WireId;
    use crate::wire::{Operation, wire};

    /// Whether a last turn with a result of this much code, and with this message, may begin with a command.
    fn may_be_text(code: usize, text: &str) -> bool {
        let body = serde_json::json!({
            "model": "m",
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "a::b(c::d); ".repeat(code)},
                    {"type": "text", "text": text},
                ]},
            ],
        });
        let wire = wire(WireId::Anthropic);
        let view = wire.read(&body.to_string().into(), Operation::Generate).unwrap();
        may_say(&view, "::")
    }

    #[test]
    fn a_command_is_seen_after_any_amount_of_code() {
        for code in [0, 1, 2, 3, 4, 5, 50] {
            for command in [
                "::handoff",
                " \n::handoff",
                "<system-reminder>x</system-reminder>::pin a",
            ] {
                assert!(may_be_text(code, command), "{code} {command}");
            }
            assert!(!may_be_text(code, "std::mem is a module"), "{code}");
        }
    }
}
