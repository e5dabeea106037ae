//! Responses that the proxy gives by itself: nothing is sent upstream.

use http::{HeaderValue, Response, header};
use uuid::Uuid;

use super::Exchange;
use super::active_handoff::Unresolved;
use super::slow_answer::content_type;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::record::HandoffId;
use baton_core::wire::{AnswerShape, LocalAnswer};

/// What a person is told who asked for a handoff that is not known here.
const UNKNOWN: &str = "baton: this handoff is not known here, so nothing was sent to the model. `baton handoffs list` \
shows the handoffs of this store, and `baton handoffs show ID` the line to begin with. A handoff belongs to the client \
and to the state directory that it was made with. To go on without it, send your message again without that line.";

/// What a person is told whose line has lost so much of its id that several handoffs may be meant.
const AMBIGUOUS: &str = "baton: more than one handoff has an id that begins like this, so nothing was sent to the model. \
Give more of the id, best the whole line: `baton handoffs list` shows the handoffs of this store, and `baton handoffs \
show ID` the line to begin with. To go on without it, send your message again without that line.";

impl Exchange {
    /// Answers a request to resume a handoff that is not known, or may be one of several.
    pub(super) fn unresolved_handoff(&self, why: Unresolved) -> Response<ResponseBody> {
        let (told, said) = match why {
            Unresolved::Unknown => ("asked to resume a handoff that is not known here", UNKNOWN),
            Unresolved::Ambiguous => (
                "asked to resume by the beginning of an id that several handoffs have",
                AMBIGUOUS,
            ),
        };
        tracing::info!(exchange = self.ctx.id, "{told}");
        self.say_alone(said, None)
    }

    /// A complete answer of this text.
    pub(super) fn say_alone(&self, text: &str, handoff: Option<HandoffId>) -> Response<ResponseBody> {
        self.say_alone_as(Uuid::now_v7(), text, handoff)
    }

    /// The same, with an id of its own: a UUIDv7.
    pub(super) fn say_alone_as(
        &self,
        id: Uuid,
        text: &str,
        handoff: Option<HandoffId>,
    ) -> Response<ResponseBody> {
        let offered = &self.offered;
        let facts = &offered.agent.request.view().facts;
        let said = LocalAnswer {
            id,
            model: facts.model.as_deref().unwrap_or_default(),
            text,
            handoff,
            request_bytes: offered.agent.request.len(),
        };
        let shape = match facts.stream {
            true => AnswerShape::Stream(self.framing().unwrap_or(offered.agent.wire.framing())),
            false => AnswerShape::Whole,
        };
        let kind = match shape {
            AnswerShape::Whole => "application/json",
            AnswerShape::Stream(framing) => content_type(framing),
        };
        self.ctx.recorder.note(|e| e.streamed = facts.stream);
        self.ctx.recorder.decide(ExchangeOutcome::Complete);
        let body = offered
            .agent
            .wire
            .compose(offered.agent.request.view(), &said, shape);
        let mut response = Response::new(ResponseBody::whole(body));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}
