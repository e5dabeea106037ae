//! What the person says in a user's turn, without what the agent's harness puts in front of it.

use uuid::Uuid;

use super::preamble::tagged_len;
use crate::agents::wordings::{self, UserText};
use crate::text::{Span, json};
use crate::wire::Wire;
use crate::wire::view::{PartKind, Role, View};

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

/// The first text of a user's turn that is the user's own: its part, where it begins, and what it says.
pub(super) fn own_text(
    wire: &dyn Wire,
    view: &View,
    turn: usize,
    tags: &[String],
) -> Option<(usize, Span, String)> {
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
