//! Pins: texts of the user that every later handoff carries.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{SECOND, opened, sent};
use crate::harness::texts::{assert_contains, assert_lacks};
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::{Fixture, PROMPT, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(pinned forked_with_pins;);

/// Later heads include the pins. Existing heads stay unchanged.
async fn pinned(variant: Variant) {
    let dir = temp();
    let mut talk = Talk::opened(Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await);
    let pins = "<pinned>\nThe user pinned this; it holds for every task of this session.\n1. Keep \"the\\schema\".\n2. Two\nlines.\n</pinned>\n\n";
    talk.command("::pin Keep \"the\\schema\".").await;
    talk.command("::pin Two\nlines.").await;
    talk.restart(sqlite(dir.path()));
    let fired = talk.hands_over("Hand over.").await;
    let head = format!("u: {pins}{PROMPT}");
    assert_eq!(talk.sent(), [head.as_str()]);
    // The sentinel shows the prompt alone.
    assert_lacks(&fired.text, "<pinned>");
    // The pin is removed, but the head stays until the next handoff.
    talk.command("::unpin 1").await;
    let unpinned = talk.history.clone();
    talk.says("Go on.", thought("Next.")).await;
    assert_eq!(talk.sent(), [head.as_str(), "a: Fresh.", "u: Go on."]);
    talk.restart(sqlite(dir.path()));
    talk.history = unpinned;
    talk.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    talk.says("Go on.", "Second.").await;
    let head = pins.replace("1. Keep \"the\\schema\".\n2. Two", "1. Two");
    assert_eq!(talk.sent(), [format!("u: {head}{SECOND}")]);
    talk.assert_clean();
}

/// Pins belong to the session, whatever branch a handoff is made in; an undo belongs to its branch. A copy
/// under another session's id has the handoffs of its transcript with their pins, but no pins of its own.
async fn forked_with_pins(variant: Variant) {
    const HAND_OVER: &str = "::handoff --force --method local";
    let mut talk = opened(variant).await;
    talk.variant = variant.in_session("one");
    let pin = "Keep the schema.";
    talk.command("::pin Keep the schema.").await;
    talk.hands_over("Hand over.").await;
    let cut = talk.history.clone();
    talk.command("::handoff undo").await;
    let undone = std::mem::replace(&mut talk.history, cut.clone());
    // Both the branch with the undo and the one without carry the pin over.
    talk.says("Cut?", thought("Cut.")).await;
    assert_contains(&sent(&talk)[0], pin);
    assert_contains(&sent(&talk)[0], PROMPT);
    for branch in [undone, cut.clone()] {
        let is_whole = branch.len() > cut.len();
        talk.history = branch;
        talk.says("And again.", thought("Again.")).await;
        assert_eq!(sent(&talk)[0] == "u: Mend the importer.", is_whole);
        assert_contains(&talk.command(HAND_OVER).await, "handed over");
        talk.says("On.", "On.").await;
        assert_eq!(sent(&talk)[0].matches(pin).count(), 1, "{:?}", sent(&talk));
    }
    // A copy has the handoff as it was made, and no later pins.
    talk.variant = variant.in_session("two");
    talk.history = cut;
    talk.says("Copied.", "Copied.").await;
    assert_contains(&sent(&talk)[0], pin);
    assert_contains(&talk.command("::pins").await, "nothing is pinned");
    talk.command(HAND_OVER).await;
    talk.says("On.", "On.").await;
    assert_lacks(&sent(&talk)[0], "<pinned>");
    assert_eq!(talk.script.left(), 0);
}
