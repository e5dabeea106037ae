//! Finds the handoff that a request is pinned to, by any of the traces it leaves.

use std::sync::Arc;

use super::active_handoff::{Active, PinLookup, find_active, find_previous};
use super::{flattened, left_out};
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;
use baton_core::record::ResponseOrigin;
use baton_core::rewrite::Candidate;
use baton_core::rewrite::notes::UndoneHandoffs;

/// What was found.
pub(super) struct PinnedTo {
    /// The handoff that the request is cut at.
    pub(super) active: Option<Active>,
    /// Offset of the sentinel that the store knows or whose seal verifies.
    pub(super) by_sentinel: Option<usize>,
    /// The origin of the response that the request continues.
    pub(super) previous: Option<ResponseOrigin>,
}

impl PinLookup<'_> {
    /// The handoff of the last sentinel that counts, else of the response that the request continues. A later one whose
    /// answer the agent left out comes first. Else one in a flattened transcript. `ahead`: what was read of that
    /// response. `session`: the conversation's key, where the agent named its session.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn pinned_to(
        &self,
        candidates: Vec<Candidate>,
        ahead: Option<Option<String>>,
        live: Option<&Arc<LiveConversation>>,
        undone: &UndoneHandoffs,
        session: Option<&str>,
    ) -> Result<PinnedTo, StoreError> {
        let marked = find_active(*self, candidates).await?;
        let continued = find_previous(*self, ahead).await?;
        let sentinel = marked.as_ref().and_then(Active::candidate);
        let by_sentinel = sentinel.map(|candidate| candidate.sentinel.at);
        let mut active = marked.or(continued.active);
        if let Some(live) = live {
            let left_out = left_out::find(*self, live, active.as_ref(), undone);
            active = left_out.await?.or(active);
        }
        if active.is_none() {
            active = flattened::find(self.app, self.ctx, self.reading, session).await?;
        }
        Ok(PinnedTo {
            active,
            by_sentinel,
            previous: continued.origin,
        })
    }
}
