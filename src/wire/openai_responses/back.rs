//! Hidden pairs, put back into what the agent sends: each call where it stood, each result behind the group.

use crate::mark::gap;
use crate::record::{HiddenPair, Place};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::tools::TOOL_NAME;
use crate::wire::HiddenCall;
use crate::wire::view::{Anatomy, PartKind, Role, View};

use super::item::Item;

/// A hidden call as an item: upstream's own, or one made of what was collected.
pub(super) fn hidden_call(call: &HiddenCall) -> String {
    if let Some(raw) = call.raw.as_deref().filter(|_| call.complete) {
        return raw.to_owned();
    }
    format!(
        r#"{{"type":"function_call","status":"completed","call_id":{},"name":"{TOOL_NAME}","arguments":{}}}"#,
        json::quote(&call.id),
        json::quote(call.put_back())
    )
}

/// The result of a hidden call, as an item.
pub(super) fn result(pair: &HiddenPair) -> String {
    format!(
        r#"{{"type":"function_call_output","call_id":{},"output":{}}}"#,
        json::quote(&pair.call_id),
        json::quote(pair.answer.text())
    )
}

/// The call as this agent would send it: one that leaves out the ids of its items has none here, either,
/// since an id without its reasoning is refused.
fn call_like(view: &View, turn: usize, pair: &HiddenPair) -> String {
    let has_id = view
        .turns
        .get(turn)
        .is_some_and(|t| Item::read(&view.body, t.span).id.is_some());
    if has_id {
        pair.call.clone()
    } else {
        json::without(&pair.call, "id").into_owned()
    }
}

pub(super) fn put_beside(view: &View, turn: usize, pair: &HiddenPair) -> Vec<Edit> {
    let Place::Beside { offset, .. } = pair.place else {
        return Vec::new();
    };
    let spoken = |t: usize| {
        view.turns
            .get(t)
            .is_some_and(|t| matches!(t.role, Role::Assistant | Role::Other))
    };
    let away = usize::try_from(offset.unsigned_abs()).unwrap_or_default();
    let call = call_like(view, turn, pair);
    let (edit, near) = if offset < 0 {
        let first = (0..away.saturating_sub(1))
            .try_fold(turn, |t, _| t.checked_sub(1).filter(|&t| spoken(t)).ok_or(t))
            .unwrap_or_else(|t| t);
        (
            Edit::insert(view.turns[first].span.start, format!("{call},")),
            turn,
        )
    } else {
        let last = (0..away)
            .try_fold(turn, |t, _| Some(t + 1).filter(|&t| spoken(t)).ok_or(t))
            .unwrap_or_else(|t| t);
        (Edit::insert(view.turns[last].span.end, format!(",{call}")), last)
    };
    let end = (near..view.turns.len()).take_while(|&t| spoken(t)).last();
    vec![edit, behind(view, end.unwrap_or(near), &result(pair))]
}

/// In front of the turn that follows, so that calls and results put back at one place keep apart.
fn behind(view: &View, turn: usize, item: &str) -> Edit {
    match view.turns.get(turn + 1) {
        Some(next) => Edit::insert(next.span.start, format!("{item},")),
        None => Edit::insert(view.list.end - 1, format!(",{item}")),
    }
}

/// The sibling's call is upstream's to remember, and ours with it: only the result is missing there. Where the
/// agent refers to its calls by item id, ours is missing, too. Any other result is one whose call was cut.
pub(super) fn put_by_result(view: &View, turn: usize, pair: &HiddenPair) -> Vec<Edit> {
    let results = view.turns[..turn]
        .iter()
        .rev()
        .take_while(|t| t.role == Role::Tool);
    let first = turn - results.count();
    let by_reference = first
        .checked_sub(1)
        .is_some_and(|t| Item::read(&view.body, view.turns[t].span).reference);
    let back = Edit::insert(view.turns[first].span.start, format!("{},", result(pair)));
    match (&view.facts.previous, first.checked_sub(1)) {
        (Some(_), _) => vec![back],
        // The call behind the references, the result in front of the others: several pairs are one batch then.
        (None, Some(before)) if by_reference => {
            let call = format!(",{}", pair.call);
            vec![Edit::insert(view.turns[before].span.end, call), back]
        }
        (None, _) => Vec::new(),
    }
}

/// Messages right behind reasoning, in front of `turn`: our call may be what the reasoning was for, and an id that
/// stands in the place of another is refused. They go without theirs.
fn bare_messages(view: &View, turn: usize) -> Vec<Edit> {
    let mut edits = Vec::new();
    for before in view.turns[..turn].iter().rev() {
        if before.role != Role::Assistant {
            return Vec::new();
        }
        let item = Item::read(&view.body, before.span);
        match item.part {
            PartKind::Thinking => return edits,
            PartKind::Text if item.id.is_some() => {
                let whole = view.str(before.span);
                edits.push(Edit::replace(
                    before.span,
                    json::without(&whole, "id").into_owned(),
                ));
            }
            PartKind::Text => {}
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

/// The aside's item gives way to the pair. Where an agent glued other text to it, that stays in items of its
/// own.
pub(super) fn put_aside(
    view: &View,
    turn: usize,
    anatomy: &Anatomy,
    part: usize,
    mark: Span,
    pair: &HiddenPair,
) -> Vec<Edit> {
    let text: &[u8] = &view.body;
    let whole = view.turns[turn].span;
    let pair_items = format!("{},{}", call_like(view, turn, pair), result(pair));
    let Some((here, inside)) = anatomy.parts.get(part).and_then(|p| Some((p.span, p.text?))) else {
        let mut edits = bare_messages(view, turn);
        edits.push(Edit::replace(whole, pair_items));
        return edits;
    };
    let before = Span::new(inside.start, gap::before(text, inside.start, mark.start));
    let after = Span::new(gap::behind(text, mark.end, inside.end), inside.end);
    let open = anatomy.list.map_or(here.start, |l| l.start + 1);
    let close = anatomy.list.map_or(here.end, |l| l.end - 1);
    let block = |span: Span| {
        let blank = json::unescape(span.of(text)).trim().is_empty();
        (!blank).then(|| {
            let head = view.str(Span::new(here.start, inside.start));
            let tail = view.str(Span::new(inside.end, here.end));
            format!("{head}{}{tail}", view.str(span))
        })
    };
    let others = |parts: &[crate::wire::Part]| -> Vec<String> {
        parts.iter().map(|p| view.str(p.span).into_owned()).collect()
    };
    let message = |parts: Vec<String>| {
        (!parts.is_empty()).then(|| {
            let head = view.str(Span::new(whole.start, open));
            let tail = view.str(Span::new(close, whole.end));
            // Two items of one id would be refused, and ours means nothing to upstream.
            json::without(&format!("{head}{}{tail}", parts.join(",")), "id").into_owned()
        })
    };
    let mut first = others(&anatomy.parts[..part]);
    first.extend(block(before));
    let mut last: Vec<String> = block(after).into_iter().collect();
    last.extend(others(&anatomy.parts[part + 1..]));
    let items: Vec<String> = [message(first), Some(pair_items), message(last)]
        .into_iter()
        .flatten()
        .collect();
    let mut edits = bare_messages(view, turn);
    edits.push(Edit::replace(whole, items.join(",")));
    edits
}
