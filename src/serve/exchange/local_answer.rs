//! Responses that the proxy gives by itself: nothing is sent upstream.

use http::{HeaderValue, Response, header};
use uuid::Uuid;

use super::active_handoff::Unresolved;
use super::answer_form::content_type;
use super::offer::Offered;
use crate::serve::proxy::RequestContext;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::record::HandoffId;
use baton_core::wire::{AnswerShape, LocalAnswer};

/// The answer to a person who resumes a handoff that is not known here.
const UNKNOWN: &str = "baton: this handoff is not known here, so nothing was sent to the model. `baton handoffs list` \
shows the handoffs of this store, and `baton handoffs show ID` the line to begin with. A handoff belongs to the client \
and to the state directory that it was made with. To go on without it, send your message again without that line.";

/// The answer to a person whose line has lost so much of its id that several handoffs may be meant.
const AMBIGUOUS: &str = "baton: more than one handoff has an id that begins like this, so nothing was sent to the model. \
Give more of the id, best the whole line: `baton handoffs list` shows the handoffs of this store, and `baton handoffs \
show ID` the line to begin with. To go on without it, send your message again without that line.";

/// A text that is an answer by itself.
pub(super) struct LocalText<'a> {
    /// Id of the answer: a UUIDv7.
    pub(super) id: Uuid,
    pub(super) text: &'a str,
    /// The handoff whose sentinel the text has.
    pub(super) handoff: Option<HandoffId>,
}

/// Answers a request to resume a handoff that is not known, or may be one of several.
pub(super) fn unresolved_handoff(
    ctx: &RequestContext,
    offered: &Offered,
    why: Unresolved,
) -> Response<ResponseBody> {
    let text = match why {
        Unresolved::Unknown => UNKNOWN,
        Unresolved::Ambiguous => AMBIGUOUS,
    };
    tracing::info!(
        exchange = ctx.id,
        ?why,
        "a request to resume a handoff names none that is known here"
    );
    let text = LocalText {
        id: Uuid::now_v7(),
        text,
        handoff: None,
    };
    answer(ctx, offered, &text)
}

/// A complete answer of this text.
pub(super) fn answer(
    ctx: &RequestContext,
    offered: &Offered,
    text: &LocalText<'_>,
) -> Response<ResponseBody> {
    let agent = &offered.agent;
    let facts = &agent.request.view().facts;
    let local = LocalAnswer {
        id: text.id,
        model: facts.model.as_deref().unwrap_or_default(),
        text: text.text,
        handoff: text.handoff,
        request_bytes: agent.request.len(),
    };
    let shape = match facts.stream {
        true => AnswerShape::Stream(agent.form(&ctx.target).framing()),
        false => AnswerShape::Whole,
    };
    let kind = match shape {
        AnswerShape::Whole => "application/json",
        AnswerShape::Stream(framing) => content_type(framing),
    };
    ctx.recorder.note(|e| e.streamed = facts.stream);
    ctx.recorder.decide(ExchangeOutcome::Complete);
    let body = agent.wire.compose(agent.request.view(), &local, shape);
    let mut response = Response::new(ResponseBody::whole(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
