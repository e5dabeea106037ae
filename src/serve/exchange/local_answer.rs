//! Synthetic responses, for which nothing is sent upstream.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use uuid::Uuid;

use super::value::Exchange;
use crate::proxy::answer_form;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::response_body::ResponseBody;
use crate::proxy::waiting::ShownDraft;
use crate::state::store::StoreError;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::commands::CommandReply;
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::plan::{Unresolved, is_model_call};
use baton_core::record::{Handoff, HandoffId};
use baton_core::response::{AnswerOpening, ProgressLine};
use baton_core::text::splice;
use baton_core::wire::SyntheticResponse;

impl Exchange {
    /// Lets the agent see that a draft is being written, if it streams.
    ///
    /// Not for an agent whose history the provider stores: it would continue a response that the provider
    /// does not know.
    pub(super) fn showing(mut self) -> Self {
        let offered = &self.offered;
        let facts = &offered.view().facts;
        if !facts.stream || !offered.resends() || !is_model_call(self.ctx.operation) {
            return self;
        }
        let answer = self.own(Uuid::now_v7(), "", None);
        let (wire, view) = (offered.wire(), offered.view());
        let begun = (wire.functions.stream_opening)(view, &answer, self.form().framing());
        let shown = ShownDraft::new(ProgressLine::new(begun, self.merge()));
        self.shown = Some(Arc::new(shown));
        self
    }

    /// Progress of a draft, if the agent has seen any of it.
    pub(super) fn begun_draft(&self) -> Option<&ShownDraft> {
        self.shown.as_deref().filter(|shown| shown.line().is_begun())
    }

    /// Ends a response after the draft that it shows. The rest of the response has already been sent.
    pub(super) fn end_shown(&self, shown: &ShownDraft, handoff: Option<&Handoff>) -> Response<ResponseBody> {
        shown
            .line()
            .close(self.view_bytes(handoff) as u64 / BYTES_PER_TOKEN);
        self.ctx.recorder.note(|e| e.streamed = true);
        self.ctx.recorder.decide(ExchangeOutcome::Complete);
        Response::new(ResponseBody::whole(Bytes::new()))
    }

    /// Answers a request to resume a handoff that is unknown or ambiguous.
    pub(super) async fn unresolved_handoff(&self, why: Unresolved) -> Response<ResponseBody> {
        tracing::info!(
            exchange = self.ctx.id,
            ?why,
            "failed to find the handoff to resume; answering with the reason"
        );
        self.local_answer(why.answer(), None).await
    }

    /// Builds a complete response with this text. `handoff` is the one whose sentinel the text contains.
    pub(super) async fn local_answer(
        &self,
        text: &str,
        handoff: Option<HandoffId>,
    ) -> Response<ResponseBody> {
        let id = Uuid::now_v7();
        let known = self.handoff_of(handoff).await;
        let (ctx, offered, store) = (&self.ctx, &self.offered, self.app.sessions.store());
        // A later request may refer to the response only by its id.
        if let Some(origin) = self.plan().answer_origin(handoff) {
            let shown = format!("resp_baton_{}", id.simple());
            let written = store.put_response_id(&ctx.principal, &shown, &origin).await;
            if let Err(error) = written {
                return unanswered(self, &error);
            }
        }
        ctx.recorder.note(|e| e.streamed = offered.view().facts.stream);
        ctx.recorder.decide(ExchangeOutcome::Complete);
        let (shape, kind) = self.form().own_shape();
        let compose = offered.wire().functions.compose;
        let body = compose(offered.view(), &self.own(id, text, known.as_deref()), shape);
        answer_form::own_response(kind, ResponseBody::whole(body))
    }

    /// Answers with a reply, after the draft that the response may show.
    pub(super) async fn reply(&self, reply: &CommandReply) -> Response<ResponseBody> {
        if let Some(shown) = self.begun_draft() {
            let result = match &reply.sentinel {
                Some(sentinel) => {
                    let report = AnswerOpening::None.reporting(&reply.text);
                    report.with_sentinel(sentinel.text.trim())
                }
                None => reply.shown(),
            };
            shown.end(&result);
            return self.end_shown(shown, self.handoff_of(reply.handoff()).await.as_deref());
        }
        let handoff = reply.handoff();
        self.local_answer(&reply.shown(), handoff).await
    }

    /// Returns the handoff with this id, if the store can be read.
    async fn handoff_of(&self, id: Option<HandoffId>) -> Option<Arc<Handoff>> {
        let read = self.app.sessions.handoff(&self.ctx.principal, id?).await;
        read.ok().flatten()
    }

    /// Bytes that the model sees of this transcript, or from `handoff` on.
    ///
    /// Agents read a response's usage as the size of their context, and compact by it.
    pub(super) fn view_bytes(&self, handoff: Option<&Handoff>) -> usize {
        let plan = self.plan();
        let request = match handoff {
            Some(handoff) => plan.fresh(handoff),
            None => plan.first(self.tooled()),
        };
        splice::len(&request.rope)
    }

    /// Estimated tokens of a request of this size, excluding the system prompt and the tools.
    pub(super) fn conversation_tokens(&self, bytes: usize) -> u64 {
        bytes.saturating_sub(self.offered.view().fixed_bytes()) as u64 / BYTES_PER_TOKEN
    }

    fn own<'a>(&'a self, id: Uuid, text: &'a str, handoff: Option<&Handoff>) -> SyntheticResponse<'a> {
        let offered = &self.offered;
        SyntheticResponse {
            id,
            model: offered.view().facts.model.as_deref().unwrap_or_default(),
            text,
            handoff: handoff.map(|handoff| handoff.id),
            view_bytes: self.view_bytes(handoff),
        }
    }
}

/// Builds the error response for a store that cannot be read or written.
pub(super) fn unanswered(exchange: &Exchange, error: &StoreError) -> Response<ResponseBody> {
    tracing::error!(exchange = exchange.ctx.id, %error, "failed to read or write the store for a local response; refusing the request");
    exchange.ctx.refuse(Fault::from(Code::STORE))
}
