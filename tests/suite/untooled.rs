//! The reason why a request does not get the tool: on the response, in the event, and thus in log, journal
//! and inspector.

use std::sync::atomic::Ordering;

use baton_core::rewrite::untooled::ToolOmission;
use baton_llm::state::config::{Config, InjectPolicy};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{AnthropicFixture, FlakyStore, history, then, user};
use crate::harness::{AgentWire, memory};

type Headers = &'static [(&'static str, &'static str)];

const OFF: Headers = &[("x-baton-handoff", "off")];

/// Returns the response header, and the reason in the event.
async fn message(
    fixture: &AnthropicFixture,
    path: &str,
    more: Headers,
    body: String,
) -> (Option<String>, Option<ToolOmission>) {
    let before = fixture.baton.events(0).await.len();
    let headers = [Anthropic.headers(), more].concat();
    let response = fixture.baton.post(path, &headers, body.into()).await;
    let event = fixture.baton.events(before + 1).await.pop().unwrap();
    assert_eq!(event.tooled, event.untooled.is_none(), "{event:?}");
    (
        response.header("x-baton-untooled").map(str::to_owned),
        event.untooled,
    )
}

async fn is_told(fixture: &AnthropicFixture, path: &str, more: Headers, body: String, why: ToolOmission) {
    let found = message(fixture, path, more, body.clone()).await;
    assert_eq!(found, (Some(why.name().to_owned()), Some(why)), "{body}");
}

async fn fixture(change: impl FnOnce(&mut Config)) -> AnthropicFixture {
    let replies = (0..40).map(|_| Reply::text("Yes."));
    AnthropicFixture::with(replies, memory(), change).await
}

/// The thinking in the history was made without the tool.
#[tokio::test]
async fn a_bound_history_is_reported() {
    let replies = [Reply::new().thinking("Hm.").say("Yes."), Reply::text("Yes.")];
    let fixture = AnthropicFixture::with(replies, memory(), |_| {}).await;
    let (path, begun) = (Anthropic.path(), [user("Begin.")]);
    let body = Anthropic.body(&begun, true).to_string();
    let headers = [Anthropic.headers(), OFF].concat();
    let response = fixture.baton.post(path, &headers, body.into()).await;
    let message = Anthropic.parse(&response.raw, true, false).unwrap();
    let bound = Anthropic.body(&then(&begun, &message, "Go on."), true);
    is_told(&fixture, path, &[], bound.to_string(), ToolOmission::BoundHistory).await;
    assert_eq!(fixture.provider.complaints(), []);
}

#[tokio::test]
async fn every_reason_is_reported_and_a_request_with_the_tool_has_none() {
    let fixture = fixture(|_| {}).await;
    let path = Anthropic.path();
    let good = Anthropic.body(&history(), true);
    let found = message(&fixture, path, &[], good.to_string()).await;
    assert_eq!(found, (None, None));
    let with = |key: &str, value: Value| {
        // Each in a separate conversation, because the decision is stored.
        let mut body = Anthropic.body(&[user(&format!("{key} {value}"))], true);
        body[key] = value;
        body.to_string()
    };
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let many: Vec<_> = (0..127).map(|n| tool(&format!("t{n}"))).collect();
    let schema = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
    let class: Headers = &[("x-claude-code-request-class", "compaction")];
    let digest: Headers = &[("content-digest", "sha-256=:x:")];
    let coded: Headers = &[("content-encoding", "x-own")];
    let broken: Headers = &[("content-encoding", "gzip")];
    let whole = good.to_string();
    let table = [
        (&[][..], with("tools", json!([])), ToolOmission::NoClientTools),
        (&[], with("tools", many.into()), ToolOmission::TooManyTools),
        (
            &[],
            with("tools", json!([tool("session_handoff")])),
            ToolOmission::NameTaken,
        ),
        (
            &[],
            with("tool_choice", json!({"type": "any"})),
            ToolOmission::ToolChoice,
        ),
        (&[], with("output_config", schema), ToolOmission::StructuredOutput),
        (&[], with("max_tokens", json!(500)), ToolOmission::SmallOutput),
        (&[], with("thread", json!("t1")), ToolOmission::ServerSideHistory),
        (class, with("x", json!(1)), ToolOmission::Summary),
        (OFF, with("x", json!(2)), ToolOmission::OffByHeader),
        (digest, whole.clone(), ToolOmission::Signed),
        (coded, whole.clone(), ToolOmission::UnreadCoding),
        (broken, whole.clone(), ToolOmission::UnreadCoding),
        (&[], "{".to_owned(), ToolOmission::UnreadJson),
        (&[], "[]".to_owned(), ToolOmission::UnreadShape),
        (
            &[],
            whole.replacen('{', "{\"messages\":[],", 1),
            ToolOmission::UnreadRepeatedKey,
        ),
    ];
    for (headers, body, why) in table {
        is_told(&fixture, path, headers, body, why).await;
    }
    let chat = json!({"model": "m", "n": 2, "messages": history(), "tools": [{"type": "function",
        "function": {"name": "t", "parameters": {"type": "object"}}}]});
    let responses = json!({"model": "m", "input": "x", "background": true, "tools": [{"type": "function",
        "name": "t", "parameters": {"type": "object"}}]});
    is_told(
        &fixture,
        "/v1/chat/completions",
        &[],
        chat.to_string(),
        ToolOmission::ManyChoices,
    )
    .await;
    is_told(
        &fixture,
        "/v1/responses",
        &[],
        responses.to_string(),
        ToolOmission::ServerSideHistory,
    )
    .await;
    // Requests without a transcript have no reason.
    let response = fixture.baton.post("/v1/files", &[], "x".into()).await;
    assert_eq!(response.header("x-baton-untooled"), None);
}

#[tokio::test]
async fn a_store_that_is_down_and_inject_never_are_reported() {
    let never = fixture(|config| config.handoff.inject = InjectPolicy::Never).await;
    let body = Anthropic.body(&history(), true).to_string();
    is_told(
        &never,
        Anthropic.path(),
        &[],
        body.clone(),
        ToolOmission::OffByConfig,
    )
    .await;
    let store = FlakyStore::new(memory());
    let replies = [Reply::text("Yes."), Reply::text("Yes.")];
    let fixture = AnthropicFixture::with(replies, store.clone(), |_| {}).await;
    store.no_writes.store(true, Ordering::SeqCst);
    is_told(
        &fixture,
        Anthropic.path(),
        &[],
        body.clone(),
        ToolOmission::StoreDown,
    )
    .await;
    store.no_reads.store(true, Ordering::SeqCst);
    let other = Anthropic.body(&[user("another")], true).to_string();
    is_told(&fixture, Anthropic.path(), &[], other, ToolOmission::StoreDown).await;
}
