//! Hidden calls: stored next to their siblings, and restored into every later request.

use serde_json::{Value, json};

use super::{PROMPT, Stage, calls, claude, result, user};
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
        after: 1,
        ..HiddenCall::default()
    }
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
async fn a_call_without_a_place_is_left_out() {
    let stage = Stage::new();
    let first = opening(&stage).await;
    let written = record_writer::write_beside(&first, vec![(queued(), None)]);
    written.await.unwrap();
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
