//! What the commands of one request share.

use crate::serve::exchange::Exchange;
use crate::serve::exchange::app::App;
use crate::serve::exchange::offer::Offered;
use crate::serve::proxy::RequestContext;
use crate::state::jobs::drafts::DraftRecord;
use crate::state::session::LiveConversation;
use crate::state::store::StoreError;

/// The commands of one request that are answered with a reply alone.
#[derive(Clone, Copy)]
pub(super) struct ChatCommands<'a> {
    pub(super) app: &'a App,
    pub(super) ctx: &'a RequestContext,
    pub(super) offered: &'a Offered,
}

impl<'a> ChatCommands<'a> {
    pub(super) fn of(exchange: &'a Exchange) -> Self {
        Self {
            app: &exchange.app,
            ctx: &exchange.ctx,
            offered: &exchange.offered,
        }
    }

    /// The conversation's open draft: one that waits for a person may have been written by another process.
    pub(super) async fn restored_draft(
        &self,
        live: &LiveConversation,
    ) -> Result<Option<DraftRecord>, StoreError> {
        let store = self.app.sessions.store();
        self.app.drafting.restored_in(store, live.key()).await
    }
}
