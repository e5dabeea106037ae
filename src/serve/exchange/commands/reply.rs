//! The reply to a command: its text, what it changes, and how it is shown.

use http::Response;
use uuid::Uuid;

use crate::serve::exchange::{Exchange, local_answer};
use crate::serve::proxy::fault::{Code, Fault};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::store::StoreError;
use baton_core::commands::UndoOutcome;
use baton_core::mark::note;
use baton_core::record::{HandoffId, RecordChange};

/// The reply to a command.
#[derive(Default)]
pub(in crate::serve::exchange) struct CommandReply {
    pub(in crate::serve::exchange) text: String,
    /// The note's id; an undo's is the handoff's.
    pub(in crate::serve::exchange) note: Uuid,
    /// The handoff that the model knows from here on.
    pub(super) sentinel: Option<ReplySentinel>,
    /// What it changes in the conversation's record.
    pub(super) change: Option<RecordChange>,
    pub(super) undo: Option<UndoOutcome>,
}

/// A handoff's sentinel at a reply's end.
#[derive(Debug, Clone)]
pub(super) struct ReplySentinel {
    pub(super) handoff: HandoffId,
    pub(super) text: String,
}

impl CommandReply {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            note: Uuid::now_v7(),
            ..Self::default()
        }
    }

    /// The reply as it is shown: its note takes it out of every later request, and the sentinel after the note stays.
    pub(super) fn shown(&self) -> String {
        let mut text = note::answer(&self.text, self.note);
        if let Some(sentinel) = &self.sentinel {
            text.push_str("\n\n");
            text.push_str(sentinel.text.trim());
        }
        text
    }
}

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
        local_answer::answer(self, id, &reply.shown(), handoff)
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
    let facts = &offered.agent.request.view().facts;
    if offered.agent.resends() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::mark::sentinel;

    #[test]
    fn a_sentinel_stands_after_the_note_that_takes_the_reply_out() {
        let handoff = Uuid::from_u128(9);
        let reply = CommandReply {
            sentinel: Some(ReplySentinel {
                handoff,
                text: format!("\n\n{}", sentinel::short(handoff, None)),
            }),
            ..CommandReply::new("done.")
        };
        let shown = reply.shown();
        let places = [
            note::BEGINS,
            "done.",
            &note::line(reply.note),
            &sentinel::short(handoff, None),
        ]
        .map(|part| shown.find(part));
        assert!(places.iter().all(Option::is_some), "{shown}");
        assert!(places.is_sorted(), "{shown}");
        assert!(!shown.contains("\n\n\n"), "{shown}");
    }
}
