//! Texts that a person pins: every later handoff carries them.

use super::reply::CommandReply;
use baton_core::commands::{PinRejection, add_pin, listed};
use baton_core::limits::{PINNED_BYTES, PINS};
use baton_core::record::RecordChange;

pub(super) fn pins_listed(pins: &[String], prefix: &str) -> String {
    match pins.is_empty() {
        true => {
            format!("nothing is pinned. `{prefix}pin TEXT` pins a text, which every later handoff carries.")
        }
        false => format!("pinned, and carried by every later handoff:\n{}", listed(pins)),
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

pub(super) fn unpin(pins: &[String], number: &str, prefix: &str) -> CommandReply {
    let known = number.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    match known.filter(|n| *n < pins.len()) {
        Some(n) => {
            let gone = pins[n].clone();
            CommandReply {
                change: Some(RecordChange::Pins {
                    pinned: None,
                    unpinned: Some(gone.clone()),
                }),
                ..CommandReply::new(format!("no longer pinned:\n{}", listed(&[gone])))
            }
        }
        None => CommandReply::new(match pins.len() {
            0 => format!(
                "nothing is pinned, so nothing was changed. `{prefix}pin TEXT` pins a text, which every later handoff carries."
            ),
            1 => format!(
                "nothing was changed: there is one pin, and its number is 1. `{prefix}unpin 1` removes it."
            ),
            many => format!(
                "nothing was changed: there are {many} pins, so give a number from 1 to {many}. `{prefix}pins` lists them."
            ),
        }),
    }
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

    #[test]
    fn only_a_number_of_the_list_unpins() {
        let known = pins(&["a", "b"]);
        let reply = unpin(&known, " 2 ", "::");
        assert_eq!(reply.change, changed(None, Some("b")));
        for number in ["0", "3", "-1", "b", "", "18446744073709551616"] {
            let reply = unpin(&known, number, "::");
            assert_eq!(reply.change, None, "{number:?}");
            assert!(reply.text.contains("a number from 1 to 2"), "{}", reply.text);
        }
        assert!(unpin(&pins(&["a"]), "2", "::").text.contains("its number is 1"));
        assert!(unpin(&[], "1", "::").text.starts_with("nothing is pinned"));
    }

    #[test]
    fn the_list_shows_every_pin_or_how_to_make_one() {
        assert!(pins_listed(&[], "::").contains("`::pin TEXT`"));
        let listed = pins_listed(&pins(&["Be brief.", "No emoji."]), "::");
        assert!(
            listed.contains("Be brief.") && listed.contains("No emoji."),
            "{listed}"
        );
    }
}
