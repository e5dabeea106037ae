//! Times as the format has them (RFC 3339), without a clock.

use time::UtcDateTime;

use crate::text::date;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds since the Unix epoch.
    pub seconds: i64,
    /// And this many nanoseconds.
    pub nanos: u32,
}

impl Time {
    /// A time of whole seconds since the Unix epoch.
    pub fn of_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Reads RFC 3339, also with a blank in place of the `T`; without a zone it is UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, rest) = text.split_at_checked(10)?;
        let date = date::day(date)?;
        let rest = rest.strip_prefix(['T', 't', ' '])?;
        let (clock, rest) = rest.split_at_checked(8)?;
        let clock = clock_parts(clock)?;
        let (nanos, zone) = fraction(rest)?;
        let offset = offset(zone)?;
        Some(Self {
            seconds: UtcDateTime::new(date, clock).unix_timestamp() - offset,
            nanos,
        })
    }

    /// As RFC 3339 in UTC, without a fraction.
    pub fn rfc3339(self) -> String {
        let (date, at) = (self.date(), self.utc());
        format!("{date}T{:02}:{:02}:{:02}Z", at.hour(), at.minute(), at.second())
    }

    /// The date alone, in UTC.
    pub fn date(self) -> String {
        let at = self.utc();
        format!("{:04}-{:02}-{:02}", at.year(), u8::from(at.month()), at.day())
    }

    /// Date and time of day in UTC; the calendar's bounds for a time beyond them.
    pub(super) fn utc(self) -> UtcDateTime {
        let bound = match self.seconds {
            ..0 => UtcDateTime::MIN,
            _ => UtcDateTime::MAX,
        };
        UtcDateTime::from_unix_timestamp(self.seconds).unwrap_or(bound)
    }

    /// Seconds from an earlier time to this one; negative where the other is later.
    pub fn since(self, earlier: Self) -> i64 {
        self.seconds.saturating_sub(earlier.seconds)
    }
}

/// Whether a text is a date of the calendar, `YYYY-MM-DD`.
pub fn is_date(text: &str) -> bool {
    date::day(text).is_some()
}

/// The time of day of `HH:MM:SS`.
fn clock_parts(text: &str) -> Option<time::Time> {
    let bytes = text.as_bytes();
    if bytes[2] != b':' || bytes[5] != b':' {
        return None;
    }
    clock(number(&bytes[..2])?, number(&bytes[3..5])?, number(&bytes[6..])?)
}

/// A time of day; a leap second is the last second of its minute.
pub(super) fn clock(hour: u32, minute: u32, second: u32) -> Option<time::Time> {
    let small = |n: u32| u8::try_from(n).ok();
    let second = if second == 60 { 59 } else { second };
    time::Time::from_hms(small(hour)?, small(minute)?, small(second)?).ok()
}

/// A number of digits alone.
pub(super) fn number(digits: &[u8]) -> Option<u32> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    all.then(|| {
        digits.iter().fold(0_u32, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        })
    })
}

/// Nanoseconds of a fraction, and what follows it.
fn fraction(text: &str) -> Option<(u32, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let digits = &rest[..end];
    if digits.is_empty() {
        return None;
    }
    let kept: String = digits.chars().chain("000000000".chars()).take(9).collect();
    Some((kept.parse().ok()?, &rest[end..]))
}

/// Seconds that a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    let zone = zone.trim_start();
    if matches!(zone, "" | "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = zone[1..].chars().filter(|c| *c != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "00" } else { minutes };
    let (hours, minutes) = (number(hours.as_bytes())?, number(minutes.as_bytes())?);
    (hours < 24 && minutes < 60).then(|| sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_zone_and_fraction_and_written_in_utc() {
        for (text, written) in [
            ("2026-01-06T12:34:56Z", "2026-01-06T12:34:56Z"),
            ("2026-01-06T12:34:56.789123456-05:00", "2026-01-06T17:34:56Z"),
            ("2024-02-29 23:59:60+0130", "2024-02-29T22:29:59Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(
                Time::parse(text).map(Time::rfc3339).as_deref(),
                Some(written),
                "{text}"
            );
        }
        assert_eq!(Time::parse("2026-01-06T12:34:56.5Z").unwrap().nanos, 500_000_000);
        for text in [
            "",
            "2026-01-06",
            "2026-13-06T00:00:00Z",
            "2026-01-06T24:00:00Z",
            "2026-01-06T00:00:00X",
            "ü026-01-06T00:00:00Z",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_date_is_one_of_the_calendar() {
        for good in ["2024-02-29", "2000-02-29", "2026-12-31"] {
            assert!(is_date(good), "{good}");
        }
        for bad in [
            "2026-02-29",
            "1900-02-29",
            "2026-00-01",
            "2026-04-31",
            "2026-1-01",
            "26-01-01",
            "",
            "2026-01-0x",
        ] {
            assert!(!is_date(bad), "{bad}");
        }
    }

    #[test]
    fn seconds_and_dates_are_each_others_inverse() {
        for seconds in (-60_000_000_000_i64..60_000_000_000).step_by(7_654_321) {
            let time = Time::of_seconds(seconds);
            assert_eq!(time.utc().unix_timestamp(), seconds);
            assert_eq!(Time::parse(&time.rfc3339()), Some(time));
        }
    }
}
