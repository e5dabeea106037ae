//! A second tool of baton's whose result is text: by itself, together with the agent's calls, together with a
//! handoff.
//!
//! Hidden calls and their results are unchanged in every later request, including after forks and restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use baton_core::record::HiddenResult;
use baton_core::tools::{OnCall, Tool, ToolTable};
use baton_llm::state::jobs::recalls::{AnswerOutcome, CallAnswerer, RecallCall};
use baton_llm::state::store::SharedStore;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::fixture::{Fixture, carry, fresh, handoff_beside, outline};
use crate::matrix::variants::{Variant, on_every_wire_both_ways};

/// Returns different text for each call, so that a repeated query is visible.
struct Notes(AtomicU32);

impl CallAnswerer for Notes {
    fn answer(&self, call: &RecallCall<'_>) -> (HiddenResult, AnswerOutcome) {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        (
            HiddenResult::from_text(format!("Note {n} for {}.", call.arguments.len())),
            AnswerOutcome::Found,
        )
    }
}

fn notes() -> Tool {
    Tool {
        name: "session_notes",
        description: r#""Reads the notes of this session.""#.to_owned(),
        schema: r#"{"type":"object","properties":{"about":{"type":"string"}}}"#.into(),
        openapi_schema: r#"{"type":"OBJECT","properties":{"about":{"type":"STRING"}}}"#.into(),
        on_call: OnCall::Answer,
        after_cut: false,
        per_turn: 2,
    }
}

/// Starts a proxy with both tools, as a separate process.
fn restart(stage: &mut Fixture, store: &SharedStore) {
    stage.restart_as(store.clone(), |mut app| {
        let handoff = |recall| Tool::handoff(None, recall);
        let recall = Tool::recall(app.config.recall.per_turn);
        app.tools.plain = Arc::new(ToolTable::new(vec![handoff(false), notes()]));
        app.tools.searchable = Arc::new(ToolTable::new(vec![handoff(true), notes()]));
        app.tools.recall = Arc::new(ToolTable::new(vec![handoff(true), notes(), recall]));
        app.answers = Arc::new(Notes(AtomicU32::new(0)));
        app
    });
}

async fn stage(side: Variant, replies: impl IntoIterator<Item = Reply>) -> (Fixture, SharedStore) {
    let store = memory();
    let mut stage = Fixture::with(side, replies, store.clone(), |_| {}).await;
    restart(&mut stage, &store);
    (stage, store)
}

fn asks(reply: Reply) -> Reply {
    reply.call("session_notes", json!({"about": "tests"}))
}

fn thinks() -> Reply {
    Reply::new().thinking("What do the notes say?")
}

/// Returns the upstream request before the last `back` ones.
fn sent(stage: &Fixture, back: usize) -> (Vec<String>, Vec<Value>, bytes::Bytes) {
    let legs = stage.provider.generations();
    let leg = &legs[legs.len() - 1 - back];
    (outline(leg), leg.transcript(), leg.raw.clone())
}

fn says_nothing_of_it(text: &str) {
    assert!(
        !text.contains("session_notes") && !text.contains("Note 0"),
        "{text}"
    );
}

on_every_wire_both_ways!(alone beside_calls beside_a_handoff beside_calls_and_a_handoff no_more_often_than_it_may);

async fn alone(side: Variant, stream: bool) {
    let script = [asks(thinks().say("Let me look.")), Reply::text("So it is.")];
    let (mut stage, store) = stage(side, script).await;
    let said = stage.ask(&stage.history(), stream).await;
    says_nothing_of_it(&said.text);
    assert!(
        said.text.starts_with("Let me look.") && said.text.ends_with("So it is."),
        "{}",
        said.text
    );
    let opening = ["u: Mend the importer.", "a: Looking.", "u: Go on."];
    let answered = ["a: Let me look.", "call session_notes", "result"];
    let (seen, asked, _) = sent(&stage, 0);
    assert_eq!(seen, [&opening[..], &answered].concat());
    assert!(
        asked.iter().any(|m| m.to_string().contains("Note 0 for 17.")),
        "{asked:?}"
    );
    // Later, in another process, and on a branch after it, as the agent's next request has it without the
    // dropped parts.
    let mut history = stage.then(&stage.history(), &said, "On.");
    let mut before = Vec::new();
    for n in 0..3 {
        stage.push(Reply::text(format!("Done {n}.")));
        let said = stage.ask(&history, stream).await;
        let (seen, now, _) = sent(&stage, 0);
        assert_eq!(seen[..7], [&opening[..], &answered, &["a: So it is."]].concat());
        assert_eq!(now[..before.len()], before, "as the model saw it before");
        before = now;
        history = stage.then(&history, &said, "And on.");
        restart(&mut stage, &store);
    }
    let fork = stage.then(&stage.history(), &said, "Another way.");
    stage.push(Reply::text("Well."));
    stage.ask(&fork, stream).await;
    assert_eq!(sent(&stage, 0).0[3..6], answered);
    stage.assert_clean();
}

async fn beside_calls(side: Variant, stream: bool) {
    let both = asks(thinks().say("Both.")).call("read_file", json!({"path": "a"}));
    let (mut stage, store) = stage(side, [both, Reply::text("Read.")]).await;
    let said = stage.ask(&stage.history(), stream).await;
    says_nothing_of_it(&said.text);
    let history = stage.ran(&stage.history(), &said);
    let said = stage.ask(&history, stream).await;
    let (seen, before, raw) = sent(&stage, 0);
    let wanted = [
        "a: Both.",
        "call session_notes",
        "call read_file",
        "result",
        "result",
    ];
    assert_eq!(seen[3..], wanted);
    assert!(
        before.iter().any(|m| m.to_string().contains("Note 0 for")),
        "{before:?}"
    );
    restart(&mut stage, &store);
    stage.push(Reply::text("Again."));
    stage.ask(&history, stream).await;
    assert_eq!(sent(&stage, 0).2, raw, "byte for byte");
    stage.push(Reply::text("Done."));
    stage.ask(&stage.then(&history, &said, "On."), stream).await;
    assert_eq!(sent(&stage, 0).1[..before.len()], before);
    stage.assert_clean();
}

/// The handoff fires, and the other call is dropped with it.
async fn beside_a_handoff(side: Variant, stream: bool) {
    let (stage, _) = stage(side, [handoff_beside(asks(thinks())), fresh()]).await;
    let said = stage.ask(&stage.history(), stream).await;
    says_nothing_of_it(&said.text);
    assert!(said.text.ends_with("Fresh."), "{}", said.text);
    assert_eq!(sent(&stage, 0).0, [carry()]);
    stage.push(Reply::text("Done."));
    stage
        .ask(&stage.then(&stage.history(), &said, "On."), stream)
        .await;
    assert_eq!(sent(&stage, 0).0, [carry(), "a: Fresh.".into(), "u: On.".into()]);
    stage.assert_clean();
}

async fn beside_calls_and_a_handoff(side: Variant, stream: bool) {
    let all = handoff_beside(asks(thinks().say("All.")).call("read_file", json!({"path": "a"})));
    let (mut stage, store) = stage(side, [all, Reply::text("The turn ends."), fresh()]).await;
    let said = stage.ask(&stage.history(), stream).await;
    restart(&mut stage, &store);
    let fired = stage.ask(&stage.ran(&stage.history(), &said), stream).await;
    assert!(fired.text.ends_with("Fresh."), "{}", fired.text);
    let calls = ["call session_notes", "call read_file", "call session_handoff"];
    let wanted = [&["a: All."], &calls[..], &["result"; 3]].concat();
    assert_eq!(sent(&stage, 1).0[3..], wanted);
    assert_eq!(sent(&stage, 0).0, [carry()]);
    stage.assert_clean();
}

async fn no_more_often_than_it_may(side: Variant, stream: bool) {
    let script = [
        asks(thinks()),
        asks(thinks()),
        asks(thinks()),
        Reply::text("Enough."),
    ];
    let (stage, _) = stage(side, script).await;
    let said = stage.ask(&stage.history(), stream).await;
    assert!(said.text.ends_with("Enough."), "{}", said.text);
    let body = String::from_utf8_lossy(&sent(&stage, 0).2).into_owned();
    for told in ["Note 0 for", "Note 1 for", "Not run: this tool was called"] {
        assert_eq!(body.matches(told).count(), 1, "{told}: {body}");
    }
    stage.push(Reply::text("Done."));
    stage
        .ask(&stage.then(&stage.history(), &said, "On."), stream)
        .await;
    stage.assert_clean();
}
