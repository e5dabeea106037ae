//! Undo by chat command.

use http_body_util::BodyExt;
use serde_json::Value;

use super::commanding::command;
use super::{Stage, an_id, claude, model, user};
use baton_core::record::Handoff;
use baton_core::text::units::brief;

const BEFORE: &str = "Mend it.";

fn after(shown: &str) -> Vec<Value> {
    vec![user(BEFORE), model(shown), user("Go on.")]
}

struct Undone {
    stage: Stage,
    handoff: Handoff,
    /// Transcript that is cut at the handoff.
    transcript: Vec<Value>,
}

async fn handed_over() -> Undone {
    let stage = Stage::new();
    let handoff = stage.handoff(&[user(BEFORE)]).await;
    let exchange = stage.request(claude(&[user(BEFORE)])).exchange().await;
    let transcript = after(&exchange.sentinel(&handoff));
    stage.request(claude(&transcript)).offered().await;
    Undone {
        stage,
        handoff,
        transcript,
    }
}

#[tokio::test]
async fn an_undo_in_the_chat_is_reverted_by_the_same_command() {
    let Undone {
        stage,
        handoff,
        mut transcript,
    } = handed_over().await;
    let reply = async |transcript: &mut Vec<Value>| {
        let last = transcript.len() - 1;
        transcript[last] = user("::handoff undo");
        let exchange = stage.request(claude(transcript)).exchange().await;
        let response = command(exchange).await;
        let body = response
            .into_body()
            .collect()
            .await
            .unwrap_or_else(|_| panic!("no body"));
        let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
        let text = body["content"][0]["text"].as_str().unwrap().to_owned();
        transcript.extend([model(&text), user("Go on.")]);
        text
    };
    let undone = reply(&mut transcript).await;
    assert!(
        undone.contains(&format!("the handoff {} was undone", brief(handoff.id))),
        "{undone}"
    );
    let offered = stage.request(claude(&transcript)).offered().await;
    assert_eq!(offered.active_id(), None);
    let reverted = reply(&mut transcript).await;
    assert!(reverted.contains("the undo was reverted"), "{reverted}");
    let offered = stage.request(claude(&transcript)).offered().await;
    assert_eq!(offered.active_id(), Some(handoff.id));
}

#[tokio::test]
async fn an_unknown_id_undoes_nothing() {
    let Undone {
        stage, transcript, ..
    } = handed_over().await;
    let mut messages = transcript.clone();
    messages[2] = user(&format!("::handoff undo {}", an_id(5)));
    let response = command(stage.request(claude(&messages)).exchange().await).await;
    let body = response
        .into_body()
        .collect()
        .await
        .unwrap_or_else(|_| panic!("no body"));
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    assert!(
        text.contains("no handoff of this transcript has that id"),
        "{text}"
    );
}
