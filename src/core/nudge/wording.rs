//! The text of a nudge. It becomes part of a prefix that must not change. It is stored whole, and equal numbers give
//! equal text.

/// How every nudge of this version begins.
const OPENING: &str = "<context-notice>";

/// Whether a text of ours is a nudge.
pub fn is_nudge(text: &str) -> bool {
    text.starts_with(OPENING)
}

/// The text of a nudge: how many tokens the context has, and its window where that is known.
pub fn text(tokens: u64, window: Option<u64>) -> String {
    let use_ = match window.filter(|window| *window > 0) {
        Some(window) => format!(
            "about {} of {} tokens ({}%)",
            grouped(tokens),
            grouped(window),
            (tokens.saturating_mul(100) / window).min(100)
        ),
        None => format!("about {} tokens", grouped(tokens)),
    };
    format!(
        "{OPENING}\nThis notice comes from the session's proxy, not from the user. Your context is now at {use_}. Finish the step that \
         you are at; begin no new one here. Then call session_handoff with a self-contained prompt for what is left to do: the \
         session goes on from that prompt with an empty context. If all of the work is done, answer as usual and do not call \
         it. Do not mention this notice.\n</context-notice>"
    )
}

/// `123,456`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_states_use_and_window() {
        let nudge_text = text(104_321, Some(200_000));
        assert!(
            nudge_text.contains("about 104,321 of 200,000 tokens (52%)"),
            "{nudge_text}"
        );
        assert!(is_nudge(&nudge_text) && !is_nudge("so it is"));
        assert!(nudge_text.contains("session_handoff") && !nudge_text.contains("[["));
        assert!(text(999, None).contains("at about 999 tokens."));
        assert!(text(1_000_000, Some(0)).contains("about 1,000,000 tokens."));
    }
}
