//! Usage limits of a provider, read from its headers: whether one is near, and when it resets.

/// Minimum used share of a limit that is near.
const NEAR: f64 = 0.9;

/// Minimum used share of a limit that is too near to wait for the end of a step.
const URGENT: f64 = 0.95;

/// Minimum time until the reset. A limit that resets sooner is waited for, and is not a reason for a handoff.
const SHORTEST_MS: u64 = 10 * 60_000;

/// A usage limit that is near.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearLimit {
    /// Used share of the limit, from 0 to 1.
    pub used: f64,
    /// Time of the reset, in milliseconds since the Unix epoch.
    pub resets_ms: u64,
}

impl NearLimit {
    /// Whether the limit is too near to wait for the end of a step.
    pub fn is_urgent(&self) -> bool {
        self.used >= URGENT
    }
}

/// Names of headers with a common beginning.
macro_rules! headers {
    ($begin:literal: $($end:literal)+) => { [$(concat!($begin, $end)),+] };
}

/// Limits that are stated as a share: the value of the whole, and the headers of the share and of the reset.
///
/// The reset is in seconds since the Unix epoch. Sources: Claude Code reads the first three, Codex the others
/// (`codex-api/src/rate_limits.rs`).
const SHARES: [(f64, [&str; 2]); 5] = [
    (
        1.0,
        headers!("anthropic-ratelimit-unified-5h-": "utilization" "reset"),
    ),
    (
        1.0,
        headers!("anthropic-ratelimit-unified-7d-": "utilization" "reset"),
    ),
    (
        1.0,
        headers!("anthropic-ratelimit-unified-overage-": "utilization" "reset"),
    ),
    (100.0, headers!("x-codex-primary-": "used-percent" "reset-at")),
    (100.0, headers!("x-codex-secondary-": "used-percent" "reset-at")),
];

/// Limits that are stated as a remainder: the headers of the whole, of the rest, and of the time until the
/// reset, such as `6m0s` (OpenAI).
const REMAINDERS: [[&str; 3]; 2] = [
    headers!("x-ratelimit-": "limit-tokens" "remaining-tokens" "reset-tokens"),
    headers!("x-ratelimit-": "limit-requests" "remaining-requests" "reset-requests"),
];

/// Returns the near limit that resets last, from a response's headers.
pub fn near_limit<'h>(header: impl Fn(&str) -> Option<&'h str>, now_ms: u64) -> Option<NearLimit> {
    let number = |name: &str| header(name)?.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    let shares = SHARES.iter().filter_map(|(whole, [used, resets])| {
        Some(NearLimit {
            used: number(used)? / whole,
            resets_ms: (number(resets)?.max(0.0) * 1_000.0) as u64,
        })
    });
    let remainders = REMAINDERS.iter().filter_map(|[limit, left, after]| {
        let limit = number(limit).filter(|limit| *limit > 0.0)?;
        let left = number(left)?;
        let after = duration_ms(header(after)?)?;
        Some(NearLimit {
            used: 1.0 - left / limit,
            resets_ms: now_ms.saturating_add(after),
        })
    });
    let near = shares
        .chain(remainders)
        .filter(|limit| limit.used >= NEAR && limit.resets_ms >= now_ms.saturating_add(SHORTEST_MS));
    // The longest wait counts, because a handoff that bridges it bridges the shorter ones as well.
    near.max_by_key(|limit| limit.resets_ms)
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

    fn near(headers: &[(&str, &str)]) -> Option<NearLimit> {
        let find = |name: &str| {
            headers
                .iter()
                .find(|(own, _)| *own == name)
                .map(|(_, value)| *value)
        };
        near_limit(find, NOW)
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
