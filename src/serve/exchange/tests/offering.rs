//! Additions to a request, with a real store. `core/plan` tests the decision.

use serde_json::json;

use super::{Stage, claude, model, sent, user};
use crate::exchange::context::append;

#[tokio::test]
async fn every_request_of_a_loop_gets_the_tool_once() {
    let stage = Stage::new();
    let offered = stage.request(claude(&[user("Mend it.")])).offered().await;
    assert!(offered.offer.tooled);
    assert_eq!(sent(&stage, &offered).tools, ["run", "session_handoff"]);
}

#[tokio::test]
async fn a_text_that_was_appended_is_found_again_and_stays_where_it_was() {
    let stage = Stage::new();
    let turns = [user("Mend it.")];
    let mut exchange = stage.request(claude(&turns)).exchange().await;
    let text = "<notice>The context is half full.</notice>";
    assert!(append(&mut exchange, text).await.unwrap());
    let first = sent(&stage, &exchange.offered).messages;
    assert!(first.last().unwrap().to_string().contains(text));
    // A turn has room for one notice.
    assert!(!append(&mut exchange, "another").await.unwrap());
    let later = [&turns[..], &[model("Done."), user("Thanks.")]].concat();
    let offered = stage.request(claude(&later)).offered().await;
    let messages = sent(&stage, &offered).messages;
    assert_eq!(messages[0], first[0]);
    assert_eq!(json!(messages).to_string().matches(text).count(), 1);
}

#[tokio::test]
async fn an_appended_text_does_not_move_to_another_transcript() {
    let stage = Stage::new();
    let mut exchange = stage.request(claude(&[user("Mend it.")])).exchange().await;
    append(&mut exchange, "a notice").await.unwrap();
    let rewound = stage.request(claude(&[user("Mend that."), model("Yes."), user("Go.")]));
    let offered = rewound.offered().await;
    assert!(offered.places.insertions.is_empty());
    let lost = rewound.ctx.recorder.read(|e| e.lost_insertions);
    assert_eq!(lost, 1);
}

#[tokio::test]
async fn where_nothing_changes_the_bytes_are_the_agents() {
    let stage = Stage::new();
    let body = claude(&[user("Mend it.")]);
    let request = stage.request(&body).header("x-baton-handoff", "off");
    let offered = request.offered().await;
    let rope = offered.plan(&stage.app).first(false).rope;
    assert_eq!(rope.concat(), body.to_string().as_bytes());
    assert!(offered.raw(&rope).is_some());
}
