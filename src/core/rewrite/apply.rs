//! Applies a plan: its changes as edits on the request's own bytes.

use super::plan::{ChangeReason, Cut, Rewrite, RewriteOutcome, SizeChange};
use super::reading::{Candidate, RequestReading};
use super::{count, cut, insertions, pairs, thinking, unescape};
use crate::text::json;
use crate::text::splice::{self, Edit};
use crate::wire::Wire;
use crate::wire::view::{View, take_out_members};

/// Rewrites a request. A rewrite that does nothing returns the same bytes.
pub fn rewrite(wire: &dyn Wire, reading: &RequestReading, what: &Rewrite<'_>) -> RewriteOutcome {
    let Some(listed) = listed(wire, reading, what) else {
        return rewrite_list(wire, reading, what);
    };
    let found = listed.candidates(wire);
    let mut cut = what.cut;
    if let Cut::At { candidate, head, .. } = &mut cut {
        let is_same =
            |c: &&Candidate| c.sentinel.id == candidate.sentinel.id || c.by_user && candidate.by_user;
        match found.iter().find(is_same) {
            Some(again) => *candidate = again,
            None => cut = Cut::Before { head },
        }
    }
    rewrite_list(wire, &listed, &Rewrite { cut, ..*what })
}

/// The request with a lone string converted to a list, where elements are inserted.
fn listed(wire: &dyn Wire, reading: &RequestReading, what: &Rewrite<'_>) -> Option<RequestReading> {
    let uncut = matches!(what.cut, Cut::None | Cut::Text { .. });
    let owes = what.previous.is_some_and(|previous| !previous.owed.is_empty());
    if uncut && !owes && what.more.is_empty() && what.insertions.is_empty() {
        return None;
    }
    let items = wire.facts().items?;
    reading.edited(wire, (items.listed)(&reading.view))
}

fn rewrite_list(wire: &dyn Wire, reading: &RequestReading, what: &Rewrite<'_>) -> RewriteOutcome {
    let pairs = thinking::settled_pairs(wire, reading, what);
    let pairs = pairs.as_deref().unwrap_or(what.pairs);
    rewrite_with(wire, reading, &Rewrite { pairs, ..*what })
}

/// The same with the pairs in their outgoing form.
fn rewrite_with(wire: &dyn Wire, reading: &RequestReading, what: &Rewrite<'_>) -> RewriteOutcome {
    let cut = cut::cut_edits(wire, &reading.view, what.cut);
    let mut placed = Vec::new();
    let mut changes: Vec<SizeChange> = SizeChange::of(ChangeReason::Cut, &cut).into_iter().collect();
    let inserted = insertions::edits(wire, &reading.view, what);
    changes.extend(SizeChange::of(ChangeReason::Inserted, &inserted));
    let omitted = thinking::edits(wire, &reading.view, what, &cut);
    changes.extend(SizeChange::of(ChangeReason::Thinking, &omitted));
    let first_edits = [&inserted[..], &omitted].concat();
    let with_asides = match what.cut {
        _ if what.pairs.is_empty() => None,
        Cut::Fresh { .. } => None,
        _ => pairs::put_asides(
            wire,
            reading,
            (&cut, &first_edits),
            what,
            &mut placed,
            &mut changes,
        ),
    };
    // These edits change the transcript and the places in it.
    let settled = with_asides
        .as_ref()
        .map(|_| pairs::settled(wire, &reading.view, what));
    let pairs = settled.as_deref().unwrap_or(what.pairs);
    let what = &Rewrite { pairs, ..*what };
    let (reading, from) = match &with_asides {
        Some(again) => (again, 0),
        None => (reading, cut::kept_from(&reading.view, what.cut)),
    };
    let view = &reading.view;
    let is_applied = with_asides.is_some();
    let mut edits = if is_applied { Vec::new() } else { cut.clone() };
    let mut beside = owed(view, what);
    let pending = pairs::put_besides(wire, view, what, from, &mut beside, &mut placed);
    if !is_applied {
        thinking::keep_insertions(view, &mut beside, &omitted);
    }
    let mut taken_out = 0;
    if what.tools.is_some() {
        let repairs = wire.repairs(view, from, &beside);
        // Gemini repairs a call in place and removes no message.
        taken_out = repairs.iter().filter(|e| e.with.is_empty()).count();
        beside.extend(repairs);
    }
    changes.extend(SizeChange::of(ChangeReason::Pair, &beside));
    edits.extend(beside);
    if !is_applied {
        // After the results of hidden calls that go to the same place.
        edits.extend(first_edits);
    }
    for (why, some) in independent_edits(wire, reading, what, from) {
        changes.extend(SizeChange::of(why, &some));
        edits.extend(some);
    }
    let messages = count::messages(wire, reading, what, &cut, is_applied);
    let messages = messages.saturating_sub(taken_out);
    RewriteOutcome {
        rope: splice::splice(&view.body, edits),
        messages,
        placed,
        pending,
        changes,
        model: what.model.map(str::to_owned),
    }
}

/// The independent edits, by reason.
fn independent_edits(
    wire: &dyn Wire,
    reading: &RequestReading,
    what: &Rewrite<'_>,
    from: usize,
) -> Vec<(ChangeReason, Vec<Edit>)> {
    let view = &reading.view;
    let mut all = vec![(ChangeReason::GivenBack, unescape::edits(wire, reading, from))];
    all.push((
        ChangeReason::Reference,
        pairs::drop_references(wire, reading, from),
    ));
    if let Some(ours) = what.tools {
        let mut tool: Vec<Edit> = wire.tools(view, ours).into_iter().collect();
        tool.extend((wire.facts().companions)(view));
        all.push((ChangeReason::Tool, tool));
    }
    if let Some(model) = what.model {
        all.push((ChangeReason::Model, wire.for_model(view, model)));
    }
    all.push((ChangeReason::Previous, previous(wire, view, what)));
    all.push((ChangeReason::History, members_of_own_history(wire, view, what)));
    let more = more(view, what);
    all.push(match what.text_only {
        Some(how) => (ChangeReason::Draft, [more, wire.text_only(view, how)].concat()),
        None => (ChangeReason::AskAgain, more),
    });
    all
}

/// Removes members that describe the agent's own history, where the provider gets another one.
fn members_of_own_history(wire: &dyn Wire, view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let facts = &view.facts;
    if !(facts.server_side || facts.begins_thread || facts.context_hint) {
        return Vec::new();
    }
    let mut gone = Vec::new();
    if what.tools.is_some() || !matches!(what.cut, Cut::None) {
        gone.extend_from_slice(wire.facts().holding_members);
    }
    if matches!(what.cut, Cut::Fresh { .. }) {
        gone.extend_from_slice(wire.facts().first_leg_members);
    }
    let around = |key: &&str| view.has_beside_transcript(key);
    if !gone.iter().any(around) {
        return Vec::new();
    }
    let text: &[u8] = &view.body;
    take_out_members(text, json::root(text), &gone)
}

/// The previous response by upstream's id; a cut drops it.
fn previous(wire: &dyn Wire, view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let named = view.facts.previous.as_ref().map(|previous| &*previous.id);
    let Some(items) = wire.facts().items else {
        return Vec::new();
    };
    match (what.cut, what.previous.map(|previous| previous.id)) {
        // Baton itself answered the conversation's first request.
        (Cut::None | Cut::Text { .. }, Some("")) => (items.previous)(view, None),
        (Cut::None | Cut::Text { .. }, Some(id)) if named != Some(id) => (items.previous)(view, Some(id)),
        (Cut::None | Cut::Text { .. }, _) => Vec::new(),
        _ => (items.previous)(view, None),
    }
}

/// Pending results of our calls in the response that the request continues. They come before all others, since the API
/// requires them before any other item.
fn owed(view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let (Cut::None | Cut::Text { .. }, Some(previous)) = (what.cut, what.previous) else {
        return Vec::new();
    };
    if previous.owed.is_empty() {
        return Vec::new();
    }
    let all = previous.owed.join(",");
    vec![match view.turns.first() {
        Some(first) => Edit::insert(first.span.start, format!("{all},")),
        None => Edit::insert(view.list.end - 1, all),
    }]
}

/// The elements to append.
fn more(view: &View, what: &Rewrite<'_>) -> Vec<Edit> {
    let empty = view.turns.is_empty() && matches!(what.cut, Cut::None) && owed(view, what).is_empty();
    let comma = |i: usize| if empty && i == 0 { "" } else { "," };
    let elements = what.more.iter().enumerate();
    elements
        .map(|(i, element)| Edit::insert(view.list.end - 1, format!("{}{element}", comma(i))))
        .collect()
}
