//! Shows the reply to a command.

use http::Response;
use uuid::Uuid;

use crate::serve::exchange::value::Exchange;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::store::StoreError;
use baton_core::commands::CommandReply;

impl Exchange {
    /// Answers with a reply, after the draft that the answer may show.
    pub(super) async fn reply(&self, reply: &CommandReply) -> Response<ResponseBody> {
        if let Some(shown) = self.begun_draft() {
            let sentinel = reply.sentinel.as_ref().map_or("", |sentinel| &sentinel.text);
            shown.end(&reply.text, sentinel.trim());
            return self.end_shown(shown);
        }
        let id = Uuid::now_v7();
        if let Err(error) = remember_answer(self, id).await {
            return unanswered(self, &error);
        }
        let handoff = reply.sentinel.as_ref().map(|sentinel| sentinel.handoff);
        self.local_answer(id, &reply.shown(Uuid::now_v7()), handoff)
    }
}

/// The response where the store cannot be read or written.
pub(super) fn unanswered(exchange: &Exchange, error: &StoreError) -> Response<ResponseBody> {
    tracing::error!(exchange = exchange.ctx.id, %error, "a command cannot be answered");
    exchange.ctx.refuse(Fault::from(Code::STORE))
}

/// Maps the answer's id to the response before it: a later request may continue the answer by its id alone.
async fn remember_answer(exchange: &Exchange, id: Uuid) -> Result<(), StoreError> {
    let Exchange {
        app, ctx, offered, ..
    } = exchange;
    let facts = &offered.view().facts;
    if offered.resends() {
        return Ok(());
    }
    let named = facts.previous.as_ref().map(|previous| previous.id.as_str());
    let origin = match &offered.pin.previous {
        Some(origin) => origin.written(),
        None => named.unwrap_or_default().to_owned(),
    };
    let shown = format!("resp_baton_{}", id.simple());
    let store = app.sessions.store();
    store.put_response_id(&ctx.principal, &shown, &origin).await
}
