//! Failing responses: an error in a body with a status of success, or a failure before the first byte.

use bytes::Bytes;
use pretty_assertions::assert_eq;

use crate::proxy::testing::{Act, Proxy, Script, config};
use crate::state::telemetry::ExchangeOutcome;

/// Path of a stream, path of a reply, and a request of one wire.
type WireRequest = (&'static str, &'static str, &'static str);

const ANTHROPIC: WireRequest = (
    "/v1/messages",
    "/v1/messages",
    r#"{"model":"m","max_tokens":9,"stream":STREAM,"messages":[{"role":"user","content":"x"}]}"#,
);
const CHAT: WireRequest = (
    "/v1/chat/completions",
    "/v1/chat/completions",
    r#"{"model":"m","stream":STREAM,"messages":[{"role":"user","content":"x"}]}"#,
);
const RESPONSES: WireRequest = (
    "/v1/responses",
    "/v1/responses",
    r#"{"model":"m","stream":STREAM,"input":"x"}"#,
);
const GEMINI: WireRequest = (
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/v1beta/models/m:generateContent",
    r#"{"contents":[{"role":"user","parts":[{"text":"x"}]}]}"#,
);
const OLLAMA: WireRequest = (
    "/api/chat",
    "/api/chat",
    r#"{"model":"m","stream":STREAM,"messages":[{"role":"user","content":"x"}]}"#,
);

fn answer(kind: &str, more: &str, body: &[u8]) -> Bytes {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{more}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat().into()
}

async fn start(bytes: Bytes) -> Proxy {
    let upstream = Script::start(vec![Act::Answer(bytes)]).await;
    let mut config = config(&upstream.url);
    let ollama = config.upstreams["openai"].clone();
    config.upstreams.insert("ollama".to_owned(), ollama);
    Proxy::start(config)
}

/// Body that the agent got, and the outcome of the exchange.
async fn ask(request: WireRequest, stream: bool, bytes: Bytes) -> (String, ExchangeOutcome) {
    let proxy = start(bytes).await;
    let path = if stream { request.0 } else { request.1 };
    let body = request.2.replace("STREAM", if stream { "true" } else { "false" });
    let got = proxy.post(path, "", body.as_bytes()).await;
    (got, proxy.events(1).await[0].outcome)
}

fn dechunked(got: &str) -> String {
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let mut text = String::new();
    let mut rest = body;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    text
}

#[tokio::test]
async fn an_error_in_a_stream_that_began_well_is_no_complete_answer() {
    let sse = "text/event-stream";
    let table = [
        (
            ANTHROPIC,
            sse,
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n\
             event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
        ),
        (
            ANTHROPIC,
            sse,
            "data: {\"error\":{\"message\":\"a gateway's own\"}}\n\n",
        ),
        (
            CHAT,
            sse,
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\
             data: {\"error\":{\"message\":\"busy\"}}\n\ndata: [DONE]\n\n",
        ),
        (CHAT, sse, "data: {\"error\":{\"message\":\"busy\"}}\n\n"),
        (
            RESPONSES,
            sse,
            "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":\
             {\"id\":\"r\",\"status\":\"in_progress\",\"output\":[]}}\n\nevent: response.failed\ndata: {\"type\":\
             \"response.failed\",\"sequence_number\":1,\"response\":{\"id\":\"r\",\"status\":\"failed\",\"output\":[],\
             \"error\":{\"code\":\"server_error\",\"message\":\"busy\"}}}\n\n",
        ),
        (
            RESPONSES,
            sse,
            "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"x\",\"message\":\"busy\"}\n\n",
        ),
        (
            RESPONSES,
            sse,
            "data: {\"error\":{\"message\":\"a gateway's own\"}}\n\n",
        ),
        (
            GEMINI,
            sse,
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n\
             data: {\"error\":{\"code\":503,\"status\":\"UNAVAILABLE\"}}\n\n",
        ),
        (
            OLLAMA,
            "application/x-ndjson",
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":false}\n\
             {\"error\":\"an error was encountered while running the model\"}\n",
        ),
    ];
    for (request, kind, body) in table {
        let (got, outcome) = ask(request, true, answer(kind, "", body.as_bytes())).await;
        assert_eq!(outcome, ExchangeOutcome::InBandError, "{}: {got}", request.0);
        assert_eq!(dechunked(&got), body, "told to the agent as it came");
    }
}

#[tokio::test]
async fn a_stream_without_an_error_is_complete() {
    let table = [
        (
            GEMINI,
            "text/event-stream",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}],\"error\":null}\n\n",
        ),
        (
            OLLAMA,
            "application/x-ndjson",
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":true,\"error\":null}\n",
        ),
    ];
    for (request, kind, body) in table {
        let (got, outcome) = ask(request, true, answer(kind, "", body.as_bytes())).await;
        assert_eq!(outcome, ExchangeOutcome::Complete, "{}: {got}", request.0);
        assert_eq!(dechunked(&got), body);
    }
}

#[tokio::test]
async fn an_error_as_a_whole_reply_is_no_complete_answer() {
    let table = [
        (
            ANTHROPIC,
            r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#,
        ),
        (CHAT, r#"{"error":{"message":"x","type":"server_error"}}"#),
        (
            CHAT,
            r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"error"}]}"#,
        ),
        (
            RESPONSES,
            r#"{"id":"r","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}"#,
        ),
        (GEMINI, r#"{"error":{"code":500,"status":"INTERNAL"}}"#),
        (OLLAMA, r#"{"error":"model not found"}"#),
    ];
    for (request, body) in table {
        let (got, outcome) = ask(request, false, answer("application/json", "", body.as_bytes())).await;
        assert_eq!(outcome, ExchangeOutcome::InBandError, "{}: {got}", request.1);
        assert_eq!(dechunked(&got), body);
    }
    let well = r#"{"id":"r","status":"completed","error":null,"output":[]}"#;
    let (_, outcome) = ask(RESPONSES, false, answer("application/json", "", well.as_bytes())).await;
    assert_eq!(outcome, ExchangeOutcome::Complete);
}

#[tokio::test]
async fn an_answer_that_fails_before_its_first_byte_is_a_502_of_the_wire() {
    let bad_chunk = |kind: &str| {
        Bytes::from(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nno\r\n"
        ))
    };
    let wires = [
        (ANTHROPIC, "/error/type", "api_error"),
        (CHAT, "/error/type", "server_error"),
        (RESPONSES, "/error/type", "server_error"),
        (GEMINI, "/error/status", "UNAVAILABLE"),
        (OLLAMA, "/error", ""),
    ];
    for (request, place, message) in wires {
        for stream in [true, false] {
            let kind = match stream {
                true if request.0 == OLLAMA.0 => "application/x-ndjson",
                true => "text/event-stream",
                false => "application/json",
            };
            let false_gzip = answer(kind, "content-encoding: gzip\r\n", b"this is no gzip at all");
            let cut_off = "HTTP/1.1 200 OK\r\ncontent-type: KIND\r\ncontent-length: 99\r\n\r\n";
            let cut_off = Bytes::from(cut_off.replace("KIND", kind));
            let cases = [
                (false_gzip, "upstream_unreadable"),
                (bad_chunk(kind), "upstream_closed"),
                (cut_off, "upstream_closed"),
            ];
            for (bytes, code) in cases {
                let (got, outcome) = ask(request, stream, bytes).await;
                assert!(got.starts_with("HTTP/1.1 502 "), "{}: {got:?}", request.0);
                assert!(got.contains(&format!("x-baton-error: {code}\r\n")), "{got}");
                assert!(got.contains("x-baton-exchange: "), "{got}");
                let body: serde_json::Value = serde_json::from_str(&dechunked(&got)).unwrap();
                let found = body.pointer(place).unwrap().as_str().unwrap();
                assert!(found == message || message.is_empty(), "{body}");
                assert_eq!(outcome, ExchangeOutcome::Refused);
            }
        }
    }
    // The same holds for a response that is relayed unread.
    let proxy = start(bad_chunk("text/plain")).await;
    let got = proxy.post("/v1/files", "", b"x").await;
    assert!(got.starts_with("HTTP/1.1 502 "), "{got:?}");
}

#[tokio::test]
async fn an_answer_that_fails_after_its_first_byte_is_cut_off() {
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let bytes = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
         {:x}\r\n{ping}\r\nzz\r\n",
        ping.len()
    );
    let (got, outcome) = ask(ANTHROPIC, true, bytes.into()).await;
    assert!(got.starts_with("HTTP/1.1 200 ") && got.contains(ping), "{got:?}");
    assert_eq!(outcome, ExchangeOutcome::Truncated);
}

/// A response whose head has this many lines of this many bytes.
fn long_head(lines: usize, bytes: usize) -> Bytes {
    let more: String = (0..lines)
        .map(|n| format!("x-policy-{n}: {}\r\n", "v".repeat(bytes)))
        .collect();
    answer("application/json", &more, b"{}")
}

#[tokio::test]
async fn a_long_head_is_relayed_and_one_over_the_limits_is_named() {
    let limit = config("http://127.0.0.1:9").limits.header_bytes;
    for (head, relayed) in [
        (long_head(200, 10), true),
        (long_head(1, limit / 2), true),
        (long_head(300, 10), false),
        (long_head(1, 2 * limit), false),
        (long_head(200, limit / 100), false),
    ] {
        for request in [ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA] {
            let (got, _) = ask(request, false, head.clone()).await;
            if relayed {
                let is_relayed = got.starts_with("HTTP/1.1 200") && got.contains("x-policy-0: v");
                assert!(is_relayed, "{got}");
                continue;
            }
            assert!(got.starts_with("HTTP/1.1 502"), "{got}");
            assert!(got.contains("x-baton-error: upstream_head_too_large"), "{got}");
            assert!(got.contains("x-should-retry: false"), "{got}");
        }
    }
}

#[tokio::test]
async fn a_head_that_is_no_http_is_unreadable() {
    let (got, _) = ask(ANTHROPIC, false, Bytes::from_static(b"SSH-2.0-OpenSSH_9.6\r\n")).await;
    assert!(got.contains("x-baton-error: upstream_unreadable"), "{got}");
}
