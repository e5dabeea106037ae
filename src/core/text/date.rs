//! Dates as text.

use std::time::Duration;

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

/// Days to a date as in Howard Hinnant's `civil_from_days`.
fn date_and_time(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let mut date = String::with_capacity(32);
    match year {
        0..10_000 => digits(&mut date, year, 4),
        _ => date.push_str(&year.to_string()),
    }
    push(&mut date, '-', month, 2);
    push(&mut date, '-', day, 2);
    push(&mut date, 'T', rest / 3600, 2);
    push(&mut date, ':', rest / 60 % 60, 2);
    push(&mut date, ':', rest % 60, 2);
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
        let micros = Duration::new(951_782_399, 1_234_999);
        assert_eq!(rfc3339_micros(micros), "2000-02-28T23:59:59.001234Z");
    }
}
