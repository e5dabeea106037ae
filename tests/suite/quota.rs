//! The account's quota ends in the middle of a response, so no retry helps.
//!
//! After a call that baton answered, the agent gets the provider's error. After a handoff, the response ends
//! with the sentinel, and the next request gets the error.

use baton_strict::{Fault, Reply};
use serde_json::json;

use crate::harness::texts::assert_contains;
use crate::matrix::fixture::{Fixture, handoff};
use crate::matrix::variants::{CHAT, RESPONSES, Variant};

/// A call that is refused because its prompt is empty.
fn refused() -> Reply {
    Reply::new().call("session_handoff", json!({"prompt": ""}))
}

/// The error as the first event of a stream.
fn event() -> Reply {
    Reply::failing(Fault::ErrorEvent {
        events: 0,
        kind: "insufficient_quota".to_owned(),
        message: "you exceeded your current quota".to_owned(),
    })
}

/// The error as a response.
fn status() -> Reply {
    let body = json!({"error": {"message": "you exceeded your current quota", "type": "insufficient_quota",
        "param": null, "code": "insufficient_quota"}});
    Reply::failing(Fault::Raw {
        status: 429,
        content_type: "application/json".to_owned(),
        body: body.to_string().into(),
    })
}

async fn told(variant: Variant, error: Reply, stream: bool) {
    let fixture = Fixture::new(variant, [refused(), error]).await;
    let response = fixture.send(&fixture.history(), stream).await;
    let text = response.text();
    assert_contains(&text, "insufficient_quota");
    assert_contains(&text, "you exceeded");
    let ends_well = ["response.completed", "\"finish_reason\":\"stop\""];
    assert!(!ends_well.iter().any(|end| text.contains(end)), "{text}");
    assert_eq!(response.status, if stream { 200 } else { 429 }, "{text}");
    assert_eq!(fixture.provider.generations().len(), 2, "it was not tried again");
}

#[tokio::test]
async fn after_an_answered_call_the_agent_gets_the_error() {
    for variant in [CHAT, RESPONSES] {
        told(variant, status(), true).await;
        told(variant, status(), false).await;
        told(variant, event(), true).await;
    }
}

#[tokio::test]
async fn after_a_handoff_the_answer_ends_with_the_sentinel() {
    for variant in [CHAT, RESPONSES] {
        for error in [status(), event()] {
            let fixture = Fixture::new(variant, [handoff(), error]).await;
            let answer = fixture.ask(&fixture.history(), true).await;
            assert!(answer.text.contains("[[/handoff-resume:"), "{}", answer.text);
            assert_eq!(fixture.provider.generations().len(), 2);
        }
    }
}
