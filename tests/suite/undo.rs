//! The remains of a handoff that was undone, after the store is lost.

use std::sync::Arc;

use baton_strict::Reply;
use pretty_assertions::assert_eq;

use crate::harness::memory;
use crate::matrix::fixture::{Fixture, fresh, handoff};
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(keeps_the_tool_where_the_store_is_lost;);

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
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
