//! Undo: in the chat, and requested outside of it.

use http_body_util::BodyExt;
use serde_json::Value;

use super::{Stage, TestRequest, an_id, claude, model, user};
use crate::serve::exchange::pin::Pinned;
use crate::serve::exchange::undo::{AfterUndo, pin_with_undo};
use crate::serve::exchange::{commands, record_writer};
use baton_core::commands::UndoOutcome;
use baton_core::record::{Handoff, HandoffId, PendingUndo};

const BEFORE: &str = "Mend it.";

fn after(shown: &str) -> Vec<Value> {
    vec![user(BEFORE), model(shown), user("Go on.")]
}

struct Undone {
    stage: Stage,
    handoff: Handoff,
    /// A transcript that is cut at the handoff.
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

async fn with_undo(request: &TestRequest<'_>, pending: PendingUndo) -> AfterUndo {
    let received = request.received().await.unwrap();
    let after = pin_with_undo(&request.stage.app, &request.ctx, received, pending).await;
    after.unwrap_or_else(|_| panic!("not pinned"))
}

fn pending(handoff: HandoffId, undone: bool) -> PendingUndo {
    PendingUndo {
        handoff,
        undone,
        at_ms: 1,
    }
}

fn active(pinned: &Pinned) -> Option<HandoffId> {
    pinned.pin.active.as_ref().map(|active| active.id)
}

#[tokio::test]
async fn a_pending_undo_is_done_with_the_next_request_and_its_answer_reports_it() {
    let Undone {
        stage,
        handoff,
        transcript,
    } = handed_over().await;
    let request = stage.request(claude(&transcript));
    let after = with_undo(&request, pending(handoff.id, true)).await;
    let report = after.report.expect("a report");
    assert!(
        report
            .text
            .contains(&format!("the handoff {} was undone", handoff.id)),
        "{}",
        report.text
    );
    assert_eq!(active(&after.pinned), None);
    let outcome = request.ctx.recorder.read(|e| e.undo);
    assert_eq!(outcome, Some(UndoOutcome::Undone));
    // The report in the transcript has the same effect in every later request.
    let mut later = transcript.clone();
    later.extend([model(&report.text), user("More.")]);
    let pinned = stage
        .request(claude(&later))
        .pinned()
        .await
        .unwrap_or_else(|_| panic!("not pinned"));
    assert_eq!(active(&pinned), None);
    assert!(pinned.pin.undone.is_undone(handoff.id));
}

#[tokio::test]
async fn a_transcript_that_never_had_the_handoff_leaves_its_undo_pending() {
    let Undone { stage, handoff, .. } = handed_over().await;
    let fork = stage.request(claude(&[user("Another task."), model("Yes."), user("Go.")]));
    let after = with_undo(&fork, pending(handoff.id, true)).await;
    assert!(after.report.is_none());
}

#[tokio::test]
async fn an_undo_of_a_handoff_that_is_active_no_longer_is_declined() {
    let Undone {
        stage,
        handoff,
        mut transcript,
    } = handed_over().await;
    let exchange = stage.request(claude(&transcript)).exchange().await;
    let second = record_writer::write_handoff(
        &exchange,
        "Go on with the docs.".to_owned(),
        None,
        Some(handoff.id),
    )
    .await
    .unwrap();
    transcript.extend([model(&exchange.sentinel(&second)), user("More.")]);
    let request = stage.request(claude(&transcript));
    let after = with_undo(&request, pending(handoff.id, true)).await;
    assert!(
        after
            .report
            .unwrap()
            .text
            .contains("another handoff is active by now")
    );
    assert_eq!(active(&after.pinned), Some(second.id));
    let outcome = request.ctx.recorder.read(|e| e.undo);
    assert_eq!(outcome, Some(UndoOutcome::Refused));
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
        let response = commands::answer(exchange).await;
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
        undone.contains(&format!("the handoff {} was undone", handoff.id)),
        "{undone}"
    );
    let pinned = stage.request(claude(&transcript)).pinned().await;
    assert_eq!(active(&pinned.unwrap_or_else(|_| panic!("not pinned"))), None);
    let reverted = reply(&mut transcript).await;
    assert!(reverted.contains("the undo was reverted"), "{reverted}");
    let pinned = stage.request(claude(&transcript)).pinned().await;
    assert_eq!(
        active(&pinned.unwrap_or_else(|_| panic!("not pinned"))),
        Some(handoff.id)
    );
}

#[tokio::test]
async fn an_unknown_id_undoes_nothing() {
    let Undone {
        stage, transcript, ..
    } = handed_over().await;
    let mut messages = transcript.clone();
    messages[2] = user(&format!("::handoff undo {}", an_id(5)));
    let response = commands::answer(stage.request(claude(&messages)).exchange().await).await;
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
