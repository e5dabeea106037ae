//! Usage that responses to relayed requests state.

use bytes::Bytes;
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::proxy::testing::{Act, Proxy, Script, config};
use crate::state::config::{ClientKey, Secret};
use crate::state::session::ledger_key;
use crate::state::telemetry::ExchangeEvent;
use baton_core::brake::DAY_MS;

const KEY: &str = "client-key-of-ada";

fn typed(kind: &str, body: &str) -> Act {
    let length = body.len();
    Act::Answer(
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}").into(),
    )
}

/// A proxy for ada, whose day has a budget, before an upstream that answers with these bodies.
async fn start(acts: Vec<Act>) -> (Script, Proxy) {
    let upstream = Script::start(acts).await;
    let mut config = config(&upstream.url);
    for place in config.upstreams.values_mut() {
        place.api_key = Some(Secret::new("sk-the-proxys-own"));
        place.paths = vec!["/v1/embeddings".to_owned()];
    }
    let mut ada = ClientKey {
        name: "ada".to_owned(),
        key: Some(Secret::new(KEY)),
        ..ClientKey::default()
    };
    ada.brake.day.tokens = 1_000_000;
    config.clients = vec![ada];
    (upstream, Proxy::start(config))
}

/// Sends ada's request as its SDK does. Returns the body of the response.
async fn ask(proxy: &Proxy, line: &str, body: &str) -> String {
    let length = body.len();
    let got = proxy
        .raw(format!(
            "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\naccept-encoding: gzip, br\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    got.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Input and output that an exchange counts.
fn tokens(event: &ExchangeEvent) -> (u64, u64) {
    let counted = event.tokens.iter().flatten();
    counted.fold((0, 0), |sum, leg| (sum.0 + leg.all_input(), sum.1 + leg.output))
}

/// Waits until ada's day counts this many tokens.
async fn charged(proxy: &Proxy, expected: u64) {
    let mut spent = None;
    for _ in 0..300 {
        let day = (crate::state::clock::now_ms() / DAY_MS).to_string();
        let key = ledger_key("ada", "day", &day);
        let record = proxy.app.sessions.store().conversation(&key).await.unwrap();
        spent = record.and_then(|record| Some(record.ledger?.spent.tokens));
        if spent == Some(expected) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{spent:?} instead of {expected}");
}

#[tokio::test]
async fn the_usage_of_embeddings_is_the_clients() {
    let answer = r#"{"object":"list","data":[{"embedding":[0.5]}],"model":"e","usage":{"prompt_tokens":8,"total_tokens":8}}"#;
    let (upstream, proxy) = start(vec![typed("application/json", answer)]).await;
    assert_eq!(
        ask(&proxy, "POST /v1/embeddings", r#"{"model":"e","input":"x"}"#).await,
        answer
    );
    assert!(upstream.received()[0].0.contains("accept-encoding: identity"));
    let event = proxy.events(1).await.remove(0);
    assert_eq!(
        (event.client.as_deref(), event.model.as_deref()),
        (Some("ada"), Some("e"))
    );
    assert_eq!(tokens(&event), (8, 0));
    charged(&proxy, 8).await;
}

fn response(status: &str, is_background: bool, usage: serde_json::Value) -> String {
    json!({"id": "resp_1", "object": "response", "status": status, "background": is_background, "model": "m",
        "output": [], "max_output_tokens": null, "usage": usage})
    .to_string()
}

/// However often and in whatever form it is fetched. A request in the background counts as twice its input before.
#[tokio::test]
async fn a_background_response_is_counted_once_when_it_is_fetched() {
    let usage = json!({"input_tokens": 40, "output_tokens": 900, "total_tokens": 940});
    let done = response("completed", true, usage.clone());
    let stream = Bytes::from(format!(
        "event: response.completed\ndata: {{\"type\":\"response.completed\",\"sequence_number\":3,\"response\":{done}}}\n\n"
    ));
    let stream = std::str::from_utf8(&stream).unwrap();
    for streams_first in [false, true] {
        let whole = typed("application/json", &done);
        let streamed = typed("text/event-stream", stream);
        let fetched = match streams_first {
            true => [streamed, whole],
            false => [whole, streamed],
        };
        let mut acts = vec![
            typed("application/json", &response("queued", true, json!(null))),
            typed("application/json", &response("in_progress", true, json!(null))),
        ];
        acts.extend(fetched);
        let (_, proxy) = start(acts).await;
        let body = format!(
            r#"{{"model":"m","background":true,"input":"{}"}}"#,
            "x".repeat(118)
        );
        assert_eq!(body.len(), 160);
        ask(&proxy, "POST /v1/responses", &body).await;
        charged(&proxy, 80).await;
        let query = if streams_first { "?stream=true" } else { "" };
        for target in ["", query, "?stream=true"] {
            ask(&proxy, &format!("GET /v1/responses/resp_1{target}"), "").await;
        }
        let events = proxy.events(4).await;
        let counted: Vec<_> = events.iter().map(tokens).collect();
        assert_eq!(counted, [(0, 0), (0, 0), (40, 900), (0, 0)], "{streams_first}");
        charged(&proxy, 80 + 860).await;
    }
}

/// The store takes a moment for each of the two look-ups.
#[tokio::test]
async fn two_first_fetches_at_once_are_counted_once() {
    let usage = json!({"input_tokens": 40, "output_tokens": 900, "total_tokens": 940});
    let done = typed("application/json", &response("completed", true, usage));
    let mut acts = vec![done; 9];
    acts[0] = typed("application/json", &response("queued", true, json!(null)));
    let (_, proxy) = start(acts).await;
    ask(
        &proxy,
        "POST /v1/responses",
        r#"{"model":"m","background":true,"input":"x"}"#,
    )
    .await;
    let fetches = (0..8).map(|_| ask(&proxy, "GET /v1/responses/resp_1", ""));
    futures_util::future::join_all(fetches).await;
    let events = proxy.events(9).await;
    let counted = events.iter().filter(|event| tokens(event) == (40, 900)).count();
    assert_eq!(counted, 1);
}

/// It was counted when it was made.
#[tokio::test]
async fn a_response_that_was_read_is_not_counted_when_it_is_fetched() {
    let usage = json!({"input_tokens": 40, "output_tokens": 9, "total_tokens": 49});
    let (_, proxy) = start(vec![typed(
        "application/json",
        &response("completed", false, usage),
    )])
    .await;
    let body = r#"{"model":"m","input":"x"}"#;
    ask(&proxy, "POST /v1/responses", body).await;
    ask(&proxy, "GET /v1/responses/resp_1", "").await;
    let events = proxy.events(2).await;
    assert_eq!(events.iter().map(tokens).collect::<Vec<_>>(), [(40, 9), (0, 0)]);
    charged(&proxy, 49).await;
}

/// A body that upstream reads and baton does not.
#[tokio::test]
async fn an_unread_request_is_counted_by_its_response() {
    let answer = r#"{"id":"x","model":"m","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2}}"#;
    let (upstream, mut proxy) = start(vec![typed("application/json", answer)]).await;
    let mut config = (*proxy.app.config).clone();
    config.clients[0].brake = Default::default();
    proxy = Proxy::start(config);
    let twice = r#"{"model":"m","model":"m","messages":[]}"#;
    assert_eq!(ask(&proxy, "POST /v1/chat/completions", twice).await, answer);
    assert_eq!(upstream.received()[0].1, twice.as_bytes());
    assert_eq!(tokens(&proxy.events(1).await[0]), (8, 2));
}

/// A header of the client does not take a request out of its budget.
#[tokio::test]
async fn a_request_in_shadow_mode_is_charged() {
    let answer = r#"{"id":"x","model":"m","choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":8,"completion_tokens":2}}"#;
    let (_, proxy) = start(vec![typed("application/json", answer)]).await;
    let body = r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#;
    assert_eq!(
        ask(&proxy, "POST /h/shadow/v1/chat/completions", body).await,
        answer
    );
    charged(&proxy, 10).await;
}

#[tokio::test]
async fn a_compaction_is_counted() {
    let usage = json!({"input_tokens": 40, "output_tokens": 9, "total_tokens": 49});
    let answer = response("completed", false, usage);
    let (_, proxy) = start(vec![typed("application/json", &answer)]).await;
    let body = r#"{"model":"m","input":"x"}"#;
    assert_eq!(ask(&proxy, "POST /v1/responses/compact", body).await, answer);
    assert_eq!(tokens(&proxy.events(1).await[0]), (40, 9));
    charged(&proxy, 49).await;
}

/// The sign of a subscription takes a request with the proxy's own key out of no bill.
#[tokio::test]
async fn a_client_cannot_claim_a_subscription() {
    let answer = r#"{"id":"x","type":"message","role":"assistant","model":"m","content":[],"stop_reason":"end_turn","usage":{"input_tokens":8,"output_tokens":2}}"#;
    let (_, proxy) = start(vec![typed("application/json", answer)]).await;
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
    let signs = format!(
        "x-api-key: {KEY}\r\nauthorization: Bearer sk-{}-oat01-x\r\nchatgpt-account-id: x\r\n",
        "ant"
    );
    let got = proxy.post("/v1/messages", &signs, body.as_bytes()).await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    let event = proxy.events(1).await.remove(0);
    assert_eq!((event.subscription, tokens(&event)), (false, (8, 2)));
}
