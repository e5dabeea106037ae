//! Responses, Gemini and Ollama over a socket: stored responses, broken streams, refused requests.

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

const SSE: &str = "/v1beta/models/gemini-4-argon:streamGenerateContent?alt=sse";
const ARRAY: &str = "/v1beta/models/gemini-4-argon:streamGenerateContent";

async fn send(provider: &Strict, method: Method, path: &str, body: &Value) -> Response<Incoming> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", provider.url()))
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    client.request(request).await.unwrap()
}

async fn text_of(response: Response<Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn ask(provider: &Strict, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let response = send(provider, method, path, body).await;
    let status = response.status().as_u16();
    (status, serde_json::from_str(&text_of(response).await).unwrap())
}

async fn provider(replies: impl IntoIterator<Item = Reply>) -> Strict {
    let queue = Queue::new(replies);
    Strict::start(queue, Options::default()).await.unwrap()
}

fn hello(path: &str) -> Value {
    match path {
        "/v1/responses" => json!({"model": "m", "input": "Hello.", "stream": true}),
        "/api/chat" => json!({"model": "m", "messages": [{"role": "user", "content": "Hello."}]}),
        _ => json!({"contents": [{"parts": [{"text": "Hello."}]}]}),
    }
}

#[tokio::test]
async fn responses_are_stored_continued_and_deleted() {
    let provider = provider([Reply::text("One."), Reply::text("Two."), Reply::text("Three.")]).await;
    let post = |body: Value| {
        let provider = &provider;
        async move { ask(provider, Method::POST, "/v1/responses", &body).await }
    };
    let (_, first) = post(json!({"model": "m", "input": "Hello."})).await;
    let id = first["id"].as_str().unwrap();
    let next = json!({"model": "m", "input": "And?", "previous_response_id": id});
    let (_, second) = post(next.clone()).await;
    assert_eq!(second["previous_response_id"], id);
    let last = provider.requests().pop().unwrap();
    assert_eq!((last.stored_history.len(), last.turns().len()), (2, 3));
    assert_eq!(last.last_user_text().as_deref(), Some("And?"));
    let path = format!("/v1/responses/{id}");
    assert_eq!(
        ask(&provider, Method::GET, &path, &Value::Null).await,
        (200, first.clone())
    );
    let (_, items) = ask(
        &provider,
        Method::GET,
        &format!("{path}/input_items"),
        &Value::Null,
    )
    .await;
    assert_eq!(items["data"][0]["content"], "Hello.");
    let (_, gone) = ask(&provider, Method::DELETE, &path, &Value::Null).await;
    assert_eq!(gone["deleted"], true);
    let (status, error) = post(next).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &json!("previous_response_not_found"))
    );
    assert_eq!(ask(&provider, Method::GET, &path, &Value::Null).await.0, 404);
    assert_eq!(provider.complaints()[0].rule, Rule::UnknownResponse);
}

#[tokio::test]
async fn unstored_responses_background_and_compaction() {
    let provider = provider([Reply::text("One."), Reply::text("Two.")]).await;
    let body = json!({"model": "m", "input": "Hello.", "store": false});
    let (_, unstored) = ask(&provider, Method::POST, "/v1/responses", &body).await;
    let path = format!("/v1/responses/{}", unstored["id"].as_str().unwrap());
    assert_eq!(ask(&provider, Method::GET, &path, &Value::Null).await.0, 404);
    let body = json!({"model": "m", "input": "Hello.", "background": true});
    let (_, queued) = ask(&provider, Method::POST, "/v1/responses", &body).await;
    assert_eq!(
        (&queued["status"], &queued["output"]),
        (&json!("queued"), &json!([]))
    );
    let path = format!("/v1/responses/{}", queued["id"].as_str().unwrap());
    let (_, done) = ask(&provider, Method::GET, &path, &Value::Null).await;
    assert_eq!(done["output"][0]["content"][0]["text"], "Two.");
    let input = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let body = json!({"model": "m", "input": input});
    let (_, compacted) = ask(&provider, Method::POST, "/v1/responses/compact", &body).await;
    let kinds: Vec<&Value> = compacted["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(kinds, ["message", "compaction"]);
    let (_, counted) = ask(&provider, Method::POST, "/v1/responses/input_tokens", &body).await;
    assert_eq!(counted["object"], "response.input_tokens");
    assert_eq!(provider.complaints(), []);
}

#[tokio::test]
async fn rules_that_do_not_refuse_are_only_recorded() {
    let provider = provider([Reply::new().thinking("Hm.").say("One."), Reply::text("Two.")]).await;
    let mut body = json!({
        "model": "m", "input": [{"role": "user", "content": "Hello."}], "include": ["reasoning.encrypted_content"],
    });
    let (_, first) = ask(&provider, Method::POST, "/v1/responses", &body).await;
    let input = body["input"].as_array_mut().unwrap();
    input.extend(first["output"].as_array().unwrap().clone());
    input.push(json!({"role": "user", "content": "And?"}));
    body["instructions"] = json!("Be quick.");
    let (status, second) = ask(&provider, Method::POST, "/v1/responses", &body).await;
    assert_eq!(
        (status, second["input_transformations"].as_array().unwrap().len()),
        (200, 1)
    );
    let rules: Vec<Rule> = provider
        .complaints()
        .iter()
        .map(|complaint| complaint.rule)
        .collect();
    assert_eq!(rules, [Rule::ReasoningPrefix]);
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
                let (status, _) = ask(&provider, Method::POST, path, &body(turns)).await;
                assert_eq!(status, 200, "{path}");
            }
            let rules: Vec<Rule> = provider.complaints().iter().map(|c| c.rule).collect();
            assert_eq!(rules, vec![Rule::Prefix; notices], "{path} {later:?}");
        }
    }
}

#[tokio::test]
async fn streams_of_every_framing_can_break() {
    for path in ["/v1/responses", SSE, ARRAY, "/api/chat"] {
        let fault = Fault::ErrorEvent {
            events: 2,
            kind: "UNAVAILABLE".to_owned(),
            message: "no more".to_owned(),
        };
        let size = 100_000;
        let long = || Reply::text("One, two, three.").deltas(4);
        let provider = provider([
            long().fault(fault),
            long().fault(Fault::Oversize { events: 1, size }),
            long().fault(Fault::CutAfterEvents(1)),
            Reply::status(429, "slow down").retry_after(3),
            long().in_bytes(3),
        ])
        .await;
        let post = || async { send(&provider, Method::POST, path, &hello(path)).await };
        let broken = text_of(post().await).await;
        assert!(broken.contains("no more"), "{broken}");
        assert!(text_of(post().await).await.len() > size);
        let cut = post().await.into_body().collect().await;
        assert!(cut.is_err(), "{path}");
        let refused = post().await;
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "3");
        let whole = text_of(post().await).await;
        assert!(whole.contains("ee."), "{whole}");
        assert_eq!(provider.complaints(), []);
    }
}

#[tokio::test]
async fn refusals_have_the_shape_of_their_wire() {
    let provider = provider([]).await;
    let empty = json!({"model": "m", "messages": [], "contents": [], "input": []});
    let (status, error) = ask(&provider, Method::POST, SSE, &empty).await;
    assert_eq!(
        (status, &error["error"]["status"]),
        (400, &json!("INVALID_ARGUMENT"))
    );
    let (status, error) = ask(&provider, Method::POST, "/api/chat", &empty).await;
    assert!(status == 400 && error["error"].is_string());
    let (status, error) = ask(&provider, Method::POST, "/v1/responses", &empty).await;
    assert_eq!(
        (status, &error["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    let (status, tags) = ask(&provider, Method::GET, "/api/tags", &Value::Null).await;
    assert_eq!(
        (status, &tags["models"][0]["name"]),
        (200, &json!("strict:latest"))
    );
    let (status, _) = ask(&provider, Method::POST, "/v1beta/models/m:embedContent", &empty).await;
    assert_eq!(status, 404);
}
