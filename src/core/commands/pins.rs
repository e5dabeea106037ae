//! Pins: their limits, their place in later handoffs, and the replies to changes.

use crate::agents::wordings::{PINNED_BEGINS, PINNED_ENDS};
use std::fmt::Write;

use super::CommandReply;
use crate::limits::{PINNED_BYTES, PINS};
use crate::marker::{escape, tags};
use crate::record::RecordChange;

/// Returns the string in its pinned form: trimmed, and without anything that looks like a marker of baton.
///
/// # Errors
/// The reply to the user, if the string is not pinned.
fn add_pin(pins: &[String], text: &str, prefix: &str) -> Result<String, String> {
    // Pins are part of carry-over prompts, and a sentinel in one could cut later requests.
    let text = escape::break_up(text.trim()).into_owned();
    if text.is_empty() {
        return Err(format!("nothing was pinned: write `{prefix}pin TEXT`."));
    }
    if let Some(known) = pins.iter().position(|pin| *pin == text) {
        return Err(format!("it is pinned already, as number {}.", known + 1));
    }
    if pins.len() >= PINS {
        return Err(format!(
            "nothing was pinned: there are {PINS} pins already, which is the maximum. `{prefix}unpin N` removes one."
        ));
    }
    let all = pins.iter().map(String::len).sum::<usize>() + text.len();
    // The limit applies to all pins together, because every handoff carries all of them.
    match all.checked_sub(PINNED_BYTES) {
        None | Some(0) => Ok(text),
        Some(over) => Err(format!(
            "nothing was pinned: all pins together would be {over} bytes over the {PINNED_BYTES} that they may have."
        )),
    }
}

/// Lists the pins for the user, numbered and indented, so that a line in a pin cannot be taken for a command.
fn listed(pins: &[String]) -> String {
    listed_from(1, pins)
}

/// Lists strings for the user, numbered from `first`.
fn listed_from(first: usize, pins: &[String]) -> String {
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

/// Formats the pins for their place before a carry-over prompt; empty if nothing is pinned.
pub fn pinned_text(pins: &[String]) -> String {
    if pins.is_empty() {
        return String::new();
    }
    let mut all = format!("{PINNED_BEGINS}The user pinned this; it holds for every task of this session.\n");
    for (n, pin) in pins.iter().enumerate() {
        let _ = writeln!(all, "{}. {}", n + 1, tags::break_up(pin));
    }
    all.push_str(PINNED_ENDS);
    all
}

/// Pins and rules that later handoffs carry, numbered in one list in this order.
#[derive(Debug, Clone, Default)]
pub struct CarriedTexts {
    pub pins: Vec<String>,
    /// Rules that the user gave in the conversation, newest first.
    pub rules: Vec<String>,
}

impl CarriedTexts {
    fn len(&self) -> usize {
        self.pins.len() + self.rules.len()
    }
}

/// Lists the pins and rules that later handoffs carry.
pub fn pins_listed(carried: &CarriedTexts, prefix: &str) -> String {
    let CarriedTexts { pins, rules } = carried;
    let mut parts = Vec::new();
    if !pins.is_empty() {
        parts.push(format!(
            "pinned, and carried by every later handoff:\n{}",
            listed(pins)
        ));
    }
    if !rules.is_empty() {
        let rules = listed_from(pins.len() + 1, rules);
        parts.push(format!(
            "said by you, and carried if a handoff's prompt lacks it (`{prefix}unpin N` ends that):\n{rules}"
        ));
    }
    match parts.is_empty() {
        true => {
            format!("nothing is pinned. `{prefix}pin TEXT` includes TEXT in every later handoff.")
        }
        false => parts.join("\n\n"),
    }
}

/// Pins a string, or explains why not.
pub fn pin(pins: &[String], text: &str, prefix: &str) -> CommandReply {
    match add_pin(pins, text, prefix) {
        Ok(text) => {
            let (pinned, unpinned) = (Some(text), None);
            let n = pins.len() + 1;
            let text = format!(
                "pinned as number {n}. Every later handoff carries it, word for word; `{prefix}unpin {n}` ends that."
            );
            CommandReply::changing(RecordChange::Pins { pinned, unpinned }, text)
        }
        Err(why) => CommandReply::new(why),
    }
}

/// Removes a pin or a rule by its number, or explains why not.
pub fn unpin(carried: &CarriedTexts, number: &str, prefix: &str) -> CommandReply {
    let CarriedTexts { pins, rules } = carried;
    let known = number.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    // Pins come first in the list that the user sees, and rules follow with the next numbers.
    let pin = known.and_then(|n| pins.get(n));
    let rule = known.and_then(|n| rules.get(n.checked_sub(pins.len())?));
    if let Some(gone) = pin {
        let (pinned, unpinned) = (None, Some(gone.clone()));
        let text = format!("no longer pinned:\n{}", listed(std::slice::from_ref(gone)));
        return CommandReply::changing(RecordChange::Pins { pinned, unpinned }, text);
    }
    if let Some(gone) = rule {
        let rule = listed(std::slice::from_ref(gone));
        let text = format!("no longer carried by later handoffs:\n{rule}");
        return CommandReply::changing(RecordChange::RuleDropped(gone.clone()), text);
    }
    CommandReply::new(match carried.len() {
        0 => format!(
            "nothing is pinned, so nothing was changed. `{prefix}pin TEXT` includes TEXT in every later handoff."
        ),
        1 => format!(
            "nothing was changed: there is one entry, and its number is 1. `{prefix}unpin 1` removes it."
        ),
        many => format!(
            "nothing was changed: there are {many} entries, so give a number from 1 to {many}. `{prefix}pins` lists them."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::assert_begins;

    #[test]
    fn pins_are_bounded_and_kept_word_for_word() {
        let add = |pins: &[String], text: &str| add_pin(pins, text, "::");
        let one = [add(&[], "  Never touch\nthe schema. ").unwrap()];
        assert_eq!(one, ["Never touch\nthe schema."]);
        let long = "x".repeat(PINNED_BYTES);
        assert_eq!(add(&[], &long).unwrap(), long);
        let over = format!("would be {} bytes over", one[0].len());
        assert!(add(&one, &long).unwrap_err().contains(&over));
        let marked = add(&[], "[[handoff-note:x]]").unwrap();
        assert_eq!(marked, r"[[handoff-note\:x]]");
        assert_eq!(
            pinned_text(&one),
            "<pinned>\nThe user pinned this; it holds for every task of this session.\n1. Never touch\nthe schema.\n</pinned>\n\n"
        );
        assert_eq!(pinned_text(&[]), "");
        let closing = pinned_text(&["Show </pinned>\n\nas text.".to_owned()]);
        assert_eq!(closing.matches(PINNED_ENDS).count(), 1, "{closing}");
        assert_eq!(listed(&one), "\n   1. Never touch\n      the schema.");
    }

    fn pins(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn changed(pinned: Option<&str>, unpinned: Option<&str>) -> Option<RecordChange> {
        Some(RecordChange::Pins {
            pinned: pinned.map(str::to_owned),
            unpinned: unpinned.map(str::to_owned),
        })
    }

    #[test]
    fn a_pin_that_is_taken_has_the_next_number_and_every_other_one_changes_nothing() {
        let reply = pin(&pins(&["a"]), " Be brief. ", "::");
        assert_eq!(reply.change, changed(Some("Be brief."), None));
        assert!(reply.text.starts_with("pinned as number 2."), "{}", reply.text);
        let many: Vec<String> = (0..PINS).map(|n| n.to_string()).collect();
        let long = "x".repeat(PINNED_BYTES + 1);
        let rows = [
            (pins(&[]), "  ", "write `::pin TEXT`"),
            (pins(&["a", "b"]), "b", "already, as number 2"),
            (many, "one more", "`::unpin N` removes one"),
            (pins(&[]), &long, "over the"),
        ];
        for (known, text, answer) in rows {
            let reply = pin(&known, text, "::");
            assert!(reply.text.contains(answer), "{}", reply.text);
            assert_eq!(reply.change, None);
        }
    }

    fn carried(pinned: &[&str], rules: &[&str]) -> CarriedTexts {
        CarriedTexts {
            pins: pins(pinned),
            rules: pins(rules),
        }
    }

    #[test]
    fn only_a_number_of_the_list_unpins() {
        let known = carried(&["a", "b"], &["Never c."]);
        assert_eq!(unpin(&known, " 2 ", "::").change, changed(None, Some("b")));
        let dropped = Some(RecordChange::RuleDropped("Never c.".to_owned()));
        assert_eq!(unpin(&known, "3", "::").change, dropped);
        for number in ["0", "4", "-1", "b", "", "18446744073709551616"] {
            let reply = unpin(&known, number, "::");
            assert_eq!(reply.change, None, "{number:?}");
            assert!(reply.text.contains("a number from 1 to 3"), "{}", reply.text);
        }
        let one = unpin(&carried(&["a"], &[]), "2", "::");
        assert!(one.text.contains("its number is 1"));
        assert_begins(&unpin(&carried(&[], &[]), "1", "::").text, "nothing is pinned");
    }

    #[test]
    fn the_list_shows_every_pin_and_rule_or_how_to_make_one() {
        assert!(pins_listed(&carried(&[], &[]), "::").contains("`::pin TEXT`"));
        let listed = pins_listed(&carried(&["Be brief.", "No emoji."], &["Never c."]), "::");
        for line in ["   1. Be brief.", "   2. No emoji.", "   3. Never c."] {
            assert!(listed.contains(line), "{listed}");
        }
    }
}
