//! Chat commands: a topic, and answers where there is nothing to do.

use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::Value;

use super::{Stage, claude, model, user};
use crate::exchange::commands::{self, CommandEnd};

/// Text of the response to a last message.
async fn reply(stage: &Stage, text: &str) -> String {
    let messages = [user("Mend it."), model("Yes."), user(text)];
    let exchange = stage.request(claude(&messages)).exchange().await;
    let command = exchange.offered.pin.command.clone().unwrap_or_default();
    let CommandEnd::Answered(response) = commands::answer(exchange, command).await else {
        panic!("the command is for baton");
    };
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await;
    let body = body.unwrap_or_else(|_| panic!("no body")).to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["content"][0]["text"].as_str().unwrap().to_owned()
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
    for (command, expected) in [
        ("::handoff topic", "no topic is named"),
        ("::handoff topic a/b", "nothing was changed"),
        ("::handoff topic parser", "is parser."),
        ("::handoff topic", "is parser."),
    ] {
        let said = reply(&stage, command).await;
        assert!(said.contains(expected), "{command}: {said}");
    }
    assert_eq!(topic(None).await.as_deref(), Some("parser"));
    assert_eq!(topic(Some("importer")).await.as_deref(), Some("importer"));
}
