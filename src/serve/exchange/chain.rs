//! Requests that continue a response by its id: the conversation that they belong to.

use super::read::ParsedRequest;
use super::value::Exchange;
use crate::app::App;
use crate::proxy::RequestContext;
use crate::state::store::StoreResult;
use crate::state::store::records::{ResponseChain, ResponseId};
use baton_core::plan;
use baton_core::record::HandoffId;
use baton_core::wire::Role;

/// Returns the chain that a request continues or begins, and gives the request its key.
///
/// `None` if the agent sends its whole history with each request.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub(super) async fn enter(
    app: &App,
    ctx: &RequestContext,
    received: &mut ParsedRequest,
) -> StoreResult<Option<ResponseChain>> {
    let call = &mut received.call;
    let view = &call.reading.view;
    let has_answers = view.turns.iter().any(|turn| turn.role == Role::Assistant);
    let previous = view.facts.previous.as_ref();
    if plan::resends(view) || (previous.is_none() && has_answers) {
        return Ok(None);
    }
    let found = match previous {
        Some(previous) => {
            app.sessions
                .store()
                .response(&ctx.principal, &previous.id)
                .await?
        }
        None => None,
    };
    let mut chain = found.and_then(|found| found.chain).unwrap_or_default();
    // A session that the agent names is known by that name.
    if call.named || chain.conversation.is_empty() {
        chain.conversation.clone_from(&call.key);
    }
    call.key.clone_from(&chain.conversation);
    ctx.recorder.note(|e| e.conversation = Some(call.key.clone()));
    Ok(Some(chain))
}

impl Exchange {
    /// The last handoff of this conversation, if the provider stores its history.
    pub(super) fn chained_handoff(&self) -> Option<HandoffId> {
        self.chain.as_ref()?.handoff
    }

    /// Creates the record of a response id. `handoff` is the last one that the response shows.
    pub(super) fn response(&self, shown: String, upstream: String, handoff: Option<HandoffId>) -> ResponseId {
        let chain = self.chain.as_deref().map(|chain| ResponseChain {
            handoff: handoff.or(chain.handoff),
            ..chain.clone()
        });
        ResponseId {
            principal: self.ctx.principal.clone(),
            shown,
            upstream,
            chain,
        }
    }
}
