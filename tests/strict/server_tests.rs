//! The provider over a socket: what it refuses and records.
//!
//! The suite holds what it sends, because its agents parse strictly.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

async fn send(provider: &Strict, path: &str, body: impl Into<Bytes>) -> Response<Incoming> {
    let request = Request::post(format!("{}{path}", provider.url()))
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(body.into()))
        .unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    client.request(request).await.unwrap()
}

async fn post(provider: &Strict, body: &Value) -> Response<Incoming> {
    send(provider, "/v1/messages", body.to_string()).await
}

async fn parsed(response: Response<Incoming>) -> Value {
    let body = response.into_body().collect().await.unwrap();
    serde_json::from_slice(&body.to_bytes()).unwrap()
}

fn hello() -> Value {
    json!({
        "model": "claude-opus-5-5", "max_tokens": 100, "stream": false,
        "messages": [{"role": "user", "content": "Hello."}],
    })
}

async fn provider(replies: impl IntoIterator<Item = Reply>) -> Strict {
    Strict::start(Queue::new(replies), Options::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_broken_rule_is_a_400_and_a_complaint() {
    let provider = provider([Reply::text("never")]).await;
    let mut body = hello();
    body["messages"] = json!([{"role": "assistant", "content": "Hello."}]);
    let response = post(&provider, &body).await;
    assert_eq!(response.status(), 400);
    let error = parsed(response).await;
    assert_eq!(error["error"]["type"], "invalid_request_error");
    let complaints = provider.complaints();
    let rules: Vec<Rule> = complaints.iter().map(|complaint| complaint.rule).collect();
    assert_eq!(rules, [Rule::FirstRole, Rule::Prefill]);
    assert_eq!(error["error"]["message"], complaints[0].message.as_str());

    let chat = r#"{"model":"m","messages":[],"messages":[{"role":"user","content":"x"}]}"#;
    let response = send(&provider, "/v1/chat/completions", chat).await;
    assert_eq!(response.status(), 400);
    assert_eq!(provider.complaints()[2].rule, Rule::RepeatedKey);
    assert_eq!(parsed(response).await["error"]["type"], "invalid_request_error");
    let response = send(&provider, "/v1/chat/completions", "{").await;
    assert_eq!(response.status(), 400);
    assert_eq!(provider.complaints()[3].rule, Rule::Json);
}

#[tokio::test]
async fn a_complaint_about_tools_names_what_changed() {
    let provider = provider([Reply::text("One."), Reply::text("Two."), Reply::text("Three.")]).await;
    let tool =
        |name: &str, schema: Value| json!({"name": name, "description": "A tool.", "input_schema": schema});
    let skill = |names: Value| {
        let properties = json!({"name": {"type": "string", "enum": names}});
        tool("skill", json!({"type": "object", "properties": properties}))
    };
    let look = tool("look", json!({"type": "object"}));
    let mut request = hello();
    request["tools"] = json!([look, skill(json!(["a", "b"]))]);
    post(&provider, &request).await;
    request["messages"] = json!([
        {"role": "user", "content": "Hello."}, {"role": "assistant", "content": "One."}, {"role": "user", "content": "Go on."},
    ]);
    for tools in [json!([look, skill(json!(["b", "a"]))]), json!([look])] {
        request["tools"] = tools;
        post(&provider, &request).await;
    }
    let goes_on = "request that this one goes on from";
    let complaints: Vec<String> = provider
        .complaints()
        .iter()
        .map(|complaint| complaint.message.clone())
        .collect();
    assert_eq!(
        complaints,
        [
            format!("tools: another definition of [skill] than in the {goes_on}"),
            format!("tools: [look], and [look, skill] in the {goes_on}"),
        ]
    );
}

#[tokio::test]
async fn a_script_that_is_too_short_is_a_complaint() {
    let provider = provider([]).await;
    assert_eq!(post(&provider, &hello()).await.status(), 400);
    assert_eq!(provider.complaints()[0].rule, Rule::Script);
}

/// Whatever is put in front of a reply, taken out or moved there is noticed when the reply comes back.
#[tokio::test]
async fn another_prefix_is_noticed_where_requested() {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let part = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
    for path in [
        "/v1/chat/completions",
        "/v1/responses",
        "/api/chat",
        "/v1beta/models/m:generateContent",
    ] {
        let gemini = path.contains("generate");
        let says = |role: &str, text: &str| match gemini {
            true => part(if role == "user" { role } else { "model" }, text),
            false => message(role, text),
        };
        let body = |turns: &[Value]| match path {
            "/v1/responses" => json!({"model": "m", "input": turns}),
            _ if gemini => json!({"contents": turns}),
            _ => json!({"model": "m", "messages": turns, "stream": false}),
        };
        let turns_sent = [says("user", "One."), says("user", "Notice.")];
        let next = [
            &turns_sent[..],
            &[says("assistant", "Two."), says("user", "Three.")],
        ]
        .concat();
        let moved = [&next[..1], &next[2..], &next[1..2]].concat();
        for (later, notices) in [(&next, 0), (&next[1..].to_vec(), 1), (&moved, 1)] {
            let script = Queue::new([Reply::text("Two."), Reply::text("Four.")]);
            let provider = Strict::start(script, Options::default().prefixes())
                .await
                .unwrap();
            for turns in [&turns_sent.to_vec(), later] {
                let response = send(&provider, path, body(turns).to_string()).await;
                assert_eq!(response.status(), 200, "{path}");
            }
            let rules: Vec<Rule> = provider.complaints().iter().map(|c| c.rule).collect();
            assert_eq!(rules, vec![Rule::Prefix; notices], "{path} {later:?}");
        }
    }
}
