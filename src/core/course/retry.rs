//! Retries of a leg: which statuses, how often, and the pauses between the attempts.

use std::time::Duration;

/// The first pause; it doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause. Beyond it the response ends with its sentinel, and the agent's next request continues.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether a leg that was answered with this status may be sent again.
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// Whether a status may mean that upstream does not know the model, or does not give it to this account.
pub fn refuses_model(status: u16) -> bool {
    matches!(status, 400 | 403 | 404 | 422)
}

/// Whether the answer to a retry replaces the refusal: a retryable status lets the agent try again, and a 400 does not.
pub fn replaces_refusal(status: u16) -> bool {
    (200..300).contains(&status) || is_retryable(status)
}

/// The pause that a response requests: `retry-after-ms`, or `retry-after` in seconds. No provider uses dates.
pub fn requested_pause<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1000.0))?;
    (millis >= 0.0 && millis.is_finite()).then(|| Duration::from_millis(millis as u64))
}

/// The tries of one leg, counted together whatever they fail with: refused, not answered, broken off, or answered with
/// an error under a status of success.
#[derive(Debug, Clone, Copy)]
pub(super) struct LegAttempts {
    failed: u32,
    retries: u32,
}

impl LegAttempts {
    /// The attempts of a leg that may be sent again `retries` times.
    pub(super) fn new(retries: u32) -> Self {
        Self { failed: 0, retries }
    }

    /// The attempts of the next leg, which may be sent again as often.
    pub(super) fn of_next_leg(self) -> Self {
        Self::new(self.retries)
    }

    /// Tries that failed.
    pub(super) fn failed(self) -> u32 {
        self.failed
    }

    /// Records a failed try; upstream may have asked for a pause. Returns the pause before the next one, if there is to
    /// be one.
    pub(super) fn fail(&mut self, requested: Option<Duration>) -> Option<Duration> {
        let pause = requested.unwrap_or_else(|| backoff(self.failed));
        self.failed += 1;
        (self.failed <= self.retries && pause <= LONGEST_PAUSE).then_some(pause)
    }
}

fn backoff(attempt: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(2u32.saturating_pow(attempt))
        .min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_together_and_pauses_grow() {
        let mut tries = LegAttempts::new(3);
        let requested = Some(Duration::ZERO);
        assert_eq!(tries.fail(None), Some(FIRST_PAUSE));
        assert_eq!(tries.fail(requested), requested);
        assert_eq!(tries.fail(None), Some(4 * FIRST_PAUSE));
        assert_eq!(tries.fail(None), None);
        assert_eq!(tries.of_next_leg().fail(None), Some(FIRST_PAUSE));
        assert_eq!(LegAttempts::new(0).fail(None), None);
        assert_eq!(LegAttempts::new(9).fail(Some(2 * LONGEST_PAUSE)), None);
    }

    #[test]
    fn a_model_is_refused_by_an_error_of_the_request() {
        assert!([400, 403, 404, 422].into_iter().all(refuses_model));
        assert!(![200, 401, 413, 429, 500, 529].into_iter().any(refuses_model));
    }

    #[test]
    fn only_a_status_that_helps_the_agent_more_replaces_a_400() {
        for code in [200, 201, 408, 429, 500, 503, 529] {
            assert!(replaces_refusal(code), "{code}");
        }
        for code in [400, 401, 403, 404, 413, 422] {
            assert!(!replaces_refusal(code), "{code}");
        }
    }

    #[test]
    fn what_may_pass_is_retried_after_the_requested_pause() {
        for status in [408, 429, 500, 503, 529] {
            assert!(is_retryable(status), "{status}");
        }
        for status in [200, 400, 401, 403, 404, 413, 422] {
            assert!(!is_retryable(status), "{status}");
        }
        let millis = |headers: &[(&'static str, &'static str)]| {
            let header = |name: &str| headers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
            requested_pause(header).map(|pause| pause.as_millis())
        };
        assert_eq!(millis(&[("retry-after", "2")]), Some(2000));
        assert_eq!(millis(&[("retry-after", " 0.5 ")]), Some(500));
        let both = [("retry-after-ms", "250"), ("retry-after", "2")];
        assert_eq!(millis(&both), Some(250));
        for not_a_number in ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "inf"] {
            assert_eq!(millis(&[("retry-after", not_a_number)]), None);
        }
        assert_eq!(millis(&[]), None);
    }
}
