//! Usage limits of a provider, read from its responses: how much of each is used, when it resets, and when a refused
//! account is served again.

use std::time::Duration;

use serde_json::Value;

use crate::text::date::rfc3339_ms;

/// Minimum used share of a limit that is near.
const NEAR: f64 = 0.9;

/// Minimum used share of a limit that is too near to wait for the end of a step.
const URGENT: f64 = 0.95;

/// Minimum time until the reset. A limit that resets sooner is waited for, and is not a reason for a handoff.
const SHORTEST_MS: u64 = 10 * 60_000;

/// A usage limit of a provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsageLimit {
    /// Name of a subscription's window; `None` for a limit of the rate.
    pub window: Option<&'static str>,
    /// Used share of the limit, from 0 to 1.
    pub used: f64,
    /// Time of the reset, in milliseconds since the Unix epoch.
    pub resets_ms: u64,
}

impl UsageLimit {
    /// Whether the limit is too near to wait for the end of a step.
    pub fn is_urgent(&self) -> bool {
        self.used >= URGENT
    }
}

/// Names of headers with a common beginning.
macro_rules! headers {
    ($begin:literal: $($end:literal)+) => { [$(concat!($begin, $end)),+] };
}

/// A subscription's windows: the name, the value of the whole, and the headers of the used share and of the reset.
///
/// The reset is in seconds since the Unix epoch. Sources: Claude Code reads the first three, Codex the others
/// (`codex-api/src/rate_limits.rs`).
#[rustfmt::skip]
const WINDOWS: [(&str, f64, [&str; 2]); 5] = [
    ("5h", 1.0, headers!("anthropic-ratelimit-unified-5h-": "utilization" "reset")),
    ("7d", 1.0, headers!("anthropic-ratelimit-unified-7d-": "utilization" "reset")),
    ("overage", 1.0, headers!("anthropic-ratelimit-unified-overage-": "utilization" "reset")),
    ("primary", 100.0, headers!("x-codex-primary-": "used-percent" "reset-at")),
    ("secondary", 100.0, headers!("x-codex-secondary-": "used-percent" "reset-at")),
];

/// Limits that are stated as a remainder: the headers of the whole, of the rest, and of the reset, which is a duration
/// such as `6m0s` (OpenAI) or a time (Anthropic).
const REMAINDERS: [[&str; 3]; 6] = [
    headers!("x-ratelimit-": "limit-tokens" "remaining-tokens" "reset-tokens"),
    headers!("x-ratelimit-": "limit-requests" "remaining-requests" "reset-requests"),
    headers!("anthropic-ratelimit-requests-": "limit" "remaining" "reset"),
    headers!("anthropic-ratelimit-tokens-": "limit" "remaining" "reset"),
    headers!("anthropic-ratelimit-input-tokens-": "limit" "remaining" "reset"),
    headers!("anthropic-ratelimit-output-tokens-": "limit" "remaining" "reset"),
];

/// Beginnings of the names of all headers that [`limits`] reads.
const LIMIT_HEADERS: [&str; 3] = ["anthropic-ratelimit-", "x-ratelimit-", "x-codex-"];

/// Whether a header with this name may state a limit. Most responses have none, and each name need not be searched for.
pub fn may_state_limit(name: &str) -> bool {
    LIMIT_HEADERS.iter().any(|begin| name.starts_with(begin))
}

/// Returns the limits that a response's headers state.
pub fn limits<'h>(header: impl Fn(&str) -> Option<&'h str>, now_ms: u64) -> Vec<UsageLimit> {
    let number = |name: &str| number(header(name)?);
    let windows = WINDOWS.iter().filter_map(|(window, whole, [used, resets])| {
        Some(UsageLimit {
            window: Some(window),
            used: number(used)? / whole,
            resets_ms: epoch_ms(number(resets)?),
        })
    });
    let remainders = REMAINDERS.iter().filter_map(|[limit, left, resets]| {
        let limit = number(limit).filter(|limit| *limit > 0.0)?;
        let (left, resets) = (number(left)?, header(resets)?);
        let after = duration_ms(resets).map(|after| now_ms.saturating_add(after));
        Some(UsageLimit {
            window: None,
            used: 1.0 - left / limit,
            resets_ms: after.or_else(|| rfc3339_ms(resets))?,
        })
    });
    windows.chain(remainders).collect()
}

/// Returns the near limit that resets last.
pub fn near_limit(limits: &[UsageLimit], now_ms: u64) -> Option<UsageLimit> {
    let near = limits
        .iter()
        .filter(|limit| limit.used >= NEAR && limit.resets_ms >= now_ms.saturating_add(SHORTEST_MS));
    // The longest wait counts, because a handoff that bridges it bridges the shorter ones as well.
    near.max_by_key(|limit| limit.resets_ms).copied()
}

/// Returns when a provider accepts requests again, from the headers and the body of a refusal with status 429.
///
/// `None` if the response does not state it.
pub fn opens_ms<'h>(header: impl Fn(&str) -> Option<&'h str>, body: &[u8], now_ms: u64) -> Option<u64> {
    let paused = requested_pause(&header).map(|pause| now_ms.saturating_add(pause.as_millis() as u64));
    let used_up = || {
        let limits = limits(&header, now_ms).into_iter();
        let used_up = limits.filter(|limit| limit.used >= 1.0);
        used_up.map(|limit| limit.resets_ms).max()
    };
    let opens = paused.or_else(used_up).or_else(|| stated_in_body(body, now_ms));
    opens.filter(|opens| *opens > now_ms)
}

/// Returns the end of a refusal that its body states: `RetryInfo` of Gemini, `resets_at` of Codex.
fn stated_in_body(body: &[u8], now_ms: u64) -> Option<u64> {
    let body: Value = serde_json::from_slice(body).ok()?;
    // Gemini sends a list if a stream was requested.
    let error = body.get(0).unwrap_or(&body).get("error")?;
    if let Some(seconds) = error["resets_at"].as_f64() {
        return Some(epoch_ms(seconds));
    }
    let details = error["details"].as_array()?.iter();
    let mut delays = details.filter_map(|it| it["retryDelay"].as_str());
    Some(now_ms.saturating_add(duration_ms(delays.next()?)?))
}

/// Returns the pause that a response requests: `retry-after-ms`, or `retry-after` in seconds. No provider uses dates.
pub fn requested_pause<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    let number = |name: &str| number(header(name)?);
    let millis = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1000.0))?;
    // A negative pause would panic in `Duration`.
    (millis >= 0.0).then(|| Duration::from_millis(millis as u64))
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|n| n.is_finite())
}

fn epoch_ms(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1_000.0) as u64
}

/// Parses a duration such as `1h2m3.5s` or `90ms`.
fn duration_ms(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text.trim(), 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        sum += number
            * match &rest[..letters] {
                "d" => 86_400_000.0,
                "h" => 3_600_000.0,
                "m" => 60_000.0,
                "s" => 1_000.0,
                "ms" => 1.0,
                _ => return None,
            };
        rest = &rest[letters..];
    }
    Some(sum as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_435_200_000;
    const HOUR: u64 = 3_600_000;

    fn find<'h>(headers: &'h [(&'h str, &'h str)]) -> impl Fn(&str) -> Option<&'h str> {
        |name| {
            let mut found = headers.iter().filter(|(own, _)| *own == name);
            found.next().map(|(_, value)| *value)
        }
    }

    #[test]
    fn every_header_that_is_read_may_state_a_limit() {
        let windows = WINDOWS.iter().flat_map(|(.., names)| names);
        assert!(
            windows
                .chain(REMAINDERS.iter().flatten())
                .all(|name| may_state_limit(name))
        );
        assert!(!may_state_limit("retry-after"));
    }

    fn near(headers: &[(&str, &str)]) -> Option<UsageLimit> {
        near_limit(&limits(find(headers), NOW), NOW)
    }

    #[test]
    fn a_limit_is_near_by_its_used_share() {
        let in_an_hour = ((NOW + HOUR) / 1_000).to_string();
        let rows = [
            (
                "anthropic-ratelimit-unified-5h-utilization",
                "anthropic-ratelimit-unified-5h-reset",
                ["0.93", "0.89"],
            ),
            (
                "x-codex-primary-used-percent",
                "x-codex-primary-reset-at",
                ["93", "89.9"],
            ),
        ];
        for (used, resets, [over, under]) in rows {
            let found = near(&[(used, over), (resets, &in_an_hour)]).unwrap();
            assert!((found.used - 0.93).abs() < 1e-9, "{found:?}");
            assert_eq!(found.resets_ms, NOW + HOUR);
            assert_eq!(near(&[(used, under), (resets, &in_an_hour)]), None);
            assert_eq!(near(&[(used, over)]), None);
            let soon = ((NOW + 60_000) / 1_000).to_string();
            assert_eq!(near(&[(used, over), (resets, &soon)]), None, "it is waited for");
        }
    }

    #[test]
    fn a_limit_is_near_by_what_is_left_of_it() {
        let headers = |left, reset| {
            [
                ("x-ratelimit-limit-tokens", "1000"),
                ("x-ratelimit-remaining-tokens", left),
                ("x-ratelimit-reset-tokens", reset),
            ]
        };
        assert_eq!(near(&headers("50", "1h0m0s")).unwrap().resets_ms, NOW + HOUR);
        assert_eq!(near(&headers("50", "6m0s")), None);
        assert_eq!(near(&headers("500", "1h")), None);
        assert_eq!(near(&headers("x", "1h")), None);
    }

    #[test]
    fn of_several_the_one_that_lasts_counts() {
        let [day, hour] = [24, 1].map(|hours| ((NOW + hours * HOUR) / 1_000).to_string());
        let found = near(&[
            ("x-codex-primary-used-percent", "99"),
            ("x-codex-primary-reset-at", &hour),
            ("x-codex-secondary-used-percent", "91"),
            ("x-codex-secondary-reset-at", &day),
        ]);
        assert_eq!(found.unwrap().resets_ms, NOW + 24 * HOUR);
    }

    #[test]
    fn a_refusal_says_when_the_provider_opens_again() {
        let resets = ((NOW + HOUR) / 1_000).to_string();
        let codex = format!(r#"{{"error": {{"type": "usage_limit_reached", "resets_at": {resets}}}}}"#);
        let gemini = r#"[{"error": {"code": 429, "details": [{"@type": "x"}, {"retryDelay": "34.5s"}]}}]"#;
        /// Headers, body, and the milliseconds until it opens.
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, Option<u64>);
        let rows: [Row<'_>; 12] = [
            (&[("retry-after", "30")], "", Some(30_000)),
            (&[("retry-after-ms", "250"), ("retry-after", "2")], "", Some(250)),
            // Anthropic: the window that is used up, and not the other one.
            (
                &[
                    ("anthropic-ratelimit-unified-5h-utilization", "1.01"),
                    ("anthropic-ratelimit-unified-5h-reset", &resets),
                    ("anthropic-ratelimit-unified-7d-utilization", "0.4"),
                    ("anthropic-ratelimit-unified-7d-reset", "1895435200"),
                ],
                "",
                Some(HOUR),
            ),
            (
                &[
                    ("anthropic-ratelimit-input-tokens-limit", "50000"),
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-11-23T12:01:00Z"),
                ],
                "",
                Some(60_000),
            ),
            (
                &[
                    ("x-codex-primary-used-percent", "100"),
                    ("x-codex-primary-reset-at", &resets),
                ],
                "",
                Some(HOUR),
            ),
            (
                &[
                    ("x-ratelimit-limit-requests", "60"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1m30s"),
                ],
                "",
                Some(90_000),
            ),
            (&[], &codex, Some(HOUR)),
            (&[], gemini, Some(34_500)),
            (&[], "", None),
            (&[("retry-after", "-1")], "{\"error\": 5}", None),
            (&[("retry-after", "NaN")], "[]", None),
            (
                &[("retry-after", "1e400")],
                "{\"error\": {\"details\": [{\"retryDelay\": \"soon\"}]}}",
                None,
            ),
        ];
        for (headers, body, after) in rows {
            let opens = opens_ms(find(headers), body.as_bytes(), NOW);
            assert_eq!(opens, after.map(|after| NOW + after), "{headers:?} {body}");
        }
    }

    #[test]
    fn a_requested_pause_is_a_number() {
        let millis = |headers: &[(&str, &str)]| requested_pause(find(headers)).map(|pause| pause.as_millis());
        assert_eq!(millis(&[("retry-after", "2")]), Some(2000));
        assert_eq!(millis(&[("retry-after", " 0.5 ")]), Some(500));
        let both = [("retry-after-ms", "250"), ("retry-after", "2")];
        assert_eq!(millis(&both), Some(250));
        for not_a_number in ["Wed, 21 Oct 2026 07:28:00 GMT", "-1", "inf"] {
            assert_eq!(millis(&[("retry-after", not_a_number)]), None);
        }
        assert_eq!(millis(&[]), None);
    }

    #[test]
    fn durations_have_units() {
        for (text, ms) in [
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("90ms", Some(90)),
            ("5", None),
            ("5x", None),
            ("", Some(0)),
        ] {
            assert_eq!(duration_ms(text), ms, "{text}");
        }
    }
}
