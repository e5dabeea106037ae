//! How upstream's first response is handled.

use std::sync::Arc;

use http::response::Parts;
use http::{Response, StatusCode};

use super::active_handoff::is_spelled_out;
use super::opening::AnswerOpening;
use super::read::body_hash;
use super::whole::WholeAnswer;
use super::{Exchange, is_json, is_model_call, is_untyped, shaped, stream, whole};
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::headers;
use crate::serve::proxy::response_body::ResponseBody;
use crate::serve::proxy::{relay, route};
use crate::state::config::HandoffMode;
use crate::state::session::{LiveConversation, UnconfirmedEnd};
use crate::state::store::StoreError;
use baton_core::course::VerdictInput;
use baton_core::mark::sentinel;
use baton_core::record::{Handoff, HandoffId};
use baton_core::rewrite::{Cut, RewriteOutcome};
use baton_core::tools::ToolNames;
use baton_core::wire::{Framing, ResponseWatch};

/// What the agent gets.
#[expect(clippy::large_enum_variant, reason = "it is made to be taken apart at once")]
pub(super) enum FirstAnswer {
    Now(Response<ResponseBody>),
    /// When all of it is there.
    Collected(Box<WholeAnswer>),
}

impl FirstAnswer {
    pub(super) async fn response(self) -> Response<ResponseBody> {
        match self {
            Self::Now(response) => response,
            Self::Collected(asked) => whole::answer(asked).await,
        }
    }
}

impl Exchange {
    pub(super) fn live(&self) -> Result<&Arc<LiveConversation>, StoreError> {
        self.offered.agent.live.as_ref().ok_or_else(|| StoreError {
            message: "the store could not be read".to_owned(),
        })
    }

    pub(super) fn hash(&self) -> u64 {
        let offered = &self.offered;
        offered
            .agent
            .asked_hash
            .unwrap_or_else(|| body_hash(offered.agent.request.text()))
    }

    /// The handoff behind which a repeated request goes straight on.
    pub(super) fn repeated(&self) -> Option<HandoffId> {
        if self.opening.undo().is_some() {
            return None;
        }
        // Where responses stop at a handoff, nothing goes on behind it but the agent's next request.
        if self.stops() {
            return None;
        }
        let live = self
            .offered
            .agent
            .live
            .as_ref()
            .filter(|l| is_model_call(self.ctx.endpoint) && l.may_repeat())?;
        let handoff = live.take_repeat(self.hash(), &self.answer, self.app.clock.now_ms())?;
        let asked = live.pending_undo();
        let Some(asked) = asked.filter(|asked| asked.undone && asked.handoff == handoff) else {
            return Some(handoff);
        };
        // The agent never got it whole, and the person wants it undone: the request is answered as if it had not fired.
        live.forget_repeat(&self.answer);
        self.app.sessions.shown(live, &[handoff]);
        self.app.sessions.undo_over(live, asked);
        None
    }

    /// Sends the first leg and takes its answer.
    pub(super) async fn begin(self) -> Response<ResponseBody> {
        let first = self.offered.first(&self.app, self.offered.offer.tooled);
        self.note_lost(&first);
        let sent = self.send_first(&first).await;
        let response = match sent {
            Ok(response) => response,
            Err(fault) => return self.ctx.refuse(fault.into()),
        };
        self.ctx.recorder.first_byte();
        let wire = self.offered.agent.wire;
        let may_retry =
            wire.binds_prefixes() || self.offered.pin.active.is_some() && wire.may_refuse_thinking();
        if response.status() == StatusCode::BAD_REQUEST && may_retry {
            return Box::pin(self.answer_bad_request(first, response)).await;
        }
        self.take(response, first).response().await
    }

    /// Answers a repeated request: its handoff's sentinel, then the leg behind it.
    pub(super) async fn go_on(self, id: HandoffId) -> Response<ResponseBody> {
        let found = self.app.sessions.handoff(&self.ctx.principal, id).await;
        let found = found.unwrap_or_else(|error| {
            tracing::error!(exchange = self.ctx.id, %error, "a repeated request runs its first leg again");
            None
        });
        let Some(handoff) = found else {
            return Box::pin(self.begin()).await;
        };
        self.fired.add(handoff.id);
        self.go_on_behind(&handoff).await
    }

    /// The same answer with this in front of its first sentinel.
    pub(super) fn telling(self, told: String) -> Self {
        Self {
            opening: AnswerOpening::Report(told.into()),
            ..self
        }
    }

    /// Answers with a handoff's sentinel, then the leg behind it; with the sentinel alone where responses stop there.
    pub(super) async fn go_on_behind(mut self, handoff: &Handoff) -> Response<ResponseBody> {
        self.fresh = true;
        if self.stops() {
            return match self.begun_draft() {
                Some(shown) => self.end_shown(shown),
                None => self.say_alone(&self.opening(handoff), Some(handoff.id)),
            };
        }
        let fresh = self.fresh(&handoff.head).cut_at(Some(handoff.id));
        let response = match self.send_leg(&fresh).await {
            Ok(response) => response,
            Err(fault) => return self.ctx.refuse(fault.into()),
        };
        self.ctx.recorder.first_byte();
        if !response.status().is_success() {
            return relay::answer(&self.ctx, Ok(response));
        }
        let now = VerdictInput {
            legs: 2,
            ..self.circumstances(&self.offered.first(&self.app, true))
        };
        let (parts, body) = response.into_parts();
        let opening = Some(Arc::new(handoff.clone()));
        let now = VerdictInput { pending: None, ..now };
        self.show(parts, body, now, opening).response().await
    }

    /// The answer's end was handed over: as soon as it is known to be delivered, the same request again is a new one, and the
    /// agent has the sentinels that the answer shows.
    pub(super) fn ended(&self) {
        if let Some(then) = self.when_ended() {
            then();
        }
    }

    /// What is to be done when the answer's end was handed over; `None`: nothing.
    pub(super) fn when_ended(&self) -> Option<impl FnOnce() + Send + use<>> {
        let fired = self.fired.take();
        let undo = self.opening.undo().map(|words| words.asked);
        let live = self.offered.agent.live.as_ref();
        let live = live.filter(|l| l.may_repeat() || !fired.is_empty() || undo.is_some())?;
        let live = live.clone();
        let (app, answer, ends) = (self.app.clone(), self.answer.clone(), self.ctx.ends.clone());
        Some(move || {
            // At once, since a person may ask for the next one, at any replica.
            if let Some(asked) = undo {
                app.sessions.undo_over(&live, asked);
            }
            let conversation = live.clone();
            let end = UnconfirmedEnd::new(move || {
                live.forget_repeat(&answer);
                if !fired.is_empty() {
                    app.sessions.shown(&live, &fired);
                }
            });
            conversation.waits_for(&end);
            ends.add(end);
        })
    }

    /// Whether it matters that the answer's end was handed over: an answer of the conversation broke off behind its sentinel,
    /// or still may, or an undo waits until it was told.
    pub(super) fn waits_for_handover(&self) -> bool {
        self.opening.undo().is_some() || self.offered.agent.live.as_ref().is_some_and(|l| l.may_repeat())
    }

    /// Handles upstream's response to the first leg.
    pub(super) fn take(self, response: Response<UpstreamBody>, first: RewriteOutcome) -> FirstAnswer {
        if !response.status().is_success() || !is_model_call(self.ctx.endpoint) {
            return FirstAnswer::Now(relay::answer(&self.ctx, Ok(response)));
        }
        let now = self.circumstances(&first);
        let (parts, body) = response.into_parts();
        self.show(parts, body, now, None)
    }

    fn show(
        self,
        parts: Parts,
        body: UpstreamBody,
        now: VerdictInput,
        opening: Option<Arc<Handoff>>,
    ) -> FirstAnswer {
        let relayed = |exchange: &Self, parts, body| {
            FirstAnswer::Now(relay::answer(
                &exchange.ctx,
                Ok(Response::from_parts(parts, body)),
            ))
        };
        let body = match self.readable(&parts, body) {
            Ok(body) => body,
            Err(body) => return relayed(&self, parts, body),
        };
        if self.is_stream(&parts) {
            self.ctx.recorder.note(|e| e.streamed = true);
            let source = stream::Driver::new(self, body, now, opening);
            return FirstAnswer::Now(shaped(parts.status, &parts.headers, ResponseBody::stream(source)));
        }
        if self.is_whole(&parts) {
            return FirstAnswer::Collected(Box::new(WholeAnswer {
                exchange: self,
                parts,
                body,
                now,
                opening,
            }));
        }
        relayed(&self, parts, body)
    }

    /// Whether an answer is a stream: by its content type, or the array that was asked for. An answer without a content
    /// type is what was asked for: ChatGPT's server for Codex names none.
    pub(super) fn is_stream(&self, parts: &Parts) -> bool {
        headers::is_stream(&parts.headers)
            || self.framing() == Some(Framing::JsonArray) && is_json(parts)
            || is_untyped(parts) && self.wants_stream()
    }

    /// Whether an answer is one JSON document, by the same rule.
    pub(super) fn is_whole(&self, parts: &Parts) -> bool {
        is_json(parts) || is_untyped(parts) && !self.wants_stream()
    }

    fn wants_stream(&self) -> bool {
        self.offered.agent.request.view().facts.stream
    }

    /// The framing that the request's path asks for, where it is not the wire's usual one.
    pub(super) fn framing(&self) -> Option<Framing> {
        route::streams_array(&self.ctx.target).then_some(Framing::JsonArray)
    }

    /// What is looked for in the response.
    pub(super) fn watch(&self) -> ResponseWatch {
        ResponseWatch {
            hide: self.hidden(),
            buffered_bytes: self.app.config.limits.held_bytes,
        }
    }

    /// The tools of ours that the present leg was offered.
    pub(super) fn hidden(&self) -> ToolNames {
        let recall = match self.fresh {
            true => self.offered.offer.recall_next,
            false => self.offered.offer.recall,
        };
        match self.tooled {
            true => self.app.tools_with(recall).names(),
            false => ToolNames::NONE,
        }
    }

    fn circumstances(&self, first: &RewriteOutcome) -> VerdictInput {
        if let Some(live) = self
            .offered
            .agent
            .live
            .as_ref()
            .filter(|_| !self.offered.agent.side_call)
        {
            live.spoken.saw(first.messages);
        }
        VerdictInput {
            messages: first.messages,
            legs: 1,
            max_chain: self.app.config.handoff.max_chain.max(1),
            refused: 0,
            answered: Vec::new(),
            tools: self.app.recall_tools.clone(),
            pending: first
                .pending
                .clone()
                .or_else(|| self.offered.held_pending())
                .filter(|_| self.tooled && !self.offered.agent.side_call),
            structured: self.offered.agent.request.view().facts.structured || self.offered.agent.side_call,
        }
    }

    /// The request of a leg that starts afresh behind `head`.
    pub(super) fn fresh(&self, head: &str) -> RewriteOutcome {
        let tools = self.app.tools_with(self.offered.offer.recall_next);
        self.offered
            .rewritten(&self.app, Cut::Fresh { head }, Some(tools), &[])
    }

    /// What is shown at an answer's start: the sentinel of this handoff, or what else the answer begins with.
    pub(super) fn beginning(&self, handoff: Option<&Handoff>) -> Option<String> {
        match handoff {
            Some(handoff) => Some(self.opening(handoff)),
            None => self.opening.before_model().map(str::to_owned),
        }
    }

    /// The sentinel as it is shown at an answer's start.
    pub(super) fn opening(&self, handoff: &Handoff) -> String {
        self.opening_of(self.opening.before_sentinel(), handoff)
    }

    /// A line for the person, and the sentinel behind it.
    pub(super) fn opening_of(&self, told: &str, handoff: &Handoff) -> String {
        let sentinel = self.sentinel(handoff);
        match told {
            "" => sentinel,
            told if sentinel.starts_with('\n') => format!("{told}{sentinel}"),
            told => format!("{told}\n\n{sentinel}"),
        }
    }

    /// The sentinel as it is shown.
    pub(super) fn sentinel(&self, handoff: &Handoff) -> String {
        self.offered.agent.wire.sentinel_text(&self.mark(handoff))
    }

    fn mark(&self, handoff: &Handoff) -> String {
        let (id, reason) = (handoff.id, handoff.reason.as_deref());
        if is_spelled_out(&self.app, handoff) {
            let seal = self.app.seals.now().seal(&handoff.principal, id, &handoff.prompt);
            sentinel::full(id, reason, &handoff.prompt, &seal)
        } else {
            sentinel::short(id, reason)
        }
    }

    pub(super) fn stops(&self) -> bool {
        self.app.config.handoff.mode == HandoffMode::Stop
    }
}
