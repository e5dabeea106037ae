//! Positions of handoffs whose sentinels a transcript lacks, because the agent dropped the responses that
//! showed them.

use std::collections::HashSet;

use uuid::Uuid;

use super::removed_texts::RemovedTexts;
use super::undone::UndoneHandoffs;
use crate::marker::MarkerKind;
use crate::record::CutPoint;
use crate::rewrite::elements::Elements;
use crate::rewrite::{ChangeReason, RequestReading, positions};
use crate::wire::view::TurnChange;

/// Offsets after these cut points in the transcript without `gone`, each with its handoff.
///
/// A cut point counts turns without notes.
pub(super) fn places(
    reading: &RequestReading,
    gone: &RemovedTexts,
    points: &[&CutPoint],
) -> Vec<(usize, Uuid)> {
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
    let here = points
        .iter()
        .filter(|point| positions::is_in(&elements.view, &point.position));
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
