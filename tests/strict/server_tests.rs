//! The provider over a socket.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

async fn send(provider: &Strict, method: Method, path: &str, body: impl Into<Bytes>) -> Response<Incoming> {
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", provider.url()))
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(body.into()))
        .unwrap();
    Client::builder(TokioExecutor::new())
        .build_http()
        .request(request)
        .await
        .unwrap()
}

async fn post(provider: &Strict, body: &Value) -> Response<Incoming> {
    send(provider, Method::POST, "/v1/messages", body.to_string()).await
}

async fn bytes(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn parsed(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&bytes(response).await).unwrap()
}

/// What arrives before the connection breaks; `Err` holds it.
async fn until_broken(response: Response<Incoming>) -> Result<usize, usize> {
    let mut body = response.into_body();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => size += frame.data_ref().map_or(0, Bytes::len),
            Err(_) => return Err(size),
        }
    }
    Ok(size)
}

fn hello(stream: bool) -> Value {
    json!({
        "model": "claude-opus-5-5", "max_tokens": 100, "stream": stream,
        "messages": [{"role": "user", "content": "Hello."}],
    })
}

async fn provider(replies: impl IntoIterator<Item = Reply>) -> Strict {
    Strict::start(Queue::new(replies), Options::default())
        .await
        .unwrap()
}

#[tokio::test]
async fn replies_come_in_order_and_requests_are_recorded() {
    let provider = provider([Reply::text("One."), Reply::text("Two.").in_bytes(1)]).await;
    let first = parsed(post(&provider, &hello(false)).await).await;
    assert_eq!(first["content"][0]["text"], "One.");
    let second = bytes(post(&provider, &hello(true)).await).await;
    assert!(second.ends_with(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    let requests = provider.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].number, requests[1].stream()), (1, true));
    assert_eq!(requests[0].last_user_text().as_deref(), Some("Hello."));
    assert_eq!(provider.complaints(), []);
    assert_eq!(provider.aborted(), 0);
}

#[tokio::test]
async fn a_broken_rule_is_a_400_and_a_complaint() {
    let provider = provider([Reply::text("never")]).await;
    let mut body = hello(false);
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
    let response = send(&provider, Method::POST, "/v1/chat/completions", chat).await;
    assert_eq!(response.status(), 400);
    assert_eq!(provider.complaints()[2].rule, Rule::RepeatedKey);
    assert_eq!(parsed(response).await["error"]["type"], "invalid_request_error");
    let response = send(&provider, Method::POST, "/v1/chat/completions", "{").await;
    assert_eq!(response.status(), 400);
    assert_eq!(provider.complaints()[3].rule, Rule::Json);
}

#[tokio::test]
async fn an_ignored_rule_is_neither_enforced_nor_recorded() {
    let options = Options::default().without(Rule::Prefill);
    let provider = Strict::start(Queue::new([Reply::text("lo.")]), options)
        .await
        .unwrap();
    let mut body = hello(false);
    body["messages"]
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "assistant", "content": "Hel"}));
    assert_eq!(post(&provider, &body).await.status(), 200);
    assert_eq!(provider.complaints(), []);
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
    let mut request = hello(false);
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
    assert_eq!(post(&provider, &hello(false)).await.status(), 400);
    assert_eq!(provider.complaints()[0].rule, Rule::Script);
}

#[tokio::test]
async fn counts_grow_with_the_request_and_agree_with_usage() {
    let provider = provider([Reply::text("One."), Reply::text("Two.")]).await;
    let count = |body: &Value| {
        send(
            &provider,
            Method::POST,
            "/v1/messages/count_tokens?beta=true",
            body.to_string(),
        )
    };
    let mut longer = hello(false);
    let small = parsed(count(&longer).await).await["input_tokens"]
        .as_u64()
        .unwrap();
    let first = parsed(post(&provider, &longer).await).await;
    assert_eq!(first["usage"]["input_tokens"], small);
    longer["messages"][0]["content"] =
        json!([{"type": "text", "text": "Hello."}, {"type": "text", "text": "a ".repeat(200)}]);
    let large = parsed(count(&longer).await).await["input_tokens"]
        .as_u64()
        .unwrap();
    assert!(large >= small + 100);
    let second = parsed(post(&provider, &longer).await).await["usage"].clone();
    assert_eq!(second["cache_read_input_tokens"], small);
    assert_eq!(second["input_tokens"], large - small);
}

#[tokio::test]
async fn each_reply_is_reported_with_the_tokens_that_the_client_reads() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let options = Options::default().watch_replies(move |request, reply, usage| {
        log.lock()
            .unwrap()
            .push((request.number, reply.parts.len(), *usage));
    });
    let provider = Strict::start(Queue::new([Reply::text("One.")]), options)
        .await
        .unwrap();
    let read = parsed(post(&provider, &hello(false)).await).await["usage"].clone();
    let seen = seen.lock().unwrap().clone();
    let [(1, 1, usage)] = seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(read["input_tokens"], usage.input);
    assert_eq!(read["output_tokens"], usage.output);
    assert_eq!(usage.prompt(), usage.input, "nothing was cached");
}

#[tokio::test]
async fn errors_have_the_shape_and_headers_of_the_wire() {
    let busy = Reply::status(529, "Overloaded").retry_after(3);
    let provider = provider([busy.clone(), busy, Reply::failing(Fault::html(502))]).await;
    let response = post(&provider, &hello(true)).await;
    assert_eq!(
        (
            response.status().as_u16(),
            response.headers()["retry-after"].as_bytes()
        ),
        (529, &b"3"[..])
    );
    assert_eq!(parsed(response).await["error"]["type"], "overloaded_error");
    let chat = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
    let response = send(&provider, Method::POST, "/v1/chat/completions", chat).await;
    assert_eq!(parsed(response).await["error"]["type"], "server_error");
    let response = post(&provider, &hello(true)).await;
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    assert!(bytes(response).await.starts_with(b"<html>"));
    assert_eq!(provider.complaints(), []);
}

#[tokio::test]
async fn cuts_break_the_connection_where_requested() {
    let reply = || Reply::text("A text of some length, in several deltas.").thinking("x");
    let cut = |fault| reply().fault(fault);
    let provider = provider([
        cut(Fault::CutAfterBytes(123)),
        cut(Fault::CutAfterBytes(123)).in_bytes(7),
        cut(Fault::EndAfterEvents(1)),
        reply().fault(Fault::CutAfterBytes(50)),
    ])
    .await;
    assert_eq!(until_broken(post(&provider, &hello(true)).await).await, Err(123));
    assert_eq!(until_broken(post(&provider, &hello(true)).await).await, Err(123));
    assert!(until_broken(post(&provider, &hello(true)).await).await.is_ok());
    assert_eq!(until_broken(post(&provider, &hello(false)).await).await, Err(50));
    assert_eq!(
        provider.aborted(),
        0,
        "the script's own cuts are not the client's"
    );
}

#[tokio::test]
async fn no_answer_closes_the_connection() {
    let provider = provider([Reply::failing(Fault::NoAnswer)]).await;
    let request = Request::post(format!("{}/v1/messages", provider.url()))
        .header("anthropic-version", "2023-06-01")
        .body(Full::new(Bytes::from(hello(true).to_string())))
        .unwrap();
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    assert!(client.request(request).await.is_err());
}

#[tokio::test]
async fn faults_inside_a_stream_happen_at_their_place() {
    let kind = "overloaded_error".to_owned();
    let provider = provider([
        Reply::text("Hi.").fault(Fault::ErrorEvent {
            events: 2,
            kind,
            message: "Busy".to_owned(),
        }),
        Reply::text("Hi.").fault(Fault::Oversize {
            events: 1,
            size: 100_000,
        }),
    ])
    .await;
    let error = bytes(post(&provider, &hello(true)).await).await;
    let error = String::from_utf8(error.to_vec()).unwrap();
    let names: Vec<&str> = error
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(names, ["message_start", "ping", "error"]);
    assert!(bytes(post(&provider, &hello(true)).await).await.len() > 100_000);
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_at_every_stage() {
    let stalled = Reply::text("Hi.").fault(Fault::Stall {
        events: 2,
        time: None,
    });
    let slow = Reply::text("Hi.").delay(Duration::from_secs(60));
    let late = Reply::text("Hi.").head_delay(Duration::from_secs(60));
    let provider = provider([stalled, slow, late]).await;
    for aborted in 1..=2 {
        let mut response = post(&provider, &hello(true)).await;
        assert!(response.body_mut().frame().await.unwrap().is_ok());
        assert_eq!(provider.aborted(), aborted - 1);
        drop(response);
        assert!(provider.wait_aborted(aborted).await);
    }
    let waited = tokio::time::timeout(Duration::from_millis(50), post(&provider, &hello(true))).await;
    assert!(waited.is_err());
    assert!(provider.wait_aborted(3).await);
}

#[tokio::test]
async fn a_dropped_provider_closes_its_connections() {
    let provider = provider([Reply::text("Hi.").fault(Fault::Stall {
        events: 1,
        time: None,
    })])
    .await;
    let address = provider.addr();
    let response = post(&provider, &hello(true)).await;
    drop(provider);
    assert!(until_broken(response).await.is_err());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn compressed_bodies_are_read() {
    use async_compression::tokio::bufread::ZstdEncoder;
    use tokio::io::AsyncReadExt;

    let provider = provider([Reply::text("Hi.")]).await;
    let plain = hello(false).to_string();
    let mut packed = Vec::new();
    ZstdEncoder::new(plain.as_bytes())
        .read_to_end(&mut packed)
        .await
        .unwrap();
    let request = Request::post(format!("{}/v1/messages", provider.url()))
        .header("anthropic-version", "2023-06-01")
        .header("content-encoding", "zstd")
        .body(Full::new(Bytes::from(packed.clone())))
        .unwrap();
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    assert_eq!(client.request(request).await.unwrap().status(), 200);
    assert_eq!(provider.requests()[0].raw, packed);
    assert_eq!(provider.requests()[0].body, hello(false));
}

#[tokio::test]
async fn bodies_can_be_gzip_and_carry_further_headers() {
    use async_compression::tokio::bufread::GzipDecoder;
    use tokio::io::AsyncReadExt;

    let limited = Reply::text("Hi.").header("anthropic-ratelimit-requests-remaining", "7");
    let provider = provider([limited, Reply::text("Hi.").gzip()]).await;
    let response = post(&provider, &hello(true)).await;
    assert_eq!(response.headers()["anthropic-ratelimit-requests-remaining"], "7");
    let plain = String::from_utf8(bytes(response).await.to_vec()).unwrap();
    let response = post(&provider, &hello(true)).await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let packed = bytes(response).await;
    let mut unpacked = String::new();
    GzipDecoder::new(&packed[..])
        .read_to_string(&mut unpacked)
        .await
        .unwrap();
    let names = |text: &str| text.lines().filter(|line| line.starts_with("event:")).count();
    assert_eq!(names(&unpacked), names(&plain));
    assert!(unpacked.ends_with("\"message_stop\"}\n\n"));
}

#[tokio::test]
async fn a_provider_that_runs_for_long_keeps_its_last_requests_alone() {
    let options = Options::default().keep_requests(2);
    let provider = Strict::start(|_: &Received| Reply::text("Yes."), options)
        .await
        .unwrap();
    for _ in 0..7 {
        bytes(post(&provider, &hello(false)).await).await;
    }
    let numbers: Vec<usize> = provider.requests().iter().map(|request| request.number).collect();
    assert!((2..=4).contains(&numbers.len()), "{numbers:?}");
    assert_eq!(numbers.last(), Some(&7));
    assert!(provider.complaints().is_empty());
}
