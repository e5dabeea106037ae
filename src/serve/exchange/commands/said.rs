//! What an answer of baton's own says and does, and how it is said.

use http::Response;
use uuid::Uuid;

use crate::serve::exchange::Exchange;
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::store::StoreError;
use baton_core::commands::UndoOutcome;
use baton_core::mark::note;
use baton_core::record::HandoffId;

/// What an answer says and does.
pub(in crate::serve::exchange) struct Said {
    pub(in crate::serve::exchange) text: String,
    /// The note's id; an undo's is the handoff's.
    pub(in crate::serve::exchange) note: Uuid,
    /// A handoff with its sentinel behind it: from here on the model knows that.
    pub(super) sentinel: Option<(HandoffId, String)>,
    /// A text that it pins.
    pub(super) pinned: Option<String>,
    /// A text that is pinned no longer.
    pub(super) unpinned: Option<String>,
    /// What it undoes.
    pub(super) undo: Option<UndoOutcome>,
}

impl Said {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            note: Uuid::now_v7(),
            sentinel: None,
            pinned: None,
            unpinned: None,
            undo: None,
        }
    }
}

impl Exchange {
    pub(super) async fn say_noted(&self, said: &Said) -> Response<ResponseBody> {
        if let Some(shown) = self.begun_draft() {
            let sentinel = said.sentinel.as_ref().map_or("", |(_, sentinel)| sentinel);
            shown.end(&said.text, sentinel.trim());
            return self.end_shown(shown);
        }
        let line = note::line(said.note);
        let mut text = format!("{}{}\n\n{line}", note::BEGINS, said.text);
        if let Some((_, sentinel)) = &said.sentinel {
            text.push_str("\n\n");
            text.push_str(sentinel.trim());
        }
        let id = Uuid::now_v7();
        if let Err(error) = self.remember_answer(id).await {
            tracing::error!(exchange = self.ctx.id, %error, "a command's answer cannot be written");
            return self.ctx.refuse(Fault::from(Code::STORE));
        }
        self.say_alone_as(id, &text, said.sentinel.as_ref().map(|(handoff, _)| *handoff))
    }

    /// A later request may go on from the answer by its id alone: it goes on from the response before.
    async fn remember_answer(&self, id: Uuid) -> Result<(), StoreError> {
        let offered = &self.offered;
        let facts = &offered.agent.request.view().facts;
        // What resends its history does not go on by an id.
        if !offered.agent.wire.goes_on_by_id() || facts.unstored {
            return Ok(());
        }
        let previous = facts.previous.as_ref();
        let named = previous.map(|p| p.id.as_str());
        let behind = match &offered.pin.previous {
            Some(behind) => behind.written(),
            None => named.unwrap_or_default().to_owned(),
        };
        let shown = format!("resp_baton_{}", id.simple());
        let store = self.app.sessions.store();
        store.put_response_id(&self.ctx.principal, &shown, &behind).await
    }
}
