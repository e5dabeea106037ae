//! Sends an exchange's requests upstream, and retries the first one where the provider's prefix check failed.

use bytes::Bytes;
use http::Response;
use http::response::Parts;

use super::Exchange;
use super::{is_model_call, shaped};
use crate::journal::{PackedHeaders, SentLeg};
use crate::proxy::download::UpstreamBody;
use crate::proxy::headers::Sending;
use crate::proxy::relay;
use crate::proxy::response_body::ResponseBody;
use crate::proxy::upload::RopeBody;
use crate::proxy::upstream::UpstreamFault;
use crate::rewrite::Rewritten;
use crate::rewrite::untooled::{self, Untooled};
use crate::telemetry::Outcome;

impl Exchange {
    pub(super) async fn send_first(
        &self,
        first: &Rewritten,
    ) -> Result<Response<UpstreamBody>, UpstreamFault> {
        let (rope, target) = (&first.rope, &*self.ctx.target);
        // Nothing to change: the body goes out as it came, compressed where it was.
        let as_it_came = self.prepared.request.as_it_came(rope);
        if let Some(raw) = as_it_came.filter(|_| self.prepared.noted.is_none()) {
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
    pub(super) async fn send_leg(&self, leg: &Rewritten) -> Result<Response<UpstreamBody>, UpstreamFault> {
        self.send_leg_to(leg, &self.ctx.target).await
    }

    /// The same, to another path and query than the agent's.
    pub(super) async fn send_leg_to(
        &self,
        leg: &Rewritten,
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
        leg: &Rewritten,
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

    /// Retries once with the tool toggled where a 400 is about the prefix; the conversation's record follows what worked.
    pub(super) async fn retry_with_tool_toggled(
        mut self,
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
        let tooled = !self.prepared.tooled;
        let may = self.prepared.active.is_none()
            && untooled::no_room(self.prepared.request.view()).is_none()
            && !(tooled && self.prepared.forbidden.is_some());
        if may && self.prepared.wire.is_prefix_mismatch(&text) {
            tracing::warn!(
                exchange = self.ctx.id,
                tooled,
                "the prefix does not match: retried with the tool toggled"
            );
            let again = self.prepared.first(&self.app, tooled);
            if let Ok(response) = self.send_first(&again).await
                && response.status().is_success()
            {
                if let Some(live) = &self.prepared.live
                    && let Err(error) = self
                        .app
                        .sessions
                        .decide_tooled(live, tooled, self.app.clock.now_ms())
                        .await
                {
                    tracing::error!(%error, "what worked could not be written down");
                }
                self.ctx.recorder.note(|e| {
                    e.tooled = tooled;
                    e.untooled = (!tooled).then_some(Untooled::PrefixRefused);
                });
                self.tooled = tooled;
                return self.take(response, again).response().await;
            }
        }
        self.ctx.recorder.decide(Outcome::UpstreamError);
        shaped(parts.status, &parts.headers, ResponseBody::whole(text))
    }
}
