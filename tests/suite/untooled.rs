//! The reason why a request does not get the tool: on the response, in the event, and thus in log, journal
//! and inspector.

use std::sync::atomic::Ordering;

use baton_core::rewrite::untooled::ToolOmission;
use baton_llm::state::config::InjectPolicy;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::fixture::FlakyStore;
use crate::harness::memory;
use crate::matrix::fixture::{Fixture, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::ANTHROPIC;

type Headers = &'static [(&'static str, &'static str)];

const OFF: Headers = &[("x-baton-handoff", "off")];
const PATH: &str = "/v1/messages";

/// Asserts that a request is answered, and that response and event have this reason.
async fn assert_told(stage: &Fixture, path: &str, more: Headers, body: &str, why: Option<ToolOmission>) {
    stage.push(Reply::text("Yes."));
    let before = stage.baton.events(0).await.len();
    let headers = [ANTHROPIC.headers, more].concat();
    let response = stage.baton.post(path, &headers, body.to_owned().into()).await;
    let event = stage.baton.events(before + 1).await.pop().unwrap();
    assert_eq!(event.tooled, event.untooled.is_none(), "{event:?}");
    let told = (response.header("x-baton-untooled"), event.untooled);
    assert_eq!(told, (why.map(ToolOmission::name), why), "{body}");
}

/// A request whose only message is this.
fn saying(text: &str) -> Value {
    (ANTHROPIC.body)(&[(ANTHROPIC.message)("user", text)], true)
}

/// The thinking in the history was made without the tool.
#[tokio::test]
async fn a_bound_history_is_reported() {
    let mut talk = Talk::new(Fixture::new(ANTHROPIC, []).await);
    talk.variant = ANTHROPIC.with_headers(OFF);
    talk.says("Begin.", thought("Yes.")).await;
    talk.history.push(talk.user("Go on."));
    let bound = (ANTHROPIC.body)(&talk.history, true).to_string();
    assert_told(&talk, PATH, &[], &bound, Some(ToolOmission::BoundHistory)).await;
    talk.assert_clean();
}

#[tokio::test]
async fn every_reason_is_reported_and_a_request_with_the_tool_has_none() {
    let stage = Fixture::new(ANTHROPIC, []).await;
    let whole = saying("Mend it.").to_string();
    assert_told(&stage, PATH, &[], &whole, None).await;
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let many: Vec<_> = (0..127).map(|n| tool(&format!("t{n}"))).collect();
    let schema = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
    let class: Headers = &[("x-claude-code-request-class", "compaction")];
    use ToolOmission::*;
    for (headers, key, value, why) in [
        (&[][..], "tools", json!([]), NoClientTools),
        (&[], "tools", many.into(), TooManyTools),
        (&[], "tools", json!([tool("session_handoff")]), NameTaken),
        (&[], "tool_choice", json!({"type": "any"}), ToolChoice),
        (&[], "output_config", schema, StructuredOutput),
        (&[], "max_tokens", json!(500), SmallOutput),
        (&[], "thread", json!("t1"), ServerSideHistory),
        (class, "x", json!(1), Summary),
        (OFF, "x", json!(2), OffByHeader),
    ] {
        // Each in a separate conversation, because the decision is stored.
        let mut body = saying(&format!("{key} {value}"));
        body[key] = value;
        assert_told(&stage, PATH, headers, &body.to_string(), Some(why)).await;
    }
    let repeated = whole.replacen('{', "{\"messages\":[],", 1);
    let function = json!({"type": "function", "name": "t", "parameters": {"type": "object"}});
    let responses = json!({"model": "m", "input": "x", "background": true, "tools": [function]});
    let tools = json!([{"type": "function", "function": function}]);
    let chat = json!({"model": "m", "n": 2, "messages": [{"role": "user", "content": "x"}], "tools": tools});
    for (headers, path, body, why) in [
        (&[("content-digest", "sha-256=:x:")][..], PATH, &*whole, Signed),
        (&[("content-encoding", "x-own")], PATH, &whole, UnreadCoding),
        (&[("content-encoding", "gzip")], PATH, &whole, UnreadCoding),
        (&[], PATH, "{", UnreadJson),
        (&[], PATH, "[]", UnreadShape),
        (&[], PATH, &repeated, UnreadRepeatedKey),
        (&[], "/v1/chat/completions", &chat.to_string(), ManyChoices),
        (&[], "/v1/responses", &responses.to_string(), ServerSideHistory),
    ] {
        assert_told(&stage, path, headers, body, Some(why)).await;
    }
    // Requests without a transcript have no reason.
    let response = stage.baton.post("/v1/files", &[], "x".into()).await;
    assert_eq!(response.header("x-baton-untooled"), None);
}

#[tokio::test]
async fn a_store_that_is_down_and_inject_never_are_reported() {
    let off = |config: &mut baton_llm::state::config::Config| config.handoff.inject = InjectPolicy::Never;
    let never = Fixture::with(ANTHROPIC, [], memory(), off).await;
    let body = saying("Mend it.").to_string();
    assert_told(&never, PATH, &[], &body, Some(ToolOmission::OffByConfig)).await;
    let store = FlakyStore::new(memory());
    let stage = Fixture::with(ANTHROPIC, [], store.clone(), |_| {}).await;
    store.no_writes.store(true, Ordering::SeqCst);
    assert_told(&stage, PATH, &[], &body, Some(ToolOmission::StoreDown)).await;
    store.no_reads.store(true, Ordering::SeqCst);
    let other = saying("another").to_string();
    assert_told(&stage, PATH, &[], &other, Some(ToolOmission::StoreDown)).await;
}
