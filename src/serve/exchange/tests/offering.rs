//! The third and the fourth stage: what is added to a request.

use serde_json::{Value, json};

use super::{Stage, calls, changed, claude, model, result, sent, user};
use crate::serve::exchange::insertions::append;
use baton_core::rewrite::untooled::ToolOmission;
use baton_core::wire::Operation;

async fn untooled(stage: &Stage, body: Value) -> Option<ToolOmission> {
    stage.request(body).offered().await.offer.untooled
}

#[tokio::test]
async fn every_request_of_a_loop_gets_the_tool_once() {
    let stage = Stage::new();
    let offered = stage.request(claude(&[user("Mend it.")])).offered().await;
    assert!(offered.offer.tooled);
    assert_eq!(sent(&stage, &offered).tools, ["run", "session_handoff"]);
}

#[tokio::test]
async fn a_request_that_is_no_agents_turn_gets_none() {
    let body = || claude(&[user("Mend it.")]);
    let rows = [
        (json!({"tools": null}), ToolOmission::NoClientTools),
        (json!({"tools": []}), ToolOmission::NoClientTools),
        (
            json!({"tool_choice": {"type": "tool", "name": "run"}}),
            ToolOmission::ToolChoice,
        ),
        (json!({"tool_choice": {"type": "none"}}), ToolOmission::ToolChoice),
        (json!({"max_tokens": 512}), ToolOmission::SmallOutput),
    ];
    for (members, why) in rows {
        let stage = Stage::new();
        assert_eq!(
            untooled(&stage, changed(body(), members.clone())).await,
            Some(why),
            "{members}"
        );
    }
    let stage = Stage::new();
    let off = stage
        .request(body())
        .header("x-baton-handoff", "off")
        .offered()
        .await;
    assert_eq!(off.offer.untooled, Some(ToolOmission::OffByHeader));
    // A tool that is counted alone, besides no system prompt.
    let lone = changed(body(), json!({"system": null}));
    let count = stage.request(lone).operation(Operation::Count).offered().await;
    assert_eq!(count.offer.untooled, Some(ToolOmission::CountProbe));
}

#[tokio::test]
async fn a_conversation_keeps_the_tool_that_its_prefix_has() {
    let stage = Stage::new();
    let opening = [user("Mend it.")];
    assert_eq!(untooled(&stage, claude(&opening)).await, None);
    let later = [&opening[..], &[calls("t1"), result("t1")]].concat();
    // The first request would not have got it with so small an output.
    let small = changed(claude(&later), json!({"max_tokens": 512}));
    assert_eq!(untooled(&stage, small).await, None);
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
    // A turn has one text of ours.
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
async fn recall_is_offered_after_a_cut_that_was_made_with_it() {
    let stage = Stage::new();
    let opening = stage.request(claude(&[user("Mend it.")])).offered().await;
    assert!(!opening.offer.recall && opening.offer.recall_next);
    let handoff = stage.handoff(&[user("Mend it.")]).await;
    let shown = opening.sentinel(&stage.app, &handoff);
    let after = stage.request(claude(&[user("Mend it."), model(&shown), user("Go on.")]));
    let offered = after.offered().await;
    assert!(offered.offer.recall);
    assert_eq!(sent(&stage, &offered).tools.len(), 3);
    let off = Stage::with(|config| config.recall.enabled = false);
    let opening = off.request(claude(&[user("Mend it.")])).offered().await;
    assert!(!opening.offer.recall_next);
}

#[tokio::test]
async fn where_nothing_changes_the_bytes_are_the_agents() {
    let stage = Stage::new();
    let body = claude(&[user("Mend it.")]);
    let request = stage.request(&body).header("x-baton-handoff", "off");
    let offered = request.offered().await;
    let rope = offered.first(&stage.app, false).rope;
    assert_eq!(rope.concat(), body.to_string().as_bytes());
    assert!(offered.agent.request.as_it_came(&rope).is_some());
}
