//! Texts that a person pins: every later handoff carries them.

use super::said::Said;
use baton_core::commands::{PinRejection, add_pin, listed};
use baton_core::limits::{PINNED_BYTES, PINS};

pub(super) fn pins_told(pins: &[String], prefix: &str) -> String {
    match pins.is_empty() {
        true => {
            format!("nothing is pinned. `{prefix}pin TEXT` pins a text, which every later handoff carries.")
        }
        false => format!("pinned, and carried by every later handoff:\n{}", listed(pins)),
    }
}

pub(super) fn pin(pins: &[String], text: &str, prefix: &str) -> Said {
    match add_pin(pins, text) {
        Ok(text) => Said {
            pinned: Some(text),
            ..Said::new(format!(
                "pinned as number {}. Every later handoff carries it, word for word.",
                pins.len() + 1
            ))
        },
        Err(PinRejection::Empty) => Said::new(format!("nothing was pinned: write `{prefix}pin TEXT`.")),
        Err(PinRejection::Known(n)) => Said::new(format!("it is pinned already, as number {n}.")),
        Err(PinRejection::Many) => Said::new(format!(
            "nothing was pinned: there are {PINS} pins, as many as there may be. `{prefix}unpin N` takes one away."
        )),
        Err(PinRejection::Long(over)) => Said::new(format!(
            "nothing was pinned: all pins together would be {over} bytes over the {PINNED_BYTES} that they may have."
        )),
    }
}

pub(super) fn unpin(pins: &[String], number: &str, prefix: &str) -> Said {
    let known = number.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    match known.filter(|n| *n < pins.len()) {
        Some(n) => {
            let gone = pins[n].clone();
            Said {
                unpinned: Some(gone.clone()),
                ..Said::new(format!("no longer pinned:\n{}", listed(&[gone])))
            }
        }
        None => Said::new(match pins.len() {
            0 => format!(
                "nothing is pinned, so nothing was changed. `{prefix}pin TEXT` pins a text, which every later handoff carries."
            ),
            1 => format!(
                "nothing was changed: there is one pin, and its number is 1. `{prefix}unpin 1` takes it away."
            ),
            many => format!(
                "nothing was changed: there are {many} pins, so give a number from 1 to {many}. `{prefix}pins` lists them."
            ),
        }),
    }
}
