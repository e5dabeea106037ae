//! Sends a later leg. `baton_core::plan::later_leg` decides what its request is, and when it is sent again.

use std::time::Duration;

use bytes::Bytes;
use http::Response;

use super::sender::{LegKind, or_own, readable};
use crate::exchange::value::Exchange;
use crate::proxy::download::UpstreamBody;
use crate::proxy::headers;
use crate::proxy::upstream::UpstreamResult;
use crate::state::telemetry::ExchangeEvent;
use baton_core::plan::{NextLeg, is_retryable};
use baton_core::quota::requested_pause;
use baton_core::response::LegEvent;
use baton_core::rewrite::RewriteOutcome;
use baton_core::wire;

/// Maximum bytes of an error body that are read.
const ERROR_BYTES: usize = 64 << 10;

/// Sends the later leg that `make` builds, and falls back to the agent's model if upstream rejects the routed
/// one.
pub(in crate::exchange) async fn later_or_own(
    exchange: &Exchange,
    make: impl Fn() -> RewriteOutcome,
) -> UpstreamResult {
    // If only draft legs were sent, this leg is the one that carries the agent's message.
    let is_added = |e: &ExchangeEvent| e.sent_bytes.len() > e.draft_legs.len();
    let kind = LegKind::Later {
        target: &exchange.ctx.target,
        added: exchange.ctx.recorder.read(is_added),
    };
    or_own(exchange, make, kind).await.1
}

impl Exchange {
    /// Sends a later leg once, after a pause.
    ///
    /// `failed` is the number of earlier attempts. `streamed` is the form that the response must have.
    ///
    /// # Errors
    /// Upstream refused the leg, or did not answer in that form.
    pub(in crate::exchange) async fn send_later(
        &self,
        leg: &NextLeg,
        pause: Duration,
        failed: u32,
        streamed: bool,
    ) -> Result<UpstreamBody, LegEvent> {
        if failed > 0 {
            self.ctx.recorder.note(|e| e.retries += 1);
        }
        // A timer has a resolution of a millisecond, so even the shortest one would add a pause.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let (exchange, attempt) = (&self.ctx.id, failed);
        let make = || self.plan().later_leg(leg);
        let (retry, pause, cause) = match later_or_own(self, make).await {
            Ok(response) if response.status().is_success() => {
                let (parts, body) = response.into_parts();
                // The response must have the same form as the first leg's.
                let right = self.form().streams(&parts.headers) == Some(streamed);
                if let Ok(body) = readable(self, &parts, body)
                    && right
                {
                    return Ok(body);
                }
                tracing::error!(
                    exchange,
                    "upstream answered a leg in another form than the first; not retrying"
                );
                (false, None, "invalid response".to_owned())
            }
            Ok(response) => {
                let status = response.status().as_u16();
                let retry = is_retryable(status);
                let pause = requested_pause(|name| headers::text(response.headers(), name));
                let body = error_body(self, response).await.unwrap_or_default();
                if let Some(error) = wire::quota_error(&body) {
                    tracing::error!(
                        exchange,
                        status,
                        "upstream refused a leg for lack of quota; not retrying"
                    );
                    return Err(LegEvent::QuotaUsed(error));
                }
                match retry {
                    true => tracing::warn!(
                        exchange,
                        attempt,
                        status,
                        "upstream refused a leg; retrying if attempts remain"
                    ),
                    false => tracing::error!(exchange, status, "upstream refused a leg; not retrying"),
                }
                (retry, pause, cause(status, &body, pause))
            }
            Err(fault) => {
                tracing::warn!(
                    exchange,
                    attempt,
                    code = fault.code.name,
                    "failed to get an answer to a leg; retrying if attempts remain"
                );
                (true, None, fault.cause())
            }
        };
        Err(LegEvent::LegRefused { retry, pause, cause })
    }
}

/// Returns the body of a refusal, if it can be read.
async fn error_body(exchange: &Exchange, refused: Response<UpstreamBody>) -> Option<Bytes> {
    let (parts, body) = refused.into_parts();
    let body = readable(exchange, &parts, body).ok()?;
    body.whole(ERROR_BYTES, &exchange.app.bodies).await.ok()
}

/// Describes a refusal to the user.
fn cause(status: u16, body: &[u8], pause: Option<Duration>) -> String {
    let message = wire::error_message(body).map(|message| format!(": {message}"));
    let pause = pause.filter(|pause| pause.as_secs() > 0);
    let pause = pause.map(|pause| format!("; it asks for a pause of {} s", pause.as_secs()));
    format!(
        "{status}{}{}",
        message.unwrap_or_default(),
        pause.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_described_by_what_it_states() {
        let body = br#"{"error":{"message":"slow down"}}"#;
        let pause = |secs| Some(Duration::from_secs(secs));
        assert_eq!(cause(500, b"<html>", None), "500");
        assert_eq!(cause(429, body, pause(0)), "429: slow down");
        assert_eq!(
            cause(429, body, pause(400)),
            "429: slow down; it asks for a pause of 400 s"
        );
    }
}
