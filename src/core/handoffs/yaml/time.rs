//! Times in the form of the format (RFC 3339), without a clock.

use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcDateTime};

use crate::text::date;

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Whole seconds since the Unix epoch.
    pub seconds: i64,
    /// Additional nanoseconds.
    pub nanos: u32,
}

impl Time {
    /// A time in whole seconds since the Unix epoch.
    pub fn of_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Parses RFC 3339. Also accepts a space instead of the `T`, and a zone without a colon; without a zone it is UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.trim().split_once(['T', 't', ' '])?;
        // The zone begins after the digits of the clock.
        let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == '.');
        let clock = &rest[..rest.len() - zone.len()];
        let zone = match zone.trim_start() {
            "" => "Z".to_owned(),
            // As `date +%z` and Git write it, or with hours only.
            zone => match zone.split_at_checked(3) {
                Some((hours, "")) => format!("{hours}:00"),
                Some((hours, minutes)) => format!("{hours}:{}", minutes.trim_start_matches(':')),
                None => zone.to_owned(),
            },
        };
        let at = OffsetDateTime::parse(&format!("{date}T{clock}{zone}"), &Rfc3339).ok()?;
        Some(Self {
            seconds: at.unix_timestamp(),
            nanos: at.nanosecond(),
        })
    }

    /// Formats as RFC 3339 in UTC, without a fraction.
    pub fn rfc3339(self) -> String {
        date::rfc3339_of(self.utc(), None)
    }

    /// The date in UTC.
    pub fn date(self) -> String {
        date::date(self.utc())
    }

    /// Date and time of day in UTC.
    pub(super) fn utc(self) -> UtcDateTime {
        date::utc(self.seconds)
    }

    /// Seconds since `earlier`; negative if that is later.
    pub fn since(self, earlier: Self) -> i64 {
        self.seconds.saturating_sub(earlier.seconds)
    }
}

/// Whether a string is a valid calendar date, `YYYY-MM-DD`.
pub fn is_date(text: &str) -> bool {
    date::day(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_zone_and_fraction_and_written_in_utc() {
        for (text, written) in [
            ("2026-01-06T12:34:56Z", "2026-01-06T12:34:56Z"),
            ("2026-01-06T12:34:56.789123456-05:00", "2026-01-06T17:34:56Z"),
            ("2024-02-29 23:59:59+0130", "2024-02-29T22:29:59Z"),
            ("2026-01-06 12:34:56 -0500", "2026-01-06T17:34:56Z"),
            ("2026-01-06t12:34:56+02", "2026-01-06T10:34:56Z"),
            ("2026-01-06 12:34:56", "2026-01-06T12:34:56Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
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
            "2026-01-06T00:00:00+24:00",
            "2026-01-06T00:00:00+00:60",
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
