//! A reply in one piece is read, and joined with itself: what was JSON is JSON.

use super::{is_json, wire_of};
use baton_core::tools::ToolNames;
use baton_core::wire::{Ending, Leg, ResponseWatch, View};
use bytes::Bytes;

pub fn check(input: &[u8]) {
    let [wire, ending, text @ ..] = input else { return };
    let wire = wire_of(*wire);
    let body = Bytes::copy_from_slice(text);
    let watch = ResponseWatch {
        hide: ToolNames::HANDOFF,
        buffered_bytes: 4096,
    };
    let Some(report) = wire.reply(&View::empty(wire.id()), &body, watch) else {
        return;
    };
    let ending = match ending % 4 {
        0 => Ending::Own,
        1 => Ending::WithoutCall,
        2 => Ending::Stopped { next_input: 7 },
        _ => Ending::Lost { next_input: 7 },
    };
    let leg = Leg {
        body,
        report,
        then: vec!["[[handoff-aside]]".to_owned()],
    };
    let opening = Some("opening");
    for (legs, opening) in [(vec![leg.clone()], None), (vec![leg.clone(), leg], opening)] {
        let joined = wire.join(&legs, opening, ending);
        assert!(
            !is_json(text) || is_json(&joined),
            "{}",
            String::from_utf8_lossy(&joined)
        );
    }
}
