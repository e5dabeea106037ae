//! Results without the values that differ between two equal calls: times, durations and ids.

use crate::agents::wordings;

/// Names of values that differ each time: Codex's code mode, Gemini CLI's shell.
const VOLATILE_NAMES: [&str; 6] = [
    "chunk_id",
    "wall_time_seconds",
    "duration_seconds",
    "duration_ms",
    "pgid",
    "pid",
];

/// Units of durations.
const UNITS: [&str; 9] = ["s", "ms", "us", "ns", "sec", "secs", "min", "seconds", "minutes"];

/// The words of a result, with `~` in place of each value that differs from run to run.
pub(super) fn plain_result(text: &str) -> String {
    // A reminder of the agent differs from call to call, and would hide the repetition.
    let text = wordings::before_reminders(text);
    // Includes the members of JSON, which Codex prints on one line.
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',' | '"'));
    let mut words = words.filter(|word| !matches!(*word, "" | ":")).peekable();
    let (mut plain, mut before) = (Vec::new(), "");
    while let Some(word) = words.next() {
        let is_duration = words.peek().is_some_and(|next| UNITS.contains(next)) && is_number(bare(word));
        let is_named = VOLATILE_NAMES
            .iter()
            .any(|name| name.eq_ignore_ascii_case(bare(before)));
        plain.push(match is_duration || is_named || is_volatile(word) {
            true => "~",
            false => word,
        });
        before = word;
    }
    plain.join(" ")
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric())
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Whether a word is a time, a duration, an address or an id.
fn is_volatile(word: &str) -> bool {
    let bare = bare(word);
    let digits = bare.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 {
        return false;
    }
    let number = bare.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_duration = is_number(number) && UNITS.contains(&&bare[number.len()..]);
    let is_time = bare.contains(':') && bare.bytes().all(|b| b.is_ascii_digit() || b":.-TZ+".contains(&b));
    let is_id = bare.len() >= 8 && digits >= 2 && bare.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_duration || is_time || is_id || bare.starts_with("0x")
}

#[cfg(test)]
mod tests {
    use super::plain_result;

    #[test]
    fn times_and_ids_of_agents_do_not_count_and_other_numbers_do() {
        let codex = |wall: &str, id: &str, code: u32| {
            format!(
                "Script completed\nWall time {wall} seconds\nOutput:\n\
                 {{\"chunk_id\":\"{id}\",\"wall_time_seconds\":{wall}17,\"exit_code\":{code},\"output\":\"x\\n\"}}"
            )
        };
        let gemini = |pid: u32, left: u32| format!("Output: {left} failed\nProcess Group PGID: {pid}");
        for (one, other, is_same) in [
            (codex("0.1", "4423f8", 1), codex("12.4", "76db96", 1), true),
            (codex("0.1", "4423f8", 1), codex("0.1", "4423f8", 2), false),
            (gemini(1645, 3), gemini(1649, 3), true),
            (gemini(1645, 3), gemini(1645, 2), false),
            ("FAILED in 0.02s".to_owned(), "FAILED in 1.30s".to_owned(), true),
            ("{\"left\": 3}".to_owned(), "{\"left\": 2}".to_owned(), false),
        ] {
            assert_eq!(
                plain_result(&one) == plain_result(&other),
                is_same,
                "{one}\n{other}"
            );
        }
    }
}
