//! Chat commands: their replies and their changes.

use http::{Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{Stage, an_id, changed, claude, model, user};
use crate::exchange::commands::{self, CommandEnd};
use crate::exchange::value::Exchange;
use crate::proxy::response_body::ResponseBody;
use baton_core::marker::note;

const COMMANDS: [&str; 6] = [
    "::handoff help",
    "::handoff status",
    "::pins",
    "::pin Be brief.",
    "::nonsense",
    "::handoff undo",
];

/// Response to a request that ends with a command.
pub(super) async fn command(exchange: Exchange) -> Response<ResponseBody> {
    let text = exchange.offered.pin.command.clone().unwrap_or_default();
    match commands::answer(exchange, text).await {
        CommandEnd::Answered(response) => response,
        CommandEnd::ForModel(_) => panic!("the command is for baton"),
    }
}

/// Text of the response to a last message.
async fn reply(stage: &Stage, text: &str) -> String {
    let messages = [user("Mend it."), model("Yes."), user(text)];
    let response = command(stage.request(claude(&messages)).exchange().await).await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = response
        .into_body()
        .collect()
        .await
        .unwrap_or_else(|_| panic!("no body"));
    let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
    body["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_reply_begins_as_ours_and_ends_with_its_note() {
    let stage = Stage::new();
    for command in COMMANDS {
        let text = reply(&stage, command).await;
        assert!(text.starts_with(note::BEGINS), "{command}: {text}");
        assert!(text.contains("[["), "{command}: {text}");
    }
}

#[tokio::test]
async fn a_pin_is_written_when_it_is_reported() {
    let stage = Stage::new();
    assert!(reply(&stage, "::pins").await.contains("nothing is pinned"));
    assert!(reply(&stage, "::pin Be brief.").await.contains("number 1"));
    assert!(reply(&stage, "::pins").await.contains("Be brief."));
    // The pin is part of the head of every later handoff.
    let handoff = stage.handoff(&[user("Mend it.")]).await;
    assert!(handoff.head.contains("Be brief."), "{}", handoff.head);
    assert!(reply(&stage, "::unpin 1").await.contains("no longer pinned"));
    assert!(reply(&stage, "::pins").await.contains("nothing is pinned"));
}

/// Events of later requests have the topic that was named last, in the chat or by the header.
#[tokio::test]
async fn a_topic_is_named_in_the_chat_or_declared_by_the_request() {
    let stage = Stage::new();
    let topic = async |declared: Option<&'static str>| {
        let mut request = stage.request(claude(&[user("Mend it.")]));
        if let Some(name) = declared {
            request = request.header("x-baton-topic", name);
        }
        request.offered().await;
        request.ctx.recorder.read(|event| event.topic.clone())
    };
    assert_eq!(topic(None).await, None);
    assert_eq!(topic(Some("importer")).await.as_deref(), Some("importer"));
    assert_eq!(topic(Some("no topic")).await, None);
    assert!(
        reply(&stage, "::handoff topic")
            .await
            .contains("no topic is named")
    );
    assert!(
        reply(&stage, "::handoff topic a/b")
            .await
            .contains("nothing was changed")
    );
    assert!(
        reply(&stage, "::handoff topic parser")
            .await
            .contains("is parser.")
    );
    assert!(reply(&stage, "::handoff topic").await.contains("is parser."));
    assert_eq!(topic(None).await.as_deref(), Some("parser"));
    assert_eq!(topic(Some("importer")).await.as_deref(), Some("importer"));
}

#[tokio::test]
async fn what_is_not_there_is_named_and_changes_nothing() {
    let stage = Stage::new();
    let rows = [
        ("::handoff undo", "there is nothing to undo"),
        ("::handoff cancel", "no handoff is being written"),
        ("::handoff reject", "no draft waits"),
        ("::handoff accept", "no draft waits"),
        ("::unpin 1", "nothing is pinned"),
    ];
    for (command, answer) in rows {
        let text = reply(&stage, command).await;
        assert!(text.contains(answer), "{command}: {text}");
    }
    let unknown = reply(&stage, &format!("::handoff resume {}", an_id(3))).await;
    assert!(unknown.contains("not known here"), "{unknown}");
}

#[tokio::test]
async fn a_handoff_is_resumed_by_its_id_and_its_sentinel_stands_in_the_answer() {
    let stage = Stage::new();
    let handoff = stage.handoff(&[user("Another task.")]).await;
    let text = reply(&stage, &format!("::handoff resume {}", handoff.id)).await;
    assert!(
        text.contains("from here on the model continues from the handoff"),
        "{text}"
    );
    let at = text.find(&format!("[[handoff-resume:{}]]", handoff.id));
    assert!(
        at.is_some_and(|at| at > text.find("from here on").unwrap()),
        "{text}"
    );
}

#[tokio::test]
async fn the_status_names_the_active_handoff_or_the_whole_history() {
    let stage = Stage::new();
    assert!(
        reply(&stage, "::handoff status")
            .await
            .contains("the model sees the whole history")
    );
    let handoff = stage.handoff(&[user("Mend it.")]).await;
    let exchange = stage.request(claude(&[user("Mend it.")])).exchange().await;
    let shown = exchange.sentinel(&handoff);
    let messages = [user("Mend it."), model(&shown), user("::handoff status")];
    let response = command(stage.request(claude(&messages)).exchange().await).await;
    let body = response
        .into_body()
        .collect()
        .await
        .unwrap_or_else(|_| panic!("no body"));
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(
        text.contains(&format!(
            "the model sees the handoff {}",
            &handoff.id.to_string()[..13]
        )),
        "{text}"
    );
}

#[tokio::test]
async fn a_streamed_request_gets_a_streamed_reply() {
    let stage = Stage::new();
    let body = changed(claude(&[user("::handoff help")]), json!({"stream": true}));
    let exchange = stage.request(body).exchange().await;
    let response = command(exchange).await;
    assert_eq!(
        response.headers()["content-type"],
        "text/event-stream; charset=utf-8"
    );
    let body = response
        .into_body()
        .collect()
        .await
        .unwrap_or_else(|_| panic!("no body"));
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(text.starts_with("event: message_start\n"), "{text}");
    assert!(text.contains("event: message_stop\n"), "{text}");
}

#[tokio::test]
async fn a_handoff_of_a_conversation_that_is_too_short_is_refused_in_words() {
    let stage = Stage::new();
    let response = command(stage.request(claude(&[user("::handoff")])).exchange().await).await;
    let body = response
        .into_body()
        .collect()
        .await
        .unwrap_or_else(|_| panic!("no body"));
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(
        text.contains("nothing to hand off yet") || text.contains("no handoff was made"),
        "{text}"
    );
}
