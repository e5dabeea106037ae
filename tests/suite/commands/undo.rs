//! `::handoff undo`: the transcript is whole again, or cut by the handoff before.

use std::sync::Arc;
use std::time::Duration;

use baton_core::nudge::Windows;
use baton_llm::state::config::Config;
use baton_llm::state::files::documents::{DocumentSettings, DocumentWriter};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{SECOND, WHOLE, opened, sent};
use crate::harness::texts::assert_contains;
use crate::harness::{self, memory};
use crate::matrix::fixture::{Fixture, carry, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(undone keeps_the_tool_where_the_store_is_lost;);

async fn undone(variant: Variant) {
    let mut talk = opened(variant).await;
    talk.hands_over("Go on.").await;
    assert_contains(&talk.command("::handoff undo").await, "whole history again");
    talk.says("Well.", thought("Whole.")).await;
    assert_eq!(sent(&talk)[..], [&WHOLE[..], &["u: Well."]].concat());
    let before = talk.elements();
    let then = talk.history.clone();
    talk.says("And?", thought("Still.")).await;
    assert_eq!(talk.elements()[..before.len()], before, "the prefix stays");
    // A new handoff after it counts.
    talk.history = then;
    talk.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    talk.says("And?", thought("Second.")).await;
    talk.says("On.", thought("Third.")).await;
    assert_eq!(sent(&talk), [&format!("u: {SECOND}"), "a: Second.", "u: On."]);
    talk.assert_clean();
}

/// A history that no longer fits is not restored.
#[tokio::test]
async fn an_undo_over_the_window_is_refused() {
    let stage = Fixture::with(variants::ANTHROPIC, [], memory(), |config| {
        config.handoff.windows = Windows::with(vec![("claude-strict".to_owned(), 2_000)]);
        config.handoff.thresholds.nudge_at = 0.0;
    });
    let mut talk = Talk::opened(stage.await);
    talk.history[0] = talk.user(&"Mend the importer. ".repeat(1_000));
    talk.hands_over("Go on.").await;
    let text = talk.command("::handoff undo").await;
    assert_contains(&text, "nothing was undone");
    assert_contains(&text, "more than its window holds");
    assert_contains(&text, "`handoff.windows`");
    talk.says("Go on.", thought("Next.")).await;
    assert_eq!(talk.sent(), [carry().as_str(), "a: Fresh.", "u: Go on."]);
    talk.assert_clean();
}

/// A history that the provider has accepted fits, even if the known window is smaller.
#[tokio::test]
async fn an_accepted_history_over_the_window_is_restored() {
    let dir = harness::temp();
    let store = harness::sqlite(dir.path());
    let mut config = harness::config("http://127.0.0.1:1");
    config.state_dir = dir.path().to_owned();
    let writer = DocumentWriter::start(DocumentSettings::from_config(&config), store.clone());
    let mut stage = Fixture::new(variants::ANTHROPIC, []).await;
    let documents = writer.clone();
    let narrow = |config: &mut Config| {
        config.handoff.windows = Windows::with(vec![("claude-strict".to_owned(), 2_000)]);
        config.handoff.thresholds.nudge_at = 0.0;
    };
    stage.restart_by(store, narrow, |mut app| {
        app.documents = documents;
        app
    });
    let mut talk = Talk::opened(stage);
    talk.history[0] = talk.user(&"Mend the importer. ".repeat(1_000));
    talk.hands_over("Go on.").await;
    assert!(writer.flush(Duration::from_secs(20)).await);
    assert_contains(&talk.command("::handoff undo").await, "whole history again");
    talk.assert_clean();
}

/// The seal of the undone handoff proves that the conversation has the tool, since the model's thinking
/// follows it.
async fn keeps_the_tool_where_the_store_is_lost(variant: Variant) {
    let store = memory();
    let stage = Fixture::with(variant, [], Arc::clone(&store), |_| {}).await;
    let mut talk = Talk::worked_in(stage).await;
    talk.hands_over("Go on.").await;
    assert_contains(&talk.command("::handoff undo").await, "was undone");
    talk.restart(memory());
    for next in ["And?", "Next."] {
        talk.says(next, thought("Whole.")).await;
        let offered = talk.provider.generations().last().unwrap().tool_names();
        assert_eq!(offered, ["read_file", "session_handoff"]);
    }
    talk.assert_clean();
}
