//! Hidden pairs whose place in a transcript is lost.

use std::collections::HashSet;

use uuid::Uuid;

use super::cut;
use super::plan::Cut;
use super::reading::RequestReading;
use crate::record::HiddenPair;
use crate::wire::Wire;

/// Pairs that should be in a rewritten request and are missing: those of `here`, which belong to calls of this
/// transcript, and of its asides. Pairs before the cut are not lost.
pub fn lost(
    wire: &dyn Wire,
    reading: &RequestReading,
    what: Cut<'_>,
    pairs: &[HiddenPair],
    here: &[Uuid],
    placed: &[Uuid],
) -> Vec<Uuid> {
    // Upstream's stored part of the transcript is dropped with everything in it.
    if matches!(what, Cut::Before { .. } | Cut::Fresh { .. }) {
        return Vec::new();
    }
    let from = cut::kept_from(&reading.view, what);
    let placed: HashSet<_> = placed.iter().collect();
    let mut lost = reading.asides_after(from);
    lost.retain(|id| !placed.contains(id));
    let here: HashSet<_> = here.iter().collect();
    let missing = pairs
        .iter()
        .filter(|pair| here.contains(&pair.id) && !placed.contains(&pair.id));
    let (ids, siblings): (Vec<Uuid>, Vec<&str>) = missing.map(|pair| (pair.id, pair.place.sibling())).unzip();
    let anywhere = wire.find_calls(&reading.view, &siblings, 0);
    let after = wire.find_calls(&reading.view, &siblings, from);
    let was_cut = anywhere
        .iter()
        .zip(after)
        .map(|(a, b)| a.is_some() && b.is_none());
    let left = ids.into_iter().zip(was_cut).filter(|(_, was_cut)| !was_cut);
    lost.extend(left.map(|(id, _)| id));
    lost
}
