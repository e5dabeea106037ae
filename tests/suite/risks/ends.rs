//! Ends that are not the model's own: failures, side calls, stop mode.

use baton_proxy::config::Mode;
use baton_proxy::strict::{Fault, Reply, Stop};
use baton_proxy::telemetry::Outcome;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::sides::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES};
use crate::matrix::stage::{Stage, fresh, handoff, handoff_beside};

/// A response that failed behind its first words is the agent's to ask for again, not ours.
#[tokio::test]
async fn a_failed_response_is_not_sent_again() {
    let failed = Reply::text("Some words.").stop(Stop::Word("failed".into()));
    let stage = Stage::new(RESPONSES, [failed, fresh(), fresh()]).await;
    let heard = stage.send(&stage.history(), true).await;
    assert!(heard.text().contains("response.failed"), "{}", heard.text());
    assert_eq!(stage.provider.generations().len(), 1);
}

/// A later leg that is answered with an error under a status of success is asked for again, as one with a status of failure is.
#[tokio::test]
async fn a_later_legs_error_under_a_status_of_success_is_tried_again() {
    let table = [
        (
            ANTHROPIC,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
        ),
        (CHAT, r#"{"error":{"message":"busy","type":"server_error"}}"#),
        (
            RESPONSES,
            r#"{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"busy"},"output":[]}"#,
        ),
        (
            GEMINI,
            r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#,
        ),
        (OLLAMA, r#"{"error":"busy"}"#),
    ];
    for (side, body) in table {
        let busy = Reply::text("").fault(Fault::Raw {
            status: 200,
            content_type: "application/json".to_owned(),
            body: body.into(),
        });
        let stage = Stage::new(side, [handoff(), busy, fresh()]).await;
        let said = stage.ask(&stage.history(), false).await;
        assert!(said.text.ends_with("Fresh."), "{}", said.text);
        let event = stage.baton.events(1).await.pop().unwrap();
        assert_eq!((event.retries, event.outcome), (1, Outcome::Complete));
    }
}

/// A later leg in one piece that breaks off is asked for again: nothing of it was shown.
#[tokio::test]
async fn a_later_leg_in_one_piece_that_breaks_off_is_tried_again() {
    for side in [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA] {
        let cut = fresh().fault(Fault::CutAfterBytes(20));
        let stage = Stage::new(side, [handoff(), cut, fresh()]).await;
        let said = stage.ask(&stage.history(), false).await;
        assert!(said.text.ends_with("Fresh."), "{}", said.text);
        let event = stage.baton.events(1).await.pop().unwrap();
        assert_eq!((event.retries, event.outcome), (1, Outcome::Complete));
    }
}

/// A leg's tries are counted together, whatever each of them fails with.
#[tokio::test]
async fn refusals_and_errors_in_the_body_are_counted_together() {
    for stream in [false, true] {
        let told = match stream {
            true => Fault::ErrorEvent {
                events: 0,
                kind: "overloaded_error".into(),
                message: "busy".into(),
            },
            false => Fault::Raw {
                status: 200,
                content_type: "application/json".to_owned(),
                body: r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#.into(),
            },
        };
        let refused = || Reply::status(529, "busy").retry_after(0);
        let busy = || [refused(), Reply::text("").fault(told.clone())];
        let replies = [handoff()].into_iter().chain((0..4).flat_map(|_| busy()));
        let once = |config: &mut baton_proxy::config::Config| config.handoff.retries = 2;
        let stage = Stage::with(ANTHROPIC, replies, memory(), once).await;
        let heard = stage.send(&stage.history(), stream).await;
        assert_eq!((heard.status, heard.broken), (200, false), "{}", heard.text());
        let event = stage.baton.events(1).await.pop().unwrap();
        // The leg that was handed off in, and three tries of the one behind it.
        assert_eq!(
            (stage.provider.generations().len(), event.retries),
            (4, 2),
            "{stream}"
        );
    }
}

/// A summary in the middle of a turn ends by itself, and is no place for a handoff that waits for the turn's end.
#[tokio::test]
async fn a_waiting_handoff_does_not_fire_in_a_side_call() {
    let tool = Reply::new().call("read_file", json!({"path": "a"}));
    let stage = Stage::new(ANTHROPIC, [handoff_beside(tool), Reply::text("A summary.")]).await;
    let said = stage.ask(&stage.history(), true).await;
    let mut body: Value = (ANTHROPIC.body)(&stage.ran(&stage.history(), &said), true);
    body["tools"] = json!([]);
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "Summarise."}));
    let heard = stage
        .baton
        .post((ANTHROPIC.path)(true), ANTHROPIC.headers, body.to_string().into())
        .await;
    assert!(!heard.text().contains("handoff-resume"), "{}", heard.text());
    assert_eq!(stage.provider.generations().len(), 2);
}

/// Where responses stop at a handoff, a repetition asks the model anew and runs no leg behind it.
#[tokio::test]
async fn a_repetition_in_stop_mode_runs_no_later_leg() {
    let cut = handoff().delay(std::time::Duration::from_millis(1));
    let stop = |config: &mut baton_proxy::config::Config| config.handoff.mode = Mode::Stop;
    let stage = Stage::with(ANTHROPIC, [cut, handoff()], memory(), stop).await;
    stage.ask(&stage.history(), true).await;
    stage.ask(&stage.history(), true).await;
    let seen = stage.provider.generations();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].messages().len(), seen[1].messages().len());
}

/// A refused call's next leg that fails for good leaves a message with an end.
#[tokio::test]
async fn a_lost_second_asking_ends_the_message() {
    let refused = Reply::new()
        .say("Too soon.")
        .call("session_handoff", json!({"prompt": " "}));
    let busy = || {
        Reply::text("").fault(Fault::ErrorEvent {
            events: 0,
            kind: "overloaded_error".into(),
            message: "busy".into(),
        })
    };
    let once = |config: &mut baton_proxy::config::Config| config.handoff.retries = 0;
    let stage = Stage::with(ANTHROPIC, [refused, busy()], memory(), once).await;
    let heard = stage.send(&stage.history(), true).await;
    assert!(heard.text().contains("message_stop"), "{}", heard.text());
}
