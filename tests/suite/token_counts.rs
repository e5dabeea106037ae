//! Token counts: a conversation counts as it would be sent, while only tools count as the agent lists them.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{self, RawResponse};
use crate::matrix::fixture::{Fixture, fresh, handoff};
use crate::matrix::variants::{ANTHROPIC, CODE_ASSIST, GEMINI, RESPONSES, VERTEX, Variant};

/// The variants that have an endpoint for token counts.
const COUNTING: [Variant; 5] = [ANTHROPIC, RESPONSES, GEMINI, CODE_ASSIST, VERTEX];

/// Names of the system prompt's member on the wires.
const SYSTEM: [&str; 3] = ["system", "instructions", "systemInstruction"];

/// Removes the system prompt, wherever the body has it.
fn without_system(body: &mut Value) {
    let Value::Object(members) = body else { return };
    members.retain(|key, _| !SYSTEM.contains(&key.as_str()));
    members.values_mut().for_each(without_system);
}

/// Returns the count of a body through the proxy.
async fn through(fixture: &Fixture, (path, body, number): (&str, &Value, &str)) -> u64 {
    let headers = fixture.variant.headers;
    let response = fixture.baton.post(path, headers, body.to_string().into()).await;
    number_of(&response, number)
}

/// Returns the count of a body without the proxy.
async fn direct(fixture: &Fixture, (path, body, number): (&str, &Value, &str)) -> u64 {
    let directory = fixture.variant.place.map_or("", |(_, directory)| directory);
    let url = format!("{}{directory}{path}", fixture.provider.url());
    let response = harness::post(&url, fixture.variant.headers, body.to_string().into()).await;
    number_of(&response, number)
}

fn number_of(response: &RawResponse, number: &str) -> u64 {
    let found = response.json().pointer(number).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{}", response.text()))
}

/// Claude Code's `/context` sends one user message `foo` with one tool, without a system prompt.
///
/// The session has baton's tool, and the agent sums up these counts.
#[tokio::test]
async fn tools_alone_are_counted_as_listed() {
    for mut variant in COUNTING {
        let headers = [variant.headers, &[("x-session-id", "one")]].concat();
        variant.headers = Box::leak(headers.into_boxed_slice());
        let fixture = Fixture::new(variant, [handoff(), fresh()]).await;
        fixture.ask(&fixture.history(), true).await;
        let (path, mut body, number) = (variant.count.unwrap())(&[fixture.user("foo")]);
        let opening = (path, &body, number);
        let ours = through(&fixture, opening).await - direct(&fixture, opening).await;
        assert!(ours > 100, "a conversation's first request: {ours}");
        without_system(&mut body);
        let probe = (path, &body, number);
        assert_eq!(through(&fixture, probe).await, direct(&fixture, probe).await);
        fixture.assert_clean();
    }
}

/// The stated reason why a request has none of baton's tools.
#[tokio::test]
async fn the_reason_is_reported() {
    let fixture = Fixture::new(ANTHROPIC, []).await;
    let tool = json!({"name": "mcp__parts__find", "input_schema": {"type": "object", "properties": {}}});
    let body = json!({"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "foo"}], "tools": [tool]});
    let path = "/v1/messages/count_tokens?beta=true";
    let response = fixture
        .baton
        .post(path, ANTHROPIC.headers, body.to_string().into())
        .await;
    assert_eq!(response.header("x-baton-untooled"), Some("count_probe"));
    let sent = &fixture.provider.requests()[0];
    assert_eq!(sent.raw, body.to_string().as_bytes(), "unchanged");
}
