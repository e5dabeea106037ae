//! Ends that the model does not choose: failures, side calls, mode `stop`.

use baton_llm::state::config::HandoffMode;
use baton_llm::state::telemetry::ExchangeOutcome;
use baton_strict::{Fault, Reply, Stop};
use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::memory;
use crate::matrix::fixture::{Fixture, fresh, handoff, handoff_beside};
use crate::matrix::variants::{ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, WIRES};

/// If a response fails after its first words, the agent retries it, not baton.
#[tokio::test]
async fn a_failed_response_is_not_retried() {
    let failed = Reply::text("Some words.").stop(Stop::Word("failed".into()));
    let fixture = Fixture::new(RESPONSES, [failed, fresh(), fresh()]).await;
    let response = fixture.send(&fixture.history(), true).await;
    assert!(response.text().contains("response.failed"), "{}", response.text());
    assert_eq!(fixture.provider.generations().len(), 1);
}

/// A later leg with an error under a success status is retried like one with a failure status.
#[tokio::test]
async fn a_later_legs_error_with_a_success_status_is_retried() {
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
    let tried = table.map(async |(variant, body)| {
        let busy = Reply::text("").fault(Fault::Raw {
            status: 200,
            content_type: "application/json".to_owned(),
            body: body.into(),
        });
        let fixture = Fixture::new(variant, [handoff(), busy, fresh()]).await;
        let answer = fixture.ask(&fixture.history(), false).await;
        assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
        let event = fixture.baton.events(1).await.pop().unwrap();
        assert_eq!((event.retries, event.outcome), (1, ExchangeOutcome::Complete));
    });
    join_all(tried).await;
}

/// A later leg in one piece that breaks off is retried, because nothing of it was shown.
#[tokio::test]
async fn a_later_leg_in_one_piece_that_breaks_off_is_retried() {
    let tried = WIRES.map(async |variant| {
        let cut = fresh().fault(Fault::CutAfterBytes(20));
        let fixture = Fixture::new(variant, [handoff(), cut, fresh()]).await;
        let answer = fixture.ask(&fixture.history(), false).await;
        assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
        let event = fixture.baton.events(1).await.pop().unwrap();
        assert_eq!((event.retries, event.outcome), (1, ExchangeOutcome::Complete));
    });
    join_all(tried).await;
}

/// All attempts of a leg count together, whatever their failures.
#[tokio::test]
async fn refusals_and_errors_in_the_body_are_counted_together() {
    let tried = [false, true].map(async |stream| {
        let parsed = match stream {
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
        let busy = || [refused(), Reply::text("").fault(parsed.clone())];
        let replies = [handoff()].into_iter().chain((0..4).flat_map(|_| busy()));
        let once = |config: &mut baton_llm::state::config::Config| config.handoff.retries = 2;
        let fixture = Fixture::with(ANTHROPIC, replies, memory(), once).await;
        let response = fixture.send(&fixture.history(), stream).await;
        assert_eq!(
            (response.status, response.broken),
            (200, false),
            "{}",
            response.text()
        );
        let event = fixture.baton.events(1).await.pop().unwrap();
        // The leg with the handoff, and three attempts of the next one.
        assert_eq!(
            (fixture.provider.generations().len(), event.retries),
            (4, 2),
            "{stream}"
        );
    });
    join_all(tried).await;
}

/// A summary in the middle of a turn is a side call. A handoff that waits for the end of the turn must not
/// fire in it.
#[tokio::test]
async fn a_waiting_handoff_does_not_fire_in_a_side_call() {
    let tool = Reply::new().call("read_file", json!({"path": "a"}));
    let fixture = Fixture::new(ANTHROPIC, [handoff_beside(tool), Reply::text("A summary.")]).await;
    let answer = fixture.ask(&fixture.history(), true).await;
    let mut body: Value = (ANTHROPIC.body)(&fixture.ran(&fixture.history(), &answer), true);
    body["tools"] = json!([]);
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "Summarise."}));
    let response = fixture
        .baton
        .post((ANTHROPIC.path)(true), ANTHROPIC.headers, body.to_string().into())
        .await;
    assert!(!response.text().contains("handoff-resume"), "{}", response.text());
    assert_eq!(fixture.provider.generations().len(), 2);
}

/// In mode `stop`, a repeated request queries the model again and runs no later leg.
#[tokio::test]
async fn a_repetition_in_stop_mode_runs_no_later_leg() {
    let cut = handoff().delay(std::time::Duration::from_millis(1));
    let stop = |config: &mut baton_llm::state::config::Config| config.handoff.mode = HandoffMode::Stop;
    let fixture = Fixture::with(ANTHROPIC, [cut, handoff()], memory(), stop).await;
    fixture.ask(&fixture.history(), true).await;
    fixture.ask(&fixture.history(), true).await;
    let seen = fixture.provider.generations();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].messages().len(), seen[1].messages().len());
}

/// If the leg after a refused call fails for good, the message still ends properly.
#[tokio::test]
async fn a_lost_leg_after_a_refused_call_ends_the_message() {
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
    let once = |config: &mut baton_llm::state::config::Config| config.handoff.retries = 0;
    let fixture = Fixture::with(ANTHROPIC, [refused, busy()], memory(), once).await;
    let response = fixture.send(&fixture.history(), true).await;
    assert!(response.text().contains("message_stop"), "{}", response.text());
}
