//! Removes baton's traces from the reports of subagents, whose own requests may have passed through baton.

use std::collections::BTreeSet;

use serde_json::Value;

use super::removed_texts::without;
use crate::agents::tools::ToolKind;
use crate::marker::{MarkerKind, sentinel};
use crate::rewrite::RequestReading;
use crate::rewrite::chat_markers::{announcement_start, answer_start};
use crate::text::Span;
use crate::transcript::Transcript;
use crate::wire::view::{Role, TurnChange};

/// Changes that remove the traces.
///
/// Their form decides and not their ids: a look-alike in another agent's report is never of use to the model.
pub(super) fn removals(reading: &RequestReading) -> Vec<TurnChange> {
    let view = &reading.view;
    let with_results = |at: &usize| matches!(view.turns[*at].role, Role::User | Role::Tool);
    let marked = reading
        .marks
        .iter()
        .filter_map(|mark| view.turn_at(mark.span.start));
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
            MarkerKind::Note(_) => Some(Span::new(
                answer_start(body, done, mark.span.start),
                mark.span.end,
            )),
            MarkerKind::Aside(_) => Some(mark.span),
            MarkerKind::Close(_) | MarkerKind::Broken(_) => None,
        };
        done = trace.map_or(done, |trace| trace.end);
        all.extend(trace);
    }
    all
}
