//! The pieces of a document or a bundle, and the work that they come from.

use super::fill::DraftPiece;
use super::request::DraftSpec;
use crate::work::Work;

/// A document or a bundle in the making.
pub(super) struct Drafting<'m, 'i> {
    pub(super) work: &'m Work<'i>,
    pub(super) relevance: &'m [f32],
    pub(super) request: &'m DraftSpec<'m>,
    pub(super) pieces: Vec<DraftPiece>,
}

impl Drafting<'_, '_> {
    /// Position of a turn among all, from nearly 0 for the oldest to 1 for the newest, and its relevance to the focus.
    pub(super) fn standing(&self, turn: usize) -> (f32, f32) {
        #[allow(clippy::cast_precision_loss)]
        let age = turn as f32 / self.work.turns.len().max(1) as f32;
        let meant = turn.checked_sub(1).and_then(|at| self.relevance.get(at));
        (age, meant.copied().unwrap_or_default())
    }
}
