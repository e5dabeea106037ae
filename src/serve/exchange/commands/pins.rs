//! Texts that later handoffs carry: those that a person pins, and rules that the person gave.

use super::reply::CommandReply;
use crate::serve::exchange::{Exchange, record_writer};
use crate::state::session::LiveConversation;
use baton_core::commands::{PinRejection, add_pin, listed, listed_from};
use baton_core::limits::{PINNED_BYTES, PINS};
use baton_core::record::RecordChange;

/// What later handoffs carry, numbered in one list: pins, then rules.
pub(super) struct CarriedTexts {
    pub(super) pins: Vec<String>,
    /// Rules that the person gave in the conversation, newest first.
    pub(super) rules: Vec<String>,
}

impl CarriedTexts {
    pub(super) fn of(exchange: &Exchange, live: &LiveConversation) -> Self {
        let rules = record_writer::work(exchange, false).carried_rules();
        Self {
            pins: live.pins(),
            rules: rules.into_iter().map(|rule| rule.text).collect(),
        }
    }

    fn len(&self) -> usize {
        self.pins.len() + self.rules.len()
    }
}

pub(super) fn pins_listed(carried: &CarriedTexts, prefix: &str) -> String {
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
            "said by you, and carried where a handoff's prompt lacks it (`{prefix}unpin N` ends that):\n{rules}"
        ));
    }
    match parts.is_empty() {
        true => {
            format!("nothing is pinned. `{prefix}pin TEXT` pins a text, which every later handoff carries.")
        }
        false => parts.join("\n\n"),
    }
}

pub(super) fn pin(pins: &[String], text: &str, prefix: &str) -> CommandReply {
    match add_pin(pins, text) {
        Ok(text) => CommandReply {
            change: Some(RecordChange::Pins {
                pinned: Some(text),
                unpinned: None,
            }),
            ..CommandReply::new(format!(
                "pinned as number {}. Every later handoff carries it, word for word.",
                pins.len() + 1
            ))
        },
        Err(PinRejection::Empty) => {
            CommandReply::new(format!("nothing was pinned: write `{prefix}pin TEXT`."))
        }
        Err(PinRejection::Known(n)) => CommandReply::new(format!("it is pinned already, as number {n}.")),
        Err(PinRejection::Many) => CommandReply::new(format!(
            "nothing was pinned: there are {PINS} pins, as many as there may be. `{prefix}unpin N` removes one."
        )),
        Err(PinRejection::Long(over)) => CommandReply::new(format!(
            "nothing was pinned: all pins together would be {over} bytes over the {PINNED_BYTES} that they may have."
        )),
    }
}

pub(super) fn unpin(carried: &CarriedTexts, number: &str, prefix: &str) -> CommandReply {
    let CarriedTexts { pins, rules } = carried;
    let known = number.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let pin = known.and_then(|n| pins.get(n));
    let rule = known.and_then(|n| rules.get(n.checked_sub(pins.len())?));
    if let Some(gone) = pin {
        return CommandReply {
            change: Some(RecordChange::Pins {
                pinned: None,
                unpinned: Some(gone.clone()),
            }),
            ..CommandReply::new(format!(
                "no longer pinned:\n{}",
                listed(std::slice::from_ref(gone))
            ))
        };
    }
    if let Some(gone) = rule {
        return CommandReply {
            change: Some(RecordChange::RuleDropped(gone.clone())),
            ..CommandReply::new(format!(
                "no longer carried by later handoffs:\n{}",
                listed(std::slice::from_ref(gone))
            ))
        };
    }
    CommandReply::new(match carried.len() {
        0 => format!(
            "nothing is pinned, so nothing was changed. `{prefix}pin TEXT` pins a text, which every later handoff carries."
        ),
        1 => format!(
            "nothing was changed: there is one text, and its number is 1. `{prefix}unpin 1` removes it."
        ),
        many => format!(
            "nothing was changed: there are {many} texts, so give a number from 1 to {many}. `{prefix}pins` lists them."
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(
            unpin(&carried(&[], &[]), "1", "::")
                .text
                .starts_with("nothing is pinned")
        );
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
