//! Failures on the path of a request and its response.

use std::time::Duration;

use baton_strict::{Fault, Reply};
use pretty_assertions::assert_eq;

use crate::harness::fixture::{AnthropicFixture, handoff, history, said, then};
use crate::harness::memory;

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
