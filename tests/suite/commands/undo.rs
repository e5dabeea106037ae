//! `::handoff undo`: the transcript is whole again, or cut by the handoff before.

use std::sync::Arc;

use baton_core::nudge::Windows;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{SECOND, WHOLE, and, command, elements, handed_over, says, sent, thought};
use crate::harness::memory;
use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{Fixture, carry, fresh, handoff};
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(undone keeps_the_tool_where_the_store_is_lost;);

async fn undone(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    let fired = &next[..next.len() - 1];
    let (text, now) = command(&stage, fired, "::handoff undo").await;
    assert!(text.contains("whole history again"), "{text}");
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("Whole.")).await;
    assert_eq!(sent(&stage)[..], [&WHOLE[..], &["u: Well."]].concat());
    let before = elements(&stage);
    let then = stage.then(&asked, &answer, "And?");
    says(&stage, &then, thought("Still.")).await;
    assert_eq!(elements(&stage)[..before.len()], before, "the prefix stays");
    // A new handoff after it counts.
    stage.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    stage.push(thought("Second."));
    let fired = stage.ask(&then, true).await;
    says(&stage, &stage.then(&then, &fired, "On."), thought("Third.")).await;
    assert_eq!(sent(&stage), [&format!("u: {SECOND}"), "a: Second.", "u: On."]);
    stage.assert_clean();
}

/// A history that no longer fits is not restored.
#[tokio::test]
async fn an_undo_over_the_window_is_refused() {
    let stage = Fixture::with(variants::ANTHROPIC, [], memory(), |config| {
        config.handoff.windows = Windows::with(vec![("claude-strict".to_owned(), 2_000)]);
        config.handoff.thresholds.nudge_at = 0.0;
    })
    .await;
    let mut history = stage.history();
    history[0] = stage.user(&"Mend the importer. ".repeat(1_000));
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&history, true).await;
    let (text, now) = command(&stage, &[&history[..], &fired.keep].concat(), "::handoff undo").await;
    assert_contains(&text, "nothing was undone");
    assert_contains(&text, "more than its window holds");
    says(&stage, &and(&stage, &now, "Go on."), thought("Next.")).await;
    assert_eq!(stage.sent(), [carry().as_str(), "a: Fresh.", "u: Go on."]);
    stage.assert_clean();
}

/// The seal of the undone handoff proves that the conversation has the tool, since the model's thinking
/// follows it.
async fn keeps_the_tool_where_the_store_is_lost(variant: Variant) {
    let store = memory();
    let script = [thought("Looked."), handoff(), fresh()];
    let fixture = Fixture::with(variant, script, Arc::clone(&store), |_| {}).await;
    let mut history = fixture.history();
    for next in ["Go on.", "::handoff undo"] {
        let answer = fixture.ask(&history, true).await;
        history = fixture.then(&history, &answer, next);
    }
    let undone = fixture.ask(&history, true).await;
    assert!(undone.text.contains("was undone"), "{}", undone.text);
    history = fixture.then(&history, &undone, "And?");
    let mut fixture = fixture;
    fixture.restart(memory());
    for n in 0..2 {
        fixture.push(thought(&format!("Whole {n}.")));
        let answer = fixture.ask(&history, true).await;
        let offered = fixture.provider.generations().last().unwrap().tool_names();
        assert_eq!(offered, ["read_file", "session_handoff"]);
        history = fixture.then(&history, &answer, "Next.");
    }
    fixture.assert_clean();
}
