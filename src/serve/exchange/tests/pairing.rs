//! Hidden calls: stored next to their siblings, and restored into every later request.

use serde_json::{Value, json};

use super::{PROMPT, Stage, calls, claude, result, sent, user};
use crate::exchange::{record_writer, value::Exchange};
use baton_core::record::{HiddenResult, InsertionPoint};
use baton_core::response::AnsweredCall;
use baton_core::tools::{RECALL_NAME, TOOL_NAME};
use baton_core::wire::HiddenCall;

fn hidden(tool: &'static str, arguments: Value) -> HiddenCall {
    HiddenCall {
        id: "toolu_hidden".to_owned(),
        tool,
        arguments: arguments.to_string(),
        complete: true,
        oversize: false,
        after: 1,
        raw: None,
        bound_to: None,
    }
}

fn beside(sibling: &str) -> Option<InsertionPoint> {
    Some(InsertionPoint::Beside {
        sibling: sibling.to_owned(),
        offset: 0,
    })
}

/// A handoff that was called next to another call, and takes effect at the turn's end.
fn queued() -> AnsweredCall {
    AnsweredCall {
        call: hidden(TOOL_NAME, json!({"prompt": PROMPT})),
        answer: Some(HiddenResult::QUEUED),
        pending: Some((PROMPT.to_owned(), None)),
        unmarked: false,
    }
}

async fn opening(stage: &Stage) -> Exchange {
    stage.request(claude(&[user("Mend it.")])).exchange().await
}

fn next() -> Vec<Value> {
    vec![user("Mend it."), calls("t1"), result("t1")]
}

#[tokio::test]
async fn a_hidden_call_stands_beside_its_sibling_in_the_models_view() {
    let stage = Stage::new();
    let first = opening(&stage).await;
    record_writer::write_beside(&first, vec![(queued(), beside("t1"))])
        .await
        .unwrap();
    let offered = stage.request(claude(&next())).offered().await;
    let messages = sent(&stage, &offered).messages;
    let (call, answer) = (messages[1].to_string(), messages[2].to_string());
    assert!(
        call.contains("toolu_hidden") && call.contains(TOOL_NAME),
        "{call}"
    );
    assert!(
        answer.contains("toolu_hidden") && answer.contains("Handoff queued"),
        "{answer}"
    );
    assert_eq!(messages.len(), 3);
    // Until the turn's end nothing else begins.
    assert!(offered.plan(&stage.app).waits_for_turn_end());
    assert_eq!(
        offered
            .plan(&stage.app)
            .first(true)
            .pending
            .map(|pending| pending.0)
            .as_deref(),
        Some(PROMPT)
    );
}

#[tokio::test]
async fn a_fork_without_the_sibling_has_no_hidden_call() {
    let stage = Stage::new();
    let first = opening(&stage).await;
    record_writer::write_beside(&first, vec![(queued(), beside("t1"))])
        .await
        .unwrap();
    let fork = vec![user("Mend it."), calls("t2"), result("t2")];
    let offered = stage.request(claude(&fork)).offered().await;
    assert!(!offered.plan(&stage.app).waits_for_turn_end());
    let messages = json!(sent(&stage, &offered).messages).to_string();
    assert!(!messages.contains("toolu_hidden"), "{messages}");
}

#[tokio::test]
async fn a_call_without_a_place_is_left_out() {
    let stage = Stage::new();
    let first = opening(&stage).await;
    record_writer::write_beside(&first, vec![(queued(), None)])
        .await
        .unwrap();
    let offered = stage.request(claude(&next())).offered().await;
    assert!(offered.places.pairs.is_empty());
}

#[tokio::test]
async fn refused_calls_and_searches_are_counted_apart() {
    let stage = Stage::new();
    let first = opening(&stage).await;
    let refused = AnsweredCall {
        call: hidden(TOOL_NAME, json!({"prompt": ""})),
        answer: Some(HiddenResult::EMPTY_PROMPT),
        pending: None,
        unmarked: false,
    };
    let search = AnsweredCall {
        call: hidden(RECALL_NAME, json!({"query": "importer"})),
        answer: None,
        pending: None,
        unmarked: false,
    };
    let pair = record_writer::pair(&first, refused, InsertionPoint::Aside).unwrap();
    assert!(pair.answer.is_error());
    let pair = record_writer::pair(&first, search, InsertionPoint::Aside).unwrap();
    assert_eq!(pair.tool, RECALL_NAME);
    let counts = first.ctx.recorder.read(|e| (e.refused_calls, e.recalls.len()));
    assert_eq!(counts, (1, 1));
}
