//! Failures on the path of a request and its response.

use std::time::Duration;

use baton_strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{
    AnthropicFixture, assistant, handoff, handoff_to, history, said, texts, then, user,
};
use crate::harness::{AgentWire, memory, read_until};

use super::carry;

#[tokio::test]
async fn bytes_outside_the_edit_are_the_agents_own() {
    let fixture = AnthropicFixture::new([Reply::text("a")]).await;
    let odd = "{ \"model\":\"m\\u0041\\/\",\"max_tokens\":8192.0,\"big\":12345678901234567890123, \"stream\" : true ,\
               \"messages\":[{\"content\":\"\\u00e9 \\ud83e\\udd80\",\"role\":\"user\"}],\n\"tools\":[{\"name\":\"t\",\
               \"input_schema\":{\"type\":\"object\",\"x\":1.50e+1}} ],\"zz\":null }";
    fixture
        .baton
        .post(Anthropic.path(), Anthropic.headers(), odd.into())
        .await;
    let sent = String::from_utf8(fixture.last().raw.to_vec()).unwrap();
    let (front, back) = odd.split_at(odd.find(" ],\"zz\"").unwrap() + 1);
    assert!(
        sent.starts_with(front.trim_end()) && sent.ends_with(back),
        "{sent}"
    );
    assert!(fixture.last().offers_handoff());
}

#[tokio::test]
async fn results_whose_calls_were_cut_go_and_the_others_stay() {
    let fixture =
        AnthropicFixture::new([handoff(), Reply::new().call_as("c2", "run", json!({"path": "x"}))]).await;
    let message = fixture.turn(&history()).await;
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": id});
    for results in [vec![result("c1"), result("c2")], vec![result("c2"), result("c1")]] {
        fixture.script.push(Reply::text("ok"));
        let answer = json!({"role": "user", "content": results});
        fixture
            .turn(&[&history()[..], &[assistant(&message.content), answer]].concat())
            .await;
        let seen = fixture.last();
        assert_eq!(seen.messages()[2]["content"], json!([result("c2")]));
    }
    // Only a late result remains, so the message is removed.
    fixture.script.push(Reply::text("ok"));
    let upto = message
        .content
        .iter()
        .position(|b| b["type"] == "tool_use")
        .unwrap();
    let late = json!({"role": "user", "content": [result("c1")]});
    fixture
        .turn(
            &[
                &history()[..],
                &[assistant(&message.content[..upto]), late, user("b")],
            ]
            .concat(),
        )
        .await;
    assert_eq!(texts(fixture.last().messages()), [carry().as_str(), "u: b"]);
    fixture.assert_clean();
}

#[tokio::test]
async fn tokens_arrive_as_they_are_produced_and_errors_keep_their_status() {
    let stall = Fault::Stall {
        events: 4,
        time: None,
    };
    let slow = Reply::text("first words").fault(stall);
    let busy = Reply::status(529, "overloaded")
        .retry_after(7)
        .header("anthropic-ratelimit-x", "9");
    let fixture = AnthropicFixture::new([slow, busy]).await;
    let body = Anthropic.body(&history(), true).to_string();
    let response = fixture
        .baton
        .open(Anthropic.path(), Anthropic.headers(), body.into())
        .await;
    let read = tokio::time::timeout(Duration::from_secs(5), read_until(response, "first words")).await;
    assert!(read.is_ok(), "held back");
    // Upstream's response reaches the agent byte for byte.
    let reply = fixture.ask(&history()).await;
    assert_eq!((reply.status, reply.header("retry-after")), (529, Some("7")));
    assert_eq!(reply.header("anthropic-ratelimit-x"), Some("9"));
    assert!(reply.header("request-id").is_some());
    assert_eq!(
        reply.json()["error"],
        json!({"type": "overloaded_error", "message": "overloaded"})
    );
}

#[tokio::test]
async fn keep_alives_are_sent_and_a_dead_upstream_is_detected() {
    let pause = Duration::from_millis(600);
    let quick = |c: &mut baton_llm::state::config::Config| c.handoff.keepalive = Duration::from_millis(50);
    let stalled = |time| Fault::Stall { events: 12, time };
    let hidden = handoff().deltas(4).fault(stalled(Some(pause)));
    let fixture = AnthropicFixture::with([hidden, Reply::text("Fresh.")], memory(), quick).await;
    assert!(
        fixture.turn(&history()).await.pings >= 5,
        "while arguments are hidden"
    );
    fixture.script.push(handoff());
    fixture.script.push(Reply::text("Fresh.").head_delay(pause));
    let message = fixture.turn(&history()).await;
    assert!(message.pings >= 5, "while leg 2 is awaited: {}", message.pings);
    // No keep-alives are added between visible tokens.
    fixture.script.push(Reply::text("Hi there.").fault(Fault::Stall {
        events: 4,
        time: Some(pause),
    }));
    assert_eq!(fixture.turn(&history()).await.pings, 1);

    let dead = handoff().deltas(4).fault(stalled(None));
    let fixture = AnthropicFixture::with([dead], memory(), |c| {
        quick(c);
        c.upstreams.get_mut("anthropic").unwrap().idle = Duration::from_millis(400);
    })
    .await;
    let response = fixture.ask(&history()).await;
    assert!(
        response.broken,
        "pings must not hide that upstream is dead: {}",
        response.text()
    );
}

#[tokio::test]
async fn chains_and_refusals_are_bounded() {
    let fixture = AnthropicFixture::new((0..8).map(|n| handoff_to(&format!("again {n}")))).await;
    let message = fixture.turn(&history()).await;
    assert_eq!(
        (fixture.script.left(), message.stop.as_deref()),
        (0, Some("end_turn"))
    );
    let sentinels = said(&message)
        .iter()
        .filter(|t| t.contains("[[handoff-resume:"))
        .count();
    assert_eq!(sentinels, 7);
    for _ in 0..3 {
        fixture
            .script
            .push(Reply::text("Well.").call("session_handoff", json!({"prompt": ""})));
    }
    let message = fixture.turn(&history()).await;
    assert_eq!(
        (fixture.script.left(), message.stop.as_deref()),
        (0, Some("end_turn"))
    );
    fixture.assert_clean();
}

#[tokio::test]
async fn compressed_answers_reach_the_agent_plain() {
    let fixture = AnthropicFixture::new([
        handoff().gzip(),
        Reply::text("Fresh.").gzip(),
        Reply::text("x").gzip(),
    ])
    .await;
    let message = fixture.turn(&history()).await;
    assert_eq!(said(&message).last(), Some(&"Fresh."));
    let response = fixture.ask(&then(&history(), &message, "More.")).await;
    assert_eq!(response.header("content-encoding"), None);
    assert!(response.text().contains("message_stop"));
}
