//! A request body of any wire is read and rewritten: the outcome is JSON, and without a change it is the same bytes.

use super::{is_json, wire_of};
use baton_core::rewrite::{Cut, RequestReading, Rewrite, rewrite};
use baton_core::text::splice;
use baton_core::tools::ToolTable;
use baton_core::wire::Operation;
use bytes::Bytes;

fn rewritten(reading: &RequestReading, cut: Cut<'_>, tools: bool) -> Bytes {
    let what = Rewrite {
        cut,
        tools: tools.then(ToolTable::handoff),
        ..Rewrite::default()
    };
    splice::flat(rewrite(reading, &what).rope)
}

pub fn check(input: &[u8]) {
    let [wire, text @ ..] = input else { return };
    let wire = wire_of(*wire);
    let body = Bytes::copy_from_slice(text);
    let Ok(reading) = RequestReading::new(wire, &body, Operation::Generate) else {
        return;
    };
    // What our walk takes for a body is JSON, but for what it need not look at: numbers and escapes inside values.
    let valid = is_json(text);
    let head = (wire.functions.carry_over)(&[], "Go on.");
    let tooled = rewritten(&reading, Cut::None, true);
    assert!(!valid || is_json(&tooled), "{}", String::from_utf8_lossy(&tooled));
    for candidate in &reading.candidates() {
        let cut = Cut::At {
            candidate,
            prompt: Some("Go on."),
            head: &head,
        };
        let cut = rewritten(&reading, cut, true);
        assert!(!valid || is_json(&cut), "{}", String::from_utf8_lossy(&cut));
        // What is sent is read again, by us or by a second proxy.
        assert!(
            !valid || RequestReading::new(wire, &cut, Operation::Generate).is_ok(),
            "{}",
            String::from_utf8_lossy(&cut)
        );
    }
    reading.call_names();
}
