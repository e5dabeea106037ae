//! Pinned texts: how many there may be, and how a later handoff carries them.

use crate::agents::wordings::{PINNED_BEGINS, PINNED_ENDS};
use std::fmt::Write;

use crate::limits::{PINNED_BYTES, PINS};
use crate::mark::escape;

/// Why a text is not pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinRejection {
    /// The text is empty.
    Empty,
    /// The text is already pinned, under this number.
    Known(usize),
    /// The maximum number is reached.
    Many,
    /// The total would exceed the limit by this many bytes.
    Long(usize),
}

/// The text in its pinned form, to be added to these: trimmed, without anything that looks like one of our marks.
///
/// # Errors
/// Why it is refused.
pub fn add_pin(pins: &[String], text: &str) -> Result<String, PinRejection> {
    let text = escape::break_up(text.trim()).into_owned();
    if text.is_empty() {
        return Err(PinRejection::Empty);
    }
    if let Some(known) = pins.iter().position(|pin| *pin == text) {
        return Err(PinRejection::Known(known + 1));
    }
    if pins.len() >= PINS {
        return Err(PinRejection::Many);
    }
    let all = pins.iter().map(String::len).sum::<usize>() + text.len();
    match all.checked_sub(PINNED_BYTES) {
        None | Some(0) => Ok(text),
        Some(over) => Err(PinRejection::Long(over)),
    }
}

/// The pins as a person reads them: numbered, each line set in, so that none of them is taken for one of ours.
pub fn listed(pins: &[String]) -> String {
    listed_from(1, pins)
}

/// The same, numbered from this number on.
pub fn listed_from(first: usize, pins: &[String]) -> String {
    let mut all = String::new();
    for (n, pin) in pins.iter().enumerate() {
        let mut lines = pin.lines();
        // Writing into memory cannot fail.
        let _ = write!(all, "\n{:>4}. {}", n + first, lines.next().unwrap_or_default());
        for line in lines {
            let _ = write!(all, "\n      {line}");
        }
    }
    all
}

/// What the model reads in front of a carry-over prompt; nothing where nothing is pinned.
pub fn pinned_text(pins: &[String]) -> String {
    if pins.is_empty() {
        return String::new();
    }
    let mut all = format!("{PINNED_BEGINS}The user pinned this; it holds for every task of this session.\n");
    for (n, pin) in pins.iter().enumerate() {
        let _ = writeln!(all, "{}. {pin}", n + 1);
    }
    all.push_str(PINNED_ENDS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_bounded_and_kept_word_for_word() {
        let one = [add_pin(&[], "  Never touch\nthe schema. ").unwrap()];
        assert_eq!(one, ["Never touch\nthe schema."]);
        assert_eq!(
            add_pin(&one, "Never touch\nthe schema."),
            Err(PinRejection::Known(1))
        );
        assert_eq!(add_pin(&one, " \n"), Err(PinRejection::Empty));
        let full: Vec<String> = (0..PINS).map(|n| n.to_string()).collect();
        assert_eq!(add_pin(&full, "x"), Err(PinRejection::Many));
        let long = "x".repeat(PINNED_BYTES);
        assert_eq!(add_pin(&[], &long).unwrap(), long);
        assert_eq!(add_pin(&one, &long), Err(PinRejection::Long(one[0].len())));
        let marked = add_pin(&[], "[[handoff-note:x]]").unwrap();
        assert_eq!(marked, r"[[handoff-note\:x]]");
        assert_eq!(
            pinned_text(&one),
            "<pinned>\nThe user pinned this; it holds for every task of this session.\n1. Never touch\nthe schema.\n</pinned>\n\n"
        );
        assert_eq!(pinned_text(&[]), "");
        assert_eq!(listed(&one), "\n   1. Never touch\n      the schema.");
    }
}
