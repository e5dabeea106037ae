//! The cut: what is removed, what replaces it, and the rest of the sentinel's turn.

use super::{Candidate, Cut, orphans};
use crate::mark::{gap, paste_tag, sentinel};
use crate::rewrite::preamble;
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::Wire;
use crate::wire::view::{TurnContent, View};

/// Offset from which the agent's own bytes are kept.
pub(super) fn kept_from(view: &View, cut: Cut<'_>) -> usize {
    match cut {
        Cut::None | Cut::Text { .. } | Cut::Before { .. } => 0,
        Cut::At { candidate, .. } => candidate.sentinel.rest,
        Cut::BeforeTurn { turn, .. } => view.turns[turn].span.start,
        Cut::Fresh { .. } => view.list.end,
    }
}

pub(super) fn cut_edits(wire: &dyn Wire, view: &View, cut: Cut<'_>) -> Vec<Edit> {
    match cut {
        Cut::None => Vec::new(),
        Cut::Text { edits } => edits.to_vec(),
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
                // Only system messages precede.
                (None, Some(last)) => vec![Edit::insert(last.span.end, format!(",{with}"))],
                (_, None) => vec![Edit::insert(view.list.end - 1, with)],
            }
        }
        Cut::BeforeTurn { turn, head } => cut_before_turn(wire, view, turn, head),
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

/// Cuts in front of a turn, which is not the first one after the leading system messages.
fn cut_before_turn(wire: &dyn Wire, view: &View, turn: usize, head: &str) -> Vec<Edit> {
    let from = view.leading();
    if turn <= from {
        return cut_edits(wire, view, Cut::Before { head });
    }
    let with = opening(wire, view, from, turn, head);
    let cut = Span::new(view.turns[from].span.start, view.turns[turn - 1].span.end);
    let mended = wire.facts().items.map(|items| (items.repair)(view, turn - 1));
    let mut edits = vec![Edit::replace(cut, with)];
    edits.extend(mended.unwrap_or_else(|| orphans::dropped(wire, view, turn - 1, &[])));
    edits
}

fn cut_at(
    wire: &dyn Wire,
    view: &View,
    candidate: &Candidate,
    prompt: Option<&str>,
    head: &str,
) -> Vec<Edit> {
    let from = view.leading().min(candidate.turn);
    let start = view.turns[from].span.start;
    let mut with = opening(wire, view, from, candidate.turn, head);
    let content = wire.content(view, candidate.turn);
    let (end, kept) = match tail(wire, view, candidate, prompt, &content) {
        Some(tail) => {
            with.push(',');
            with.push_str(&tail.prefix);
            (tail.from, tail.part)
        }
        // The message had nothing but the sentinel.
        None => (view.turns[candidate.turn].span.end, content.parts.len()),
    };
    let mut edits = vec![Edit::replace(Span::new(start, end), with)];
    let mended = wire
        .facts()
        .items
        .map(|items| (items.repair)(view, candidate.turn));
    let left = content.parts.get(kept..).unwrap_or_default();
    edits.extend(mended.unwrap_or_else(|| orphans::dropped(wire, view, candidate.turn, left)));
    edits
}

/// What is left of the sentinel's own turn.
struct SentinelTail {
    /// The bytes that reopen the turn.
    prefix: String,
    /// Offset from which its own bytes are kept.
    from: usize,
    /// First part that is kept.
    part: usize,
}

fn tail(
    wire: &dyn Wire,
    view: &View,
    candidate: &Candidate,
    prompt: Option<&str>,
    content: &TurnContent,
) -> Option<SentinelTail> {
    let here = content.parts.get(candidate.part)?;
    let inside = here.text?;
    let text: &[u8] = &view.body;
    let unclosed = candidate.sentinel.sealed.is_none();
    let known = candidate.sentinel.rest;
    let rest = match prompt.filter(|_| unclosed) {
        // A person may have typed the first words of the prompt.
        Some(prompt) if candidate.by_user => {
            let spelled = json::spelled(Span::new(known, inside.end).of(text), prompt);
            let rest = spelled.map_or(known, |len| gap::after(text, known + len, inside.end));
            paste_tag::after_closing(text, inside, rest)
        }
        Some(prompt) => sentinel::after_unclosed(text, known, inside.end, prompt),
        None => known,
    };
    let turn = view.turns[candidate.turn].span;
    let left = Span::new(rest, inside.end);
    let next = content.parts.get(candidate.part + 1);
    // A blank message counts as empty, also where blank text is allowed next to calls.
    let empty = if wire.facts().drops_blank_text || next.is_none() {
        json::unescape(left.of(text)).trim().is_empty()
    } else {
        left.is_empty()
    };
    let until = |end: usize| view.str(Span::new(turn.start, end)).into_owned();
    let (prefix, from) = match (content.list, empty) {
        (Some(list), false) => {
            let block = view.str(Span::new(here.span.start, inside.start));
            (until(list.start + 1) + &block, rest)
        }
        (None, false) => (until(inside.start), rest),
        (Some(list), true) if next.is_some_and(|n| list.holds(n.span.start)) => {
            (until(list.start + 1), next?.span.start)
        }
        (list, true) => {
            next?;
            let content = list.unwrap_or(here.span);
            (until(content.start) + wire.facts().absent_content?, content.end)
        }
    };
    let part = candidate.part + usize::from(empty);
    Some(SentinelTail { prefix, from, part })
}
