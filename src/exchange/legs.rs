//! Later legs: tried again inside while nothing of them has been shown.

use std::time::Duration;

use http::response::Parts;
use http::{HeaderMap, StatusCode};

use super::answer::{Exchange, is_json};
use crate::proxy::download::UpstreamBody;
use crate::rewrite::Rewritten;

/// The first pause; it doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause. What upstream asks for beyond it is no pause any more: the response ends with its sentinel,
/// and the agent's next request goes on.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The tries of one leg, counted together whatever they fail with: refused, not answered, broken off, or answered with an
/// error under a status of success.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tries {
    failed: u32,
    retries: u32,
}

impl Tries {
    /// Of a leg that may be tried again so often.
    pub(super) fn new(retries: u32) -> Self {
        Self { failed: 0, retries }
    }

    /// Tries that failed.
    pub(super) fn failed(self) -> u32 {
        self.failed
    }

    /// Another one failed, and upstream may have asked for a pause. Returns the pause before the next one, if there is to be
    /// one.
    fn fail(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let pause = asked.unwrap_or_else(|| backoff(self.failed));
        self.failed += 1;
        (self.failed <= self.retries && pause <= LONGEST_PAUSE).then_some(pause)
    }
}

/// A try of a leg failed: the pause before the next one, which is noted; `None` where it was the last.
pub(super) fn retry(exchange: &Exchange, tries: &mut Tries, asked: Option<Duration>) -> Option<Duration> {
    let pause = tries.fail(asked)?;
    exchange.ctx.meter.note(|e| e.retries += 1);
    Some(pause)
}

/// Sends a leg until it is answered with a status of success, or its tries are used up.
pub(super) async fn persist(
    exchange: &Exchange,
    leg: &Rewritten,
    streamed: bool,
    tries: &mut Tries,
) -> Option<(Parts, UpstreamBody)> {
    loop {
        let attempt = tries.failed();
        let asked = match exchange.send_leg(leg).await {
            Ok(response) if response.status().is_success() => {
                let (parts, body) = response.into_parts();
                return readable(exchange, parts, body, streamed);
            }
            Ok(response) if may_pass(response.status()) => {
                tracing::warn!(
                    exchange = exchange.ctx.id,
                    attempt,
                    status = response.status().as_u16(),
                    "leg refused"
                );
                asked_pause(response.headers())
            }
            Ok(response) => {
                tracing::error!(
                    exchange = exchange.ctx.id,
                    status = response.status().as_u16(),
                    "leg refused for good"
                );
                return None;
            }
            Err(fault) => {
                tracing::warn!(
                    exchange = exchange.ctx.id,
                    attempt,
                    code = fault.code.name,
                    "leg not answered"
                );
                None
            }
        };
        tokio::time::sleep(retry(exchange, tries, asked)?).await;
    }
}

/// The pause behind a try that failed.
fn backoff(attempt: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(2u32.saturating_pow(attempt))
        .min(LONGEST_PAUSE)
}

fn readable(
    exchange: &Exchange,
    parts: Parts,
    body: UpstreamBody,
    streamed: bool,
) -> Option<(Parts, UpstreamBody)> {
    let right = if streamed {
        exchange.is_stream(&parts)
    } else {
        is_json(&parts)
    };
    let body = exchange.readable(&parts, body).ok().filter(|_| right);
    if body.is_none() {
        tracing::error!(
            exchange = exchange.ctx.id,
            "leg answered in another form than the first"
        );
    }
    Some((parts, body?))
}

/// Whether another try may be answered better.
fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error()
}

/// `retry-after-ms`, or `retry-after` in seconds. Dates are used by no provider.
fn asked_pause(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1000.0))?;
    (millis >= 0.0 && millis.is_finite()).then(|| Duration::from_millis(millis as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn tries_are_counted_together_and_pauses_grow() {
        let mut tries = Tries::new(3);
        let asked = Some(Duration::ZERO);
        assert_eq!(tries.fail(None), Some(FIRST_PAUSE));
        assert_eq!(tries.fail(asked), asked);
        assert_eq!(tries.fail(None), Some(4 * FIRST_PAUSE));
        assert_eq!(tries.fail(None), None);
        assert_eq!(Tries::new(0).fail(None), None);
        assert_eq!(Tries::new(9).fail(Some(2 * LONGEST_PAUSE)), None);
    }

    #[test]
    fn the_pause_is_the_one_asked_for() {
        let asked = |name: &'static str, value: &'static str| {
            asked_pause(&HeaderMap::from_iter([(
                name.parse().unwrap(),
                HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(asked("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(asked("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(asked("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(asked("retry-after", "-1"), None);
    }
}
