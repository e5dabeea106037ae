//! `::handoff undo`: the transcript is whole again, or cut by the handoff before.

use std::sync::Arc;

use baton_core::nudge::Windows;
use baton_llm::state::store::SharedStore;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::json as value;

use super::{SECOND, WHOLE, and, command, elements, handed_over, says, sent, thought};
use crate::harness::{memory, sqlite, temp};
use crate::matrix::fixture::{Fixture, PROMPT, carry, fresh, handoff, handoff_beside};
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(undone undone_twice undone_to_the_one_before undone_in_a_fork undone_after_a_restart undone_mixed keeps_the_tool_where_the_store_is_lost;);

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

async fn undone_twice(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    let (_, now) = command(&stage, &next[..next.len() - 1], "::handoff undo").await;
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("Whole.")).await;
    let (text, now) = command(&stage, &[&asked[..], &answer.keep].concat(), "::handoff undo").await;
    assert!(text.contains("was reverted"), "{text}");
    let asked = and(&stage, &now, "Again.");
    let answer = says(&stage, &asked, thought("Cut.")).await;
    let carried = carry();
    let cut = [
        carried.as_str(),
        "a: Fresh.",
        "u: Well.",
        "a: Whole.",
        "u: Again.",
    ];
    assert_eq!(sent(&stage), cut);
    let before = elements(&stage);
    let asked = stage.then(&asked, &answer, "And?");
    let answer = says(&stage, &asked, thought("Yes.")).await;
    assert_eq!(elements(&stage)[..before.len()], before, "the prefix stays");
    let (_, now) = command(&stage, &[&asked[..], &answer.keep].concat(), "::handoff undo").await;
    says(&stage, &and(&stage, &now, "Third."), thought("Whole again.")).await;
    assert_eq!(sent(&stage)[..4], WHOLE);
    stage.assert_clean();
}

async fn undone_to_the_one_before(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    stage.push(Reply::text("Done, too.").call("session_handoff", value!({"prompt": SECOND})));
    stage.push(thought("Second."));
    let fired = stage.ask(&next, true).await;
    let now = [&next[..], &fired.keep].concat();
    let (text, now) = command(&stage, &now, "::handoff undo").await;
    assert!(text.contains("the handoff before it"), "{text}");
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("First.")).await;
    let carried = carry();
    let cut = [
        carried.as_str(),
        "a: Fresh.",
        "u: Go on.",
        "a: Done, too.Second.",
        "u: Well.",
    ];
    assert_eq!(sent(&stage), cut);
    let before = elements(&stage);
    let asked = stage.then(&asked, &answer, "And?");
    says(&stage, &asked, thought("Yes.")).await;
    assert_eq!(elements(&stage)[..before.len()], before);
    stage.assert_clean();
}

/// The branch without the undo is cut as before. A copy under another session's id has the undo.
async fn undone_in_a_fork(variant: Variant) {
    let mut stage = Fixture::new(variant, []).await;
    let next = handed_over(&stage).await;
    let (_, now) = command(&stage, &next[..next.len() - 1], "::handoff undo").await;
    says(&stage, &and(&stage, &now, "Well."), thought("Whole.")).await;
    assert_eq!(sent(&stage)[..4], WHOLE);
    says(&stage, &next, thought("Cut.")).await;
    assert_eq!(sent(&stage), [carry().as_str(), "a: Fresh.", "u: Go on."]);
    let headers = variant.headers.iter().copied().chain([("x-session-id", "copy")]);
    stage.variant.headers = Box::leak(headers.collect::<Vec<_>>().into_boxed_slice());
    says(&stage, &and(&stage, &now, "Copied."), Reply::text("Whole.")).await;
    assert_eq!(sent(&stage)[..4], WHOLE);
    assert_eq!(stage.script.left(), 0);
}

/// The marker in the transcript suffices: neither the process nor the store is needed.
async fn undone_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    let next = handed_over(&stage).await;
    let (_, now) = command(&stage, &next[..next.len() - 1], "::handoff undo").await;
    let lost: [SharedStore; 2] = [sqlite(dir.path()), memory()];
    for store in lost {
        stage.restart(store);
        says(&stage, &and(&stage, &now, "Well."), Reply::text("Whole.")).await;
        assert_eq!(sent(&stage)[..4], WHOLE);
    }
    assert_eq!(stage.script.left(), 0);
}

/// A handoff that waited next to calls. After its undo the call does not take effect again.
async fn undone_mixed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let reads = Reply::new()
        .thinking("Read.")
        .call("read_file", value!({"path": "a"}));
    stage.push(handoff_beside(reads));
    let answer = stage.ask(&history, true).await;
    let ran = stage.ran(&history, &answer);
    stage.push(thought("Ended."));
    stage.push(fresh());
    let fired = stage.ask(&ran, true).await;
    assert!(fired.text.contains(PROMPT), "{}", fired.text);
    let (_, now) = command(&stage, &[&ran[..], &fired.keep].concat(), "::handoff undo").await;
    let asked = and(&stage, &now, "Well.");
    let answer = says(&stage, &asked, thought("Whole.")).await;
    assert_eq!(answer.text, "Whole.", "nothing fires");
    let seen = sent(&stage);
    assert_eq!(seen[0], "u: Mend the importer.");
    assert_eq!(
        seen[seen.len() - 2..],
        ["a: Ended.Fresh.", "u: Well."],
        "{seen:?}"
    );
    says(&stage, &stage.then(&asked, &answer, "And?"), thought("Still.")).await;
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
    assert!(
        text.contains("nothing was undone") && text.contains("more than its window holds"),
        "{text}"
    );
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
