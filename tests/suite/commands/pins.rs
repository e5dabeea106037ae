//! Pins: texts of the user that every later handoff carries.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{SECOND, and, command, says, sent, thought};
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::{Fixture, PROMPT, fresh, handoff};
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(pinned forked_with_pins;);

/// Later heads include the pins. Existing heads stay unchanged.
async fn pinned(variant: Variant) {
    let dir = temp();
    let store = sqlite(dir.path());
    let mut stage = Fixture::with(variant, [], store, |_| {}).await;
    let pins = "<pinned>\nThe user pinned this; it holds for every task of this session.\n1. Keep \"the\\schema\".\n2. Two\nlines.\n</pinned>\n\n";
    let history = stage.history();
    let (_, now) = command(&stage, &history, "::pin Keep \"the\\schema\".").await;
    let (_, now) = command(&stage, &now, "::pin Two\nlines.").await;
    stage.restart(sqlite(dir.path()));
    let asked = and(&stage, &now, "Hand over.");
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&asked, true).await;
    let head = format!("u: {pins}{PROMPT}");
    assert_eq!(stage.sent(), [head.as_str()]);
    assert!(
        !fired.text.contains("<pinned>"),
        "the sentinel shows the prompt alone: {}",
        fired.text
    );
    // The pin is removed, but the head stays until the next handoff.
    let (_, now) = command(&stage, &[&asked[..], &fired.keep].concat(), "::unpin 1").await;
    let next = and(&stage, &now, "Go on.");
    says(&stage, &next, thought("Next.")).await;
    assert_eq!(stage.sent(), [head.as_str(), "a: Fresh.", "u: Go on."]);
    stage.restart(sqlite(dir.path()));
    stage.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    stage.push(Reply::text("Second."));
    stage.ask(&next, true).await;
    let head = pins.replace("1. Keep \"the\\schema\".\n2. Two", "1. Two");
    assert_eq!(stage.sent(), [format!("u: {head}{SECOND}")]);
    stage.assert_clean();
}

/// Pins belong to the session, whatever branch a handoff is made in; an undo belongs to its branch. A copy
/// under another session's id has the handoffs of its transcript with their pins, but no pins of its own.
async fn forked_with_pins(variant: Variant) {
    let mut stage = Fixture::new(variant, []).await;
    let named = |session: &'static str| {
        let headers = variant.headers.iter().copied().chain([("x-session-id", session)]);
        Box::leak(headers.collect::<Vec<_>>().into_boxed_slice()) as &'static [_]
    };
    stage.variant.headers = named("one");
    let (_, pinned) = command(&stage, &stage.history(), "::pin Keep the schema.").await;
    let asked = and(&stage, &pinned, "Hand over.");
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&asked, true).await;
    let cut = [&asked[..], &fired.keep].concat();
    let (_, undone) = command(&stage, &cut, "::handoff undo").await;
    let pin = "Keep the schema.";
    // Both the branch with the undo and the one without carry the pin over.
    says(&stage, &and(&stage, &undone, "Whole?"), thought("Whole.")).await;
    assert_eq!(sent(&stage)[..2], ["u: Mend the importer.", "a: Looking."]);
    says(&stage, &and(&stage, &cut, "Cut?"), thought("Cut.")).await;
    assert!(sent(&stage)[0].contains(pin) && sent(&stage)[0].contains(PROMPT));
    for branch in [&undone, &cut] {
        let next = and(&stage, branch, "And again.");
        let again = says(&stage, &next, thought("Again.")).await;
        let (text, then) = command(
            &stage,
            &[&next[..], &again.keep].concat(),
            "::handoff --force --method local",
        )
        .await;
        assert!(text.contains("handed over"), "{text}");
        says(&stage, &and(&stage, &then, "On."), Reply::text("On.")).await;
        assert_eq!(sent(&stage)[0].matches(pin).count(), 1, "{:?}", sent(&stage));
    }
    // A copy has the handoff as it was made, and no later pins.
    stage.variant.headers = named("two");
    let next = and(&stage, &cut, "Copied.");
    let copied = says(&stage, &next, Reply::text("Copied.")).await;
    assert!(sent(&stage)[0].contains(pin));
    let (text, then) = command(&stage, &[&next[..], &copied.keep].concat(), "::pins").await;
    assert!(text.contains("nothing is pinned"), "{text}");
    let (_, then) = command(&stage, &then, "::handoff --force --method local").await;
    says(&stage, &and(&stage, &then, "On."), Reply::text("On.")).await;
    assert!(!sent(&stage)[0].contains("<pinned>"), "{:?}", sent(&stage));
    assert_eq!(stage.script.left(), 0);
}
