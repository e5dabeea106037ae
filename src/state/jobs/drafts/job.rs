//! A draft being written, owned by its writer. However it ends, the conversation becomes free for another
//! draft.

use std::sync::Arc;

use tokio::sync::watch;
use uuid::Uuid;

use super::{DraftOrder, DraftQueue, DraftResult, DraftState};
use baton_core::handoffs::draft::{AcceptedDraft, DraftEnd, DraftMethod};
use baton_core::record::HandoffId;

/// A draft being written. Dropping it before reporting an end cancels the draft: the agent has disconnected.
#[derive(Debug)]
pub struct DraftJob {
    pub(super) drafting: Arc<DraftQueue>,
    /// Id of the draft.
    pub id: Uuid,
    /// Order that requested the draft.
    pub wanted: DraftOrder,
    /// The document, if it already exists and a user accepted it.
    pub accepted: Option<AcceptedDraft>,
    pub(super) cancelled: watch::Receiver<bool>,
    pub(super) over: bool,
}

impl DraftJob {
    /// Marks the draft as written. It is stored under its id and awaits the user's approval.
    pub fn review(self, document: AcceptedDraft) {
        let id = self.id;
        self.made(DraftState::Review, document, id);
    }

    /// Resolves when the draft is cancelled.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
            // Without a sender nothing can cancel the draft anymore.
            std::future::pending::<()>().await;
        }
    }

    /// Ends the draft as a handoff.
    pub fn done(self, method: Option<DraftMethod>, document: String, handoff: HandoffId) {
        self.made(DraftState::Done, AcceptedDraft::new(document, method), handoff);
    }

    fn made(mut self, state: DraftState, document: AcceptedDraft, handoff: HandoffId) {
        let made = DraftResult {
            handoff: Some(handoff),
            method: document.method,
            document: Some(document.document),
            made_at: document.made_at,
            failure: None,
        };
        self.finish(state, None, made);
    }

    /// Ends the draft without a handoff.
    pub fn ended(mut self, end: &DraftEnd) {
        let (state, failure) = match end {
            DraftEnd::Empty => (DraftState::Empty, None),
            DraftEnd::Cancelled | DraftEnd::Review => (DraftState::Cancelled, None),
            _ => (DraftState::Failed, Some(end.outcome())),
        };
        let made = DraftResult {
            failure,
            ..DraftResult::default()
        };
        self.finish(state, Some(end.to_string()), made);
    }

    fn finish(&mut self, state: DraftState, why: Option<String>, made: DraftResult) {
        // Otherwise dropping the job would cancel the draft.
        self.over = true;
        self.drafting.finish(self.id, state, why, made);
    }
}

impl Drop for DraftJob {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut made = DraftResult::default();
        // A panic drops the job while unwinding. It is baton's fault, not the agent's.
        let (state, why) = match std::thread::panicking() {
            true => {
                made.failure = Some(DraftEnd::Internal.outcome());
                (DraftState::Failed, DraftEnd::Internal.to_string())
            }
            false => (DraftState::Cancelled, "the agent left".to_owned()),
        };
        self.finish(state, Some(why), made);
    }
}
