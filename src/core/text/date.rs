//! Dates as text.

use std::time::Duration;

use time::{Date, Month, UtcDateTime};

/// Seconds since the Unix epoch as RFC 3339 has them: `2026-11-23T08:15:30Z`.
pub fn rfc3339(seconds: u64) -> String {
    let mut date = date_and_time(seconds);
    date.push('Z');
    date
}

/// Time since the Unix epoch as RFC 3339 has it, with microseconds: `2026-11-23T08:15:30.123456Z`.
pub fn rfc3339_micros(since: Duration) -> String {
    let mut date = date_and_time(since.as_secs());
    push(&mut date, '.', since.subsec_micros().into(), 6);
    date.push('Z');
    date
}

/// Milliseconds since the Unix epoch as RFC 3339 has them: `2026-11-23T08:15:30.123Z`.
pub fn rfc3339_millis(ms: u64) -> String {
    let mut date = date_and_time(ms / 1000);
    push(&mut date, '.', ms % 1000, 3);
    date.push('Z');
    date
}

/// The date of `YYYY-MM-DD`; `None` where the calendar has no such day.
pub fn day(text: &str) -> Option<Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |digits: &[u8]| {
        let plain = digits.iter().all(u8::is_ascii_digit);
        plain.then(|| std::str::from_utf8(digits).ok()?.parse::<i32>().ok())?
    };
    let month = u8::try_from(number(&bytes[5..7])?).ok()?;
    let day = u8::try_from(number(&bytes[8..])?).ok()?;
    Date::from_calendar_date(number(&bytes[..4])?, Month::try_from(month).ok()?, day).ok()
}

/// Days from the Unix epoch to `YYYY-MM-DD`; `None` for earlier days and where the calendar has no such day.
pub fn day_number(text: &str) -> Option<u64> {
    let since =
        i64::from(day(text)?.to_julian_day()) - i64::from(UtcDateTime::UNIX_EPOCH.date().to_julian_day());
    u64::try_from(since).ok()
}

/// Times beyond the calendar's last year are written as its last second.
fn date_and_time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let at = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
    let mut date = String::with_capacity(32);
    match at.year() {
        year @ 0..10_000 => digits(&mut date, year.unsigned_abs().into(), 4),
        year => date.push_str(&year.to_string()),
    }
    push(&mut date, '-', u8::from(at.month()).into(), 2);
    push(&mut date, '-', at.day().into(), 2);
    push(&mut date, 'T', at.hour().into(), 2);
    push(&mut date, ':', at.minute().into(), 2);
    push(&mut date, ':', at.second().into(), 2);
    date
}

fn push(date: &mut String, separator: char, number: u64, count: u32) {
    date.push(separator);
    digits(date, number, count);
}

/// Appends the last `count` digits of a number. Each exchange logs a time; `fmt` takes longer for it.
fn digits(date: &mut String, number: u64, count: u32) {
    for n in (0..count).rev() {
        date.push(char::from(b'0' + (number / 10_u64.pow(n) % 10) as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
