//! Text of a nudge.
//!
//! The text becomes part of a prefix that must not change. So it is stored whole, and equal numbers give
//! equal text.

use crate::quota::UsageLimit;
use crate::text::date::rfc3339;
use crate::text::words::grouped;

/// Beginning of every nudge.
const OPENING: &str = "<context-notice>";

/// Whether an injected notice is a nudge.
pub fn is_nudge(text: &str) -> bool {
    text.starts_with(OPENING)
}

/// Request of every nudge, after its reason.
const REQUEST: &str = "Finish the step that you are at; begin no new one here. Then call session_handoff with a self-contained \
prompt for what is left to do: the session goes on from that prompt with an empty context. If all of the work is done, answer as \
usual and do not call it. Do not mention this notice.\n</context-notice>";

named! {
    /// Whether a notice of a long context states its size, because models that know the size put work off.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum NudgeWording {
        /// With the numbers that led to the notice.
        #[default]
        Numbers = "numbers",
        /// Without numbers.
        Plain = "plain",
    }
}

/// Composes the nudge about the number of tokens in the context, and its window if known.
pub fn text(tokens: u64, window: Option<u64>, wording: NudgeWording) -> String {
    let why = match wording {
        NudgeWording::Numbers => format!("Your context is now at {}.", context_use(tokens, window)),
        NudgeWording::Plain => "It is time to go on with a fresh context.".to_owned(),
    };
    notice(&format!("{why} {REQUEST}"))
}

/// Composes the nudge about a handoff that pays.
///
/// The handoff pays after `calls` of the `left` calls that the rest of the to-do list needs.
pub fn paying_text(tokens: u64, calls: u32, left: u32, wording: NudgeWording) -> String {
    if wording == NudgeWording::Plain {
        return notice(&format!(
            "For the open items of your to-do list, a handoff now costs less than to go on with all of this context. {REQUEST}"
        ));
    }
    notice(&format!(
        "Each further call reads your whole context of about {} tokens. The open items of your to-do list need some {left} calls, and a \
         handoff now saves tokens from the {} call on. {REQUEST}",
        grouped(tokens),
        ordinal(calls)
    ))
}

/// Composes the nudge about a usage limit of the provider that is near.
pub fn limit_text(limit: &UsageLimit, now_ms: u64) -> String {
    let minutes = limit.resets_ms.saturating_sub(now_ms) / 60_000;
    notice(&format!(
        "The provider's usage limit of this account is at {:.0}%, and is lifted at {} UTC, in {minutes} minutes. Calls may be refused until \
         then, and nothing resumes by itself. Say in the prompt when the limit is lifted. {REQUEST}",
        limit.used * 100.0,
        rfc3339(limit.resets_ms / 1_000)
            .trim_end_matches('Z')
            .replace('T', " ")
    ))
}

fn notice(text: &str) -> String {
    format!("{OPENING}\nThis notice comes from the session's proxy, not from the user. {text}")
}

fn context_use(tokens: u64, window: Option<u64>) -> String {
    match window.filter(|window| *window > 0) {
        Some(window) => {
            let percent = (tokens.saturating_mul(100) / window).min(100);
            format!(
                "about {} of {} tokens ({percent}%)",
                grouped(tokens),
                grouped(window)
            )
        }
        None => format!("about {} tokens", grouped(tokens)),
    }
}

/// Formats an ordinal number, such as `1st`, `22nd` or `113th`.
fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::assert_contains;

    /// Stored prefixes contain this text, so it must not change.
    #[test]
    fn the_text_of_a_full_context_is_as_it_was() {
        assert_eq!(
            text(999, None, NudgeWording::Numbers),
            "<context-notice>\nThis notice comes from the session's proxy, not from the user. Your context is now at about 999 tokens. \
             Finish the step that you are at; begin no new one here. Then call session_handoff with a self-contained prompt for what is \
             left to do: the session goes on from that prompt with an empty context. If all of the work is done, answer as usual and do \
             not call it. Do not mention this notice.\n</context-notice>"
        );
    }

    #[test]
    fn a_notice_says_why_it_comes() {
        let paying = paying_text(150_000, 9, 24, NudgeWording::Numbers);
        assert_contains(&paying, "about 150,000 tokens");
        assert_contains(&paying, "24 calls");
        assert_contains(&paying, "from the 9th call");
        let limit = UsageLimit {
            window: None,
            used: 0.934,
            resets_ms: 1_795_438_800_000,
        };
        let limit = limit_text(&limit, 1_795_435_200_000);
        assert_contains(&limit, "at 93%");
        assert_contains(&limit, "2026-11-23 13:00:00 UTC, in 60 minutes");
        assert!(
            [paying, limit]
                .iter()
                .all(|text| is_nudge(text) && text.contains("session_handoff"))
        );
        assert_eq!(
            [1, 2, 3, 11, 112, 21].map(ordinal),
            ["1st", "2nd", "3rd", "11th", "112th", "21st"]
        );
    }

    #[test]
    fn the_plain_wording_has_no_number_and_asks_for_the_same() {
        for plain in [
            text(104_321, Some(200_000), NudgeWording::Plain),
            paying_text(150_000, 9, 24, NudgeWording::Plain),
        ] {
            assert!(!plain.contains(|c: char| c.is_ascii_digit()), "{plain}");
            assert!(is_nudge(&plain) && plain.ends_with(REQUEST), "{plain}");
        }
    }

    #[test]
    fn it_states_use_and_window() {
        let nudge_text = text(104_321, Some(200_000), NudgeWording::Numbers);
        assert_contains(&nudge_text, "about 104,321 of 200,000 tokens (52%)");
        assert!(is_nudge(&nudge_text) && !is_nudge("so it is"));
        assert!(nudge_text.contains("session_handoff") && !nudge_text.contains("[["));
        assert!(text(999, None, NudgeWording::Numbers).contains("at about 999 tokens."));
        assert!(text(1_000_000, Some(0), NudgeWording::Numbers).contains("about 1,000,000 tokens."));
    }
}
