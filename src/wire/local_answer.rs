//! An answer that baton gives by itself: nothing goes upstream, and the agent gets a message of its wire's own shape.

use uuid::Uuid;

use super::framing::Framing;
use crate::limits::BYTES_PER_TOKEN;

/// What an answer of our own says.
#[derive(Debug, Clone, Copy)]
pub struct LocalAnswer<'a> {
    /// A UUIDv7: the answer's ids and its time are made of it.
    pub id: Uuid,
    /// The model as the request named it.
    pub model: &'a str,
    /// The answer, as the assistant's text.
    pub text: &'a str,
    /// Bytes of the request, for its size in tokens.
    pub request_bytes: usize,
}

/// How the agent wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In one piece.
    Whole,
    /// As a stream.
    Stream(Framing),
}

impl LocalAnswer<'_> {
    /// Seconds since the Unix epoch.
    pub(super) fn seconds(&self) -> u64 {
        u64::try_from(self.id.as_u128() >> 80).unwrap_or_default() / 1000
    }

    /// Estimated tokens of the request.
    pub(super) fn input(&self) -> u64 {
        (self.request_bytes as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// Estimated tokens of the answer.
    pub(super) fn output(&self) -> u64 {
        (self.text.len() as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// The answer's id behind a wire's prefix.
    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}baton_{}", self.id.simple())
    }
}

/// Seconds since the Unix epoch as RFC 3339 has them (days to a date as in Howard Hinnant's `civil_from_days`).
pub(super) fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
