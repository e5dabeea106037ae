//! Responses of the proxy's own: nothing is sent upstream.

use http::{HeaderValue, Response, header};
use uuid::Uuid;

use super::Exchange;
use super::answer_form::content_type;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::plan::Unresolved;
use baton_core::record::HandoffId;
use baton_core::wire::{AnswerShape, LocalAnswer};

/// The answer to a person who resumes a handoff that is unknown here.
const UNKNOWN: &str = "baton: this handoff is not known here, so nothing was sent to the model. `baton handoffs list` \
shows the handoffs of this store, and `baton handoffs show ID` the line to begin with. A handoff belongs to the client \
and to the state directory that it was made with. To go on without it, send your message again without that line.";

/// The answer to a person whose line has lost so much of its id that several handoffs may be meant.
const AMBIGUOUS: &str = "baton: more than one handoff has an id that begins like this, so nothing was sent to the model. \
Give more of the id, best the whole line: `baton handoffs list` shows the handoffs of this store, and `baton handoffs \
show ID` the line to begin with. To go on without it, send your message again without that line.";

/// Answers a request to resume a handoff that is unknown, or may be one of several.
pub(super) fn unresolved_handoff(exchange: &Exchange, why: Unresolved) -> Response<ResponseBody> {
    let text = match why {
        Unresolved::Unknown => UNKNOWN,
        Unresolved::Ambiguous => AMBIGUOUS,
    };
    tracing::info!(
        exchange = exchange.ctx.id,
        ?why,
        "a request to resume names an unknown handoff"
    );
    exchange.local_answer(text, None)
}

/// A complete answer of this text. `id`: of the answer, a UUIDv7. `handoff`: the one whose sentinel the text has.
pub(super) fn answer(
    exchange: &Exchange,
    id: Uuid,
    text: &str,
    handoff: Option<HandoffId>,
) -> Response<ResponseBody> {
    let (ctx, agent) = (&exchange.ctx, &exchange.offered.agent);
    let facts = &agent.request.view().facts;
    let local = LocalAnswer {
        id,
        model: facts.model.as_deref().unwrap_or_default(),
        text,
        handoff,
        request_bytes: agent.request.len(),
    };
    let (shape, kind) = match facts.stream {
        true => {
            let framing = exchange.form().framing();
            (AnswerShape::Stream(framing), content_type(framing))
        }
        false => (AnswerShape::Whole, "application/json"),
    };
    ctx.recorder.note(|e| e.streamed = facts.stream);
    ctx.recorder.decide(ExchangeOutcome::Complete);
    let body = agent.wire.compose(agent.request.view(), &local, shape);
    of_kind(kind, ResponseBody::whole(body))
}

/// A response of our own with a body of this content type.
pub(super) fn of_kind(kind: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
