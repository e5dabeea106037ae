//! Sends an exchange's requests upstream, and retries the first one where the provider refuses its thinking.

use bytes::Bytes;
use http::response::Parts;
use http::{Response, StatusCode};

use super::Exchange;
use super::effects::may_pass;
use super::{is_model_call, shaped};
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::headers::Sending;
use crate::serve::proxy::relay;
use crate::serve::proxy::response_body::ResponseBody;
use crate::serve::proxy::upload::RopeBody;
use crate::serve::proxy::upstream::UpstreamFault;
use crate::state::journal::{PackedHeaders, SentLeg};
use crate::state::telemetry::{ExchangeOutcome, ThinkingRetry};
use baton_core::rewrite::RewriteOutcome;
use baton_core::rewrite::untooled::{self, ToolOmission};

impl Exchange {
    pub(super) async fn send_first(
        &self,
        first: &RewriteOutcome,
    ) -> Result<Response<UpstreamBody>, UpstreamFault> {
        let (rope, target) = (&first.rope, &*self.ctx.target);
        // Nothing to change: the body goes out as it came, compressed where it was.
        let as_it_came = self.offered.agent.request.as_it_came(rope);
        if let Some(raw) = as_it_came.filter(|_| self.offered.pin.taken_out.removed.is_none()) {
            let sending = Sending {
                read: is_model_call(self.ctx.endpoint),
                ..Sending::default()
            };
            return self.send(first, target, vec![raw.clone()], sending).await;
        }
        let sending = Sending {
            read: is_model_call(self.ctx.endpoint),
            plain: true,
            later_leg: false,
        };
        self.send(first, target, rope.clone(), sending).await
    }

    /// Sends a later leg, once.
    pub(super) async fn send_leg(
        &self,
        leg: &RewriteOutcome,
    ) -> Result<Response<UpstreamBody>, UpstreamFault> {
        self.send_leg_to(leg, &self.ctx.target).await
    }

    /// The same, to another path and query than the agent's.
    pub(super) async fn send_leg_to(
        &self,
        leg: &RewriteOutcome,
        target: &str,
    ) -> Result<Response<UpstreamBody>, UpstreamFault> {
        let sending = Sending {
            read: true,
            plain: true,
            later_leg: true,
        };
        self.send(leg, target, leg.rope.clone(), sending).await
    }

    /// Sends `rope`, which is `leg`'s body as it goes over the wire.
    async fn send(
        &self,
        leg: &RewriteOutcome,
        target: &str,
        rope: Vec<Bytes>,
        sending: Sending,
    ) -> Result<Response<UpstreamBody>, UpstreamFault> {
        if self.app.config.log.requests {
            let body = rope.concat();
            tracing::info!(exchange = self.ctx.id, request = %String::from_utf8_lossy(&body), "rewritten request");
        }
        let body = RopeBody::new(rope);
        self.ctx.recorder.leg_sent(body.left());
        let headers = self.ctx.onward(sending);
        let method = &self.ctx.method;
        let recording = &self.ctx.recording;
        recording.sent(|| SentLeg {
            url: self.ctx.upstream.address(target),
            headers: PackedHeaders::without_sensitive(&headers),
            rope: leg.rope.clone(),
            changes: leg.changes.clone(),
        });
        let again = || self.ctx.onward(sending);
        let sent = self.ctx.upstream.send(method, target, headers, again, body).await;
        match &sent {
            Ok(response) => recording.answered(response.status().as_u16(), response.headers()),
            Err(_) => recording.unanswered(),
        }
        sent
    }

    /// The body as plain text, copied for the journal; or as it is where its coding is unknown.
    pub(super) fn readable(&self, parts: &Parts, body: UpstreamBody) -> Result<UpstreamBody, UpstreamBody> {
        let body = body.decoded(&parts.headers)?;
        Ok(body.copied(self.ctx.recording.capture_leg()))
    }

    /// Answers a 400. Where upstream refuses the thinking in the request, it is sent once more: with the tool toggled, or, where
    /// it is pinned, without that thinking. The conversation's record follows what worked.
    pub(super) async fn answer_bad_request(
        mut self,
        first: RewriteOutcome,
        response: Response<UpstreamBody>,
    ) -> Response<ResponseBody> {
        let (parts, body) = response.into_parts();
        let read = match self.readable(&parts, body) {
            Ok(body) => {
                body.whole(self.app.config.limits.body_bytes, &self.app.bodies)
                    .await
            }
            Err(body) => return relay::answer(&self.ctx, Ok(Response::from_parts(parts, body))),
        };
        let text = match read {
            Ok(text) => text,
            Err(fault) => return self.ctx.refuse(fault),
        };
        if let Some(retry) = self.retry(&text, &first) {
            let response = self.send_first(&retry.request).await;
            let status = response.as_ref().ok().map(Response::status);
            self.settle(retry.remedy, status.is_some_and(|status| status.is_success()))
                .await;
            // An answer that may pass says that the agent may try again, and a 400 that it may not.
            let is_better = |status: StatusCode| status.is_success() || may_pass(status);
            if let (Ok(response), true) = (response, status.is_some_and(is_better)) {
                return self.take(response, retry.request).response().await;
            }
        }
        self.ctx.recorder.decide(ExchangeOutcome::UpstreamError);
        shaped(parts.status, &parts.headers, ResponseBody::whole(text))
    }

    /// The request as it is sent again, where that may help against this error.
    fn retry(&mut self, error: &[u8], first: &RewriteOutcome) -> Option<Retry> {
        let wire = self.offered.agent.wire;
        if self.offered.pin.active.is_some() {
            if !wire.refuses_thinking(error) {
                return None;
            }
            let request = self.leave_thinking_out(first)?;
            tracing::warn!(
                exchange = self.ctx.id,
                "upstream refuses the thinking of a pinned request: retried without it"
            );
            let remedy = Remedy::WithoutThinking;
            return Some(Retry { request, remedy });
        }
        let tooled = !self.offered.offer.tooled;
        let may = untooled::no_room(self.offered.agent.request.view()).is_none()
            && !(tooled && self.offered.agent.forbidden.is_some());
        if !may || !wire.is_prefix_mismatch(error) {
            return None;
        }
        tracing::warn!(
            exchange = self.ctx.id,
            tooled,
            "the prefix does not match: retried with the tool toggled"
        );
        Some(Retry {
            request: self.offered.first(&self.app, tooled),
            remedy: Remedy::Tooled(tooled),
        })
    }

    /// Notes what came of a retry.
    async fn settle(&mut self, remedy: Remedy, accepted: bool) {
        match remedy {
            Remedy::WithoutThinking => {
                let outcome = match accepted {
                    true => ThinkingRetry::Accepted,
                    false => ThinkingRetry::Refused,
                };
                self.ctx.recorder.note(|e| e.thinking_retry = Some(outcome));
                if accepted {
                    self.remember_omission().await;
                }
            }
            Remedy::Tooled(tooled) if accepted => {
                let now = self.app.clock.now_ms();
                if let Some(live) = &self.offered.agent.live
                    && let Err(error) = self.app.sessions.decide_tooled(live, tooled, now).await
                {
                    tracing::error!(%error, "what worked could not be written down");
                }
                self.ctx.recorder.note(|e| {
                    e.tooled = tooled;
                    e.untooled = (!tooled).then_some(ToolOmission::PrefixRefused);
                });
                self.tooled = tooled;
            }
            Remedy::Tooled(_) => {}
        }
    }
}

/// A request that is sent once more.
struct Retry {
    request: RewriteOutcome,
    remedy: Remedy,
}

/// What is different in it.
#[derive(Clone, Copy)]
enum Remedy {
    /// Whether it has the tool.
    Tooled(bool),
    /// It has no thinking behind its cut.
    WithoutThinking,
}
