//! Formats and parses dates.

use std::fmt::Write;
use std::time::Duration;

use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime, UtcDateTime};

const MS_PER_DAY: u64 = 86_400_000;

/// Converts seconds since the Unix epoch to date and time. Values outside the calendar are clamped.
pub fn utc(seconds: i64) -> UtcDateTime {
    let bound = match seconds {
        ..0 => UtcDateTime::MIN,
        _ => UtcDateTime::MAX,
    };
    UtcDateTime::from_unix_timestamp(seconds).unwrap_or(bound)
}

/// Formats seconds since the Unix epoch by RFC 3339: `2026-11-23T08:15:30Z`.
pub fn rfc3339(seconds: u64) -> String {
    rfc3339_of(since_epoch(seconds), None)
}

/// Formats a time since the Unix epoch by RFC 3339, with microseconds: `2026-11-23T08:15:30.123456Z`.
pub fn rfc3339_micros(since: Duration) -> String {
    rfc3339_of(since_epoch(since.as_secs()), Some((since.subsec_micros(), 6)))
}

/// Formats milliseconds since the Unix epoch by RFC 3339: `2026-11-23T08:15:30.123Z`.
pub fn rfc3339_millis(ms: u64) -> String {
    rfc3339_of(since_epoch(ms / 1000), Some(((ms % 1000) as u32, 3)))
}

fn since_epoch(seconds: u64) -> UtcDateTime {
    utc(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// Formats a time by RFC 3339. `fraction` is the fraction of a second, and its number of digits.
///
/// Digit by digit, because every log line has a time, and a formatter takes ten times the instructions.
pub(crate) fn rfc3339_of(at: UtcDateTime, fraction: Option<(u32, u32)>) -> String {
    let mut text = String::with_capacity("2026-11-23T08:15:30.123456Z".len());
    // A year may have more than four digits. Writing to a string cannot fail.
    let _ = write!(text, "{:04}", at.year());
    let mut push = |before: &str, number: u32, digits: u32| {
        text.push_str(before);
        let digits = (0..digits).rev().map(|place| number / 10_u32.pow(place) % 10);
        text.extend(digits.map(|digit| char::from(b'0' + digit as u8)));
    };
    let (hour, minute, second) = at.as_hms();
    push("-", u8::from(at.month()).into(), 2);
    push("-", at.day().into(), 2);
    push("T", hour.into(), 2);
    push(":", minute.into(), 2);
    push(":", second.into(), 2);
    if let Some((number, digits)) = fraction {
        push(".", number, digits);
    }
    text.push('Z');
    text
}

/// Parses a time by RFC 3339. Returns milliseconds since the Unix epoch.
pub fn rfc3339_ms(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text.trim(), &Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

/// Parses `YYYY-MM-DD`, or returns `None` if the calendar has no such day.
pub fn day(text: &str) -> Option<Date> {
    let midnight = OffsetDateTime::parse(&format!("{text}T00:00:00Z"), &Rfc3339);
    midnight.ok().map(OffsetDateTime::date)
}

/// Days from the Unix epoch to `YYYY-MM-DD`, or `None` for earlier and invalid days.
pub fn day_number(text: &str) -> Option<u64> {
    let since =
        i64::from(day(text)?.to_julian_day()) - i64::from(UtcDateTime::UNIX_EPOCH.date().to_julian_day());
    u64::try_from(since).ok()
}

/// Formats a date: `2026-11-23`.
pub fn date(at: UtcDateTime) -> String {
    format!("{:04}-{:02}-{:02}", at.year(), u8::from(at.month()), at.day())
}

/// Start of a period in user input: an age (`90s`, `30m`, `12h`, `7d`, `8w`) or a date (`2026-11-23`,
/// midnight UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeriodStart {
    /// Milliseconds before now.
    Age(u64),
    /// Milliseconds since the Unix epoch.
    Date(u64),
}

impl PeriodStart {
    /// Accepted spellings, for error messages.
    pub const SPELLINGS: &str = "an age such as 90s, 30m, 12h, 7d or 8w, or a date such as 2026-11-23";

    /// Parses an age or a date. Returns `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        const UNITS: [(char, u64); 5] = [
            ('s', 1000),
            ('m', 60_000),
            ('h', 3_600_000),
            ('d', MS_PER_DAY),
            ('w', 7 * MS_PER_DAY),
        ];
        let age = UNITS.iter().find_map(|(unit, ms)| {
            let count: u64 = text.strip_suffix(*unit)?.parse().ok()?;
            count.checked_mul(*ms).map(Self::Age)
        });
        age.or_else(|| day_number(text)?.checked_mul(MS_PER_DAY).map(Self::Date))
    }

    /// Milliseconds since the Unix epoch.
    pub fn at_ms(self, now_ms: u64) -> u64 {
        match self {
            Self::Age(age) => now_ms.saturating_sub(age),
            Self::Date(at) => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_starts_at_an_age_or_a_date() {
        let now = 1_795_478_400_000;
        for (text, at) in [
            ("90s", now - 90_000),
            ("90m", now - 5_400_000),
            ("30d", now - 30 * MS_PER_DAY),
            ("8w", now - 56 * MS_PER_DAY),
            ("99999d", 0),
            ("2026-11-23", 20_780 * MS_PER_DAY),
        ] {
            assert_eq!(
                PeriodStart::parse(text).map(|start| start.at_ms(now)),
                Some(at),
                "{text}"
            );
        }
        for wrong in [
            "",
            "7",
            "d",
            "-1h",
            "1y",
            "2026-02-29",
            "99999999999999999999w",
            "18446744073709551615w",
            "é",
        ] {
            assert_eq!(PeriodStart::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn milliseconds_and_days_are_those_of_the_calendar() {
        assert_eq!(rfc3339_millis(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(rfc3339_millis(1_795_478_399_999), "2026-11-23T23:59:59.999Z");
        assert_eq!(day_number("1970-01-01"), Some(0));
        assert_eq!(day_number("2026-10-14"), Some(20_740));
        for odd in [
            "1969-12-31",
            "2026-02-29",
            "2026-1-01",
            "2026-10-1x",
            "+026-10-14",
            "",
        ] {
            assert_eq!(day_number(odd), None, "{odd}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_732_272_000, "2024-11-22T10:40:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
        assert_eq!(rfc3339(253_402_300_800), "10000-01-01T00:00:00Z");
        assert_eq!(rfc3339(u64::MAX), "999999-12-31T23:59:59Z");
        let micros = Duration::new(951_782_399, 1_234_999);
        assert_eq!(rfc3339_micros(micros), "2000-02-28T23:59:59.001234Z");
    }
}
