//! Synthetic responses, for which nothing is sent upstream.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use uuid::Uuid;

use super::value::Exchange;
use crate::heavy;
use crate::proxy::answer_form;
use crate::proxy::fault::{Code, Fault};
use crate::proxy::response_body::{AgentResponse, ResponseBody};
use crate::proxy::waiting::{ShownDraft, WaitingBody};
use crate::state::store::StoreError;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::commands::CommandReply;
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::plan::{Unresolved, is_model_call};
use baton_core::record::{Handoff, HandoffId};
use baton_core::response::{AnswerOpening, ProgressLine};
use baton_core::text::splice;
use baton_core::wire::{ProxyError, SyntheticResponse};
use http_body_util::BodyExt;
use serde_json::Value;
use std::future::Future;

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
    pub(super) fn end_shown(&self, shown: &ShownDraft, handoff: Option<&Handoff>) -> AgentResponse {
        let tokens = self.view_bytes(handoff) as u64 / BYTES_PER_TOKEN;
        shown.line().close(tokens);
        self.ctx.recorder.note(|e| e.streamed = true);
        self.ctx.recorder.decide(ExchangeOutcome::Complete);
        Response::new(ResponseBody::whole(Bytes::new()))
    }

    /// Answers a request to resume a handoff that is unknown or ambiguous.
    pub(super) async fn unresolved_handoff(&self, why: Unresolved) -> AgentResponse {
        tracing::info!(
            exchange = self.ctx.id,
            ?why,
            "failed to find the handoff to resume; answering with the reason"
        );
        self.local_answer(why.answer(&self.ctx.principal), None).await
    }

    /// Builds a complete response with this text. `handoff` is the one whose sentinel the text contains.
    pub(super) async fn local_answer(&self, text: &str, handoff: Option<HandoffId>) -> AgentResponse {
        let id = Uuid::now_v7();
        let known = self.handoff_of(handoff).await;
        let (ctx, offered, store) = (&self.ctx, &self.offered, self.app.sessions.store());
        // A later request may refer to the response only by its id.
        if let Some(origin) = self.plan().answer_origin(handoff) {
            let shown = format!("resp_baton_{}", id.simple());
            let written = store.put_response(self.response(shown, origin, handoff)).await;
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
    pub(super) async fn reply(&self, reply: &CommandReply) -> AgentResponse {
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
pub(super) fn unanswered(exchange: &Exchange, error: &StoreError) -> AgentResponse {
    tracing::error!(exchange = exchange.ctx.id, %error, "failed to read or write the store for a local response; refusing the request");
    exchange.ctx.refuse(Fault::because(Code::STORE, error.cause()))
}

/// Maximum bytes of an error response that a stream reports.
const ERROR_BYTES: usize = 64 << 10;

type ResponseWork = crate::heavy::OffloadedFuture<AgentResponse>;

/// Returns the response of `work`.
///
/// If a streamed response has not begun when a keep-alive is due, the stream begins without it, and the
/// response of `work` continues the stream.
pub(super) async fn answered(
    exchange: Exchange,
    work: impl Future<Output = AgentResponse> + Send + 'static,
) -> AgentResponse {
    let mut work: ResponseWork = Box::pin(work);
    if !exchange.offered.view().facts.stream {
        return work.await;
    }
    // The future may outlive this function, and its polls are then offloaded as well.
    work = heavy::offloaded(exchange.offered.weight, work);
    let every = exchange.app.config.handoff.keepalive;
    let answered = tokio::select! {
        // Biased, because a response that is ready can be sent with its own status.
        biased;
        response = &mut work => Some(response),
        () = begun(&exchange) => None,
        () = tokio::time::sleep(every) => None,
    };
    let is_begun = exchange.begun_draft().is_some();
    if let Some(response) = answered {
        // Nothing was shown yet, so the response is sent as it is.
        if !is_begun {
            return response;
        }
        work = Box::pin(std::future::ready(response));
    }
    let (_, kind) = exchange.form().own_shape();
    let (shown, machine) = (exchange.shown.clone(), exchange.machine(exchange.hidden()));
    let waiting = WaitingBody::new(shown, machine, every, continuation(exchange, work));
    answer_form::own_response(kind, ResponseBody::stream(waiting))
}

/// Body that continues a stream begun without it. In a stream, an error is an event.
async fn continuation(exchange: Exchange, work: ResponseWork) -> ResponseBody {
    let (parts, body) = work.await.into_parts();
    if parts.status.is_success() {
        return body;
    }
    let read = http_body_util::Limited::new(body, ERROR_BYTES).collect().await;
    let body = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let error: Option<Value> = serde_json::from_slice(&body).ok();
    let wire = exchange.offered.wire();
    let unreadable = || wire.error_body(ProxyError::unreadable(parts.status.as_u16()));
    let error = error.map_or_else(unreadable, |error| error.to_string());
    let is_begun = exchange.begun_draft().is_some();
    ResponseBody::whole(wire.stream_error(exchange.form().framing(), &error, is_begun))
}

/// Waits until the agent sees something of a draft.
async fn begun(exchange: &Exchange) {
    match &exchange.shown {
        Some(shown) => shown.begun().await,
        None => std::future::pending().await,
    }
}
