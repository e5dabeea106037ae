//! Later legs: tried again inside while nothing of them has been shown.

use std::time::Duration;

use http::response::Parts;
use http::{HeaderMap, StatusCode};

use super::answer::{Exchange, is_json};
use crate::handoff::plan::Rewritten;
use crate::proxy::download::UpstreamBody;

/// The first pause; it doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause. What upstream asks for beyond it is no pause any more: the response ends with its sentinel,
/// and the agent's next request goes on.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(super) async fn persist(
    exchange: &Exchange,
    leg: &Rewritten,
    streamed: bool,
) -> Option<(Parts, UpstreamBody)> {
    let tries = exchange.app.config.handoff.retries;
    for attempt in 0..=tries {
        let pause = match exchange.send_leg(leg).await {
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
                asked_pause(response.headers()).unwrap_or(backoff(attempt))
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
                backoff(attempt)
            }
        };
        if attempt == tries || pause > LONGEST_PAUSE {
            break;
        }
        exchange.ctx.meter.note(|e| e.retries += 1);
        tokio::time::sleep(pause).await;
    }
    None
}

/// The pause behind a try that failed.
pub(super) fn backoff(attempt: u32) -> Duration {
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
