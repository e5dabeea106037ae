//! Traces: the spans that a collector receives for a chain of tasks. Tracing never delays an exchange.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_llm::state::telemetry::{ExchangeEvent, Metrics, Traces};
use baton_strict::{Autopilot, Options, Queue, Reply, Strict};
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::anthropic::Anthropic;
use crate::harness::program::{self, Program};
use crate::harness::texts::assert_contains;
use crate::harness::{self, AgentWire, RawResponse};

const KEY: &str = "sk-ant-credential-of-the-agent";

/// Requests to the collector: head and body.
type Got = Arc<Mutex<Vec<(Parts, Bytes)>>>;

/// Starts a collector on a free port.
async fn collector() -> (String, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let got = Got::default();
    let sink = Arc::clone(&got);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sink = Arc::clone(&sink);
            let service = service_fn(move |request: Request<Incoming>| {
                let sink = Arc::clone(&sink);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    sink.lock().unwrap().push((head, body));
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
                }
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    (url, got)
}

fn spans(got: &Got) -> Vec<Span> {
    let got = got.lock().unwrap();
    let requests = got.iter().map(|(head, body)| {
        assert_eq!(head.uri.path(), "/v1/traces");
        assert_eq!(head.headers["content-type"], "application/x-protobuf");
        assert_eq!(head.headers["x-tenant"], "tests");
        ExportTraceServiceRequest::decode(body.clone()).unwrap()
    });
    let resources = requests.flat_map(|request| request.resource_spans);
    let scopes = resources.flat_map(|resource| {
        let names = resource.resource.unwrap().attributes;
        let of = |key| {
            names
                .iter()
                .find(|a| a.key == key)
                .map(|a| text(a.value.as_ref().unwrap().value.as_ref()))
        };
        assert_eq!(of("service.name").as_deref(), Some("baton"));
        // The machine, and the port of the data listener.
        let instance = of("service.instance.id").unwrap();
        let (machine, port) = instance.rsplit_once(':').unwrap();
        assert!(!machine.is_empty() && port.parse::<u16>().is_ok(), "{instance}");
        resource.scope_spans
    });
    let spans = scopes.flat_map(|scope| {
        assert_eq!(scope.schema_url, "https://opentelemetry.io/schemas/1.41.0");
        scope.spans
    });
    spans.collect()
}

fn text(value: Option<&Any>) -> String {
    match value {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::BoolValue(flag)) => flag.to_string(),
        Some(Any::DoubleValue(number)) => number.to_string(),
        Some(Any::ArrayValue(all)) => {
            let all: Vec<_> = all.values.iter().map(|one| text(one.value.as_ref())).collect();
            all.join(",")
        }
        other => panic!("{other:?}"),
    }
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let attributes = span.attributes.iter();
    let read =
        |a: &opentelemetry_proto::tonic::common::v1::KeyValue| text(a.value.as_ref().unwrap().value.as_ref());
    attributes.map(|a| (a.key.as_str(), read(a))).collect()
}

/// The program, with a collector.
struct Served(Program);

impl Served {
    fn start(dir: &std::path::Path, upstream: &str, collector: &str) -> Self {
        Self(Program::launch(&mut Self::command(dir, upstream, collector)))
    }

    fn command(dir: &std::path::Path, upstream: &str, collector: &str) -> Command {
        let mut command = program::serve(dir);
        command
            .env("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", upstream)
            .env("BATON_TELEMETRY__OTLP_ENDPOINT", collector)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=tests");
        command
    }

    async fn ask(&self, history: &[serde_json::Value], stream: bool) -> RawResponse {
        self.send(Anthropic.body(history, stream)).await
    }

    async fn send(&self, body: serde_json::Value) -> RawResponse {
        let url = format!("{}{}", self.0.data, Anthropic.path());
        let mut headers = Anthropic.headers().to_vec();
        headers.retain(|(name, _)| *name != "x-api-key");
        headers.push(("x-api-key", KEY));
        harness::post(&url, &headers, body.to_string().into()).await
    }

    /// Ends the program like a service manager does. It sends the remaining spans first.
    #[cfg(unix)]
    async fn stop(mut self) {
        self.0.signal("-TERM");
        let ended = tokio::task::spawn_blocking(move || self.0.child.wait().unwrap().success());
        assert!(ended.await.unwrap());
    }
}

/// Runs an agent through five tasks, and returns the responses.
async fn five_tasks(served: &Served) -> Vec<RawResponse> {
    let mut history = vec![json!({"role": "user", "content": "Begin softly.\n#task 1/5 steps=2"})];
    let mut heads = Vec::new();
    for turn in 0..30 {
        let stream = turn % 2 == 0;
        let response = served.ask(&history, stream).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let message = Anthropic.parse(&response.raw, stream, response.broken).unwrap();
        heads.push(response);
        history.push(json!({"role": "assistant", "content": message.content}));
        if message.stop.as_deref() != Some("tool_use") {
            return heads;
        }
        let calls = message.content.iter().filter(|block| block["type"] == "tool_use");
        let results: Vec<_> = calls
            .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "done"}))
            .collect();
        history.push(json!({"role": "user", "content": results}));
    }
    panic!("the agent never comes to an end");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_five_is_a_span_each_with_a_child_for_each_leg() {
    let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
    let (url, got) = collector().await;
    let dir = harness::temp();
    let served = Served::start(dir.path(), &provider.url(), &url);
    let heads = five_tasks(&served).await;
    served.stop().await;

    let spans = spans(&got);
    let (roots, legs): (Vec<_>, Vec<_>) = spans.iter().partition(|span| span.parent_span_id.is_empty());
    assert_eq!(roots.len(), heads.len());
    assert_eq!(legs.len(), provider.generations().len());
    assert!(legs.len() > roots.len());
    let mut fired = 0;
    for response in &heads {
        let id = response.header("x-baton-exchange").unwrap();
        let trace = id.replace('-', "");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let root = roots.iter().find(|root| hex(&root.trace_id) == trace).unwrap();
        let message = attributes(root);
        assert_eq!(
            (root.name.as_str(), message["baton.exchange"].as_str()),
            ("exchange", id)
        );
        assert_eq!(message["baton.outcome"], "complete");
        assert_eq!(message["gen_ai.provider.name"], "anthropic");
        assert!(root.start_time_unix_nano > 0 && root.start_time_unix_nano < root.end_time_unix_nano);
        fired += usize::from(message.contains_key("baton.fired"));

        let mut own: Vec<_> = legs.iter().filter(|leg| leg.trace_id == root.trace_id).collect();
        own.sort_by_key(|leg| leg.start_time_unix_nano);
        assert_eq!(message["baton.legs"], own.len().to_string());
        let mut ids = vec![&root.span_id];
        let (mut sent, mut output, mut at) = (0, 0, root.start_time_unix_nano);
        for (index, leg) in own.iter().enumerate() {
            let message = attributes(leg);
            assert_eq!(leg.parent_span_id, root.span_id);
            assert_eq!(leg.name, format!("chat {}", message["gen_ai.request.model"]));
            assert_eq!(message["baton.leg"], (index + 1).to_string());
            assert_eq!(message["server.address"], "127.0.0.1");
            assert!(provider.url().ends_with(&format!(":{}", message["server.port"])));
            assert!(message["gen_ai.response.id"].starts_with("msg_"), "{message:?}");
            assert!(!message["gen_ai.response.model"].is_empty());
            assert!(["stop", "tool_call"].contains(&message["gen_ai.response.finish_reasons"].as_str()));
            assert!(!message.contains_key("error.type"));
            assert!(at <= leg.start_time_unix_nano && leg.start_time_unix_nano <= leg.end_time_unix_nano);
            at = leg.end_time_unix_nano;
            sent += message["baton.sent_bytes"].parse::<u64>().unwrap();
            output += message["gen_ai.usage.output_tokens"].parse::<u64>().unwrap();
            ids.push(&leg.span_id);
        }
        assert_eq!(at, root.end_time_unix_nano);
        assert_eq!(message["baton.sent_bytes"], sent.to_string());
        assert_eq!(message["gen_ai.usage.output_tokens"], output.to_string());
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), own.len() + 1);
    }
    assert_eq!(fired, 4);
    for (head, body) in got.lock().unwrap().iter() {
        for secret in [KEY, "Begin softly", "#task"] {
            assert!(!format!("{head:?}").contains(secret), "{secret}");
            assert!(
                memchr::memmem::find(body, secret.as_bytes()).is_none(),
                "{secret}"
            );
        }
    }
}

/// The span of an exchange has what the brake did, and the limit because of which the provider refused it.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_the_brake_is_in_the_span() {
    let call = Reply::new().call_as("toolu_t1r2", "read_file", json!({"path": "a"}));
    let script = Queue::new([call, Reply::status(429, "Later.").retry_after(60)]);
    let provider = Strict::start(script, Options::default()).await.unwrap();
    let (url, got) = collector().await;
    let dir = harness::temp();
    let mut command = Served::command(dir.path(), &provider.url(), &url);
    let served = Served(Program::launch(command.env("BATON_BRAKE__SESSION_CALLS", "1")));
    let mut history = vec![json!({"role": "user", "content": "Hello."})];
    let first = served.ask(&history, false).await;
    let message = Anthropic.parse(&first.raw, false, false).unwrap();
    history.push(json!({"role": "assistant", "content": message.content}));
    history.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_t1r2", "content": "x"}]}));
    let stopped = served.ask(&history, false).await;
    assert_contains(&stopped.text(), "stopped: the budget");
    let refused = served
        .ask(&[json!({"role": "user", "content": "Another."})], false)
        .await;
    assert_eq!(refused.status, 429);
    served.stop().await;
    let spans = spans(&got);
    let roots = spans.iter().filter(|span| span.parent_span_id.is_empty());
    let mut roots: Vec<_> = roots.collect();
    roots.sort_by_key(|span| span.start_time_unix_nano);
    let of = |at: usize, name: &str| attributes(roots[at]).remove(name);
    assert_eq!(of(0, "baton.brake"), None);
    assert_eq!(of(0, "baton.budgets").as_deref(), Some("session_calls:1"));
    assert_eq!(of(1, "baton.brake").as_deref(), Some("stopped_budget"));
    assert_eq!(of(1, "baton.legs").as_deref(), Some("0"));
    let opens = of(2, "baton.provider_limit").unwrap();
    assert!(opens.starts_with("20") && opens.ends_with('Z'), "{opens}");
}

/// A mistake in a config puts a key in place of the model. Upstream gets it and repeats it in the response.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_the_models_place_is_in_no_span() {
    let script = Queue::new([Reply::text("Fine."), Reply::text("Fine.")]);
    let provider = Strict::start(script, Options::default()).await.unwrap();
    let (url, got) = collector().await;
    let dir = harness::temp();
    let served = Served::start(dir.path(), &provider.url(), &url);
    let key = format!("sk-{}-api03-{}", "ant", "x1Y_".repeat(12));
    for stream in [false, true] {
        let mut body = Anthropic.body(&[json!({"role": "user", "content": "Hello."})], stream);
        body["model"] = json!(key);
        let response = served.send(body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(response.text().contains(&key), "{}", response.text());
    }
    served.stop().await;
    let spans = spans(&got);
    let legs: Vec<_> = spans
        .iter()
        .filter(|span| !span.parent_span_id.is_empty())
        .collect();
    assert_eq!(legs.len(), 2);
    for leg in legs {
        let attributes = attributes(leg);
        for name in ["gen_ai.request.model", "gen_ai.response.model"] {
            assert!(attributes[name].starts_with("[redacted:"), "{attributes:?}");
        }
    }
    for (_, body) in got.lock().unwrap().iter() {
        assert!(memchr::memmem::find(body, key.as_bytes()).is_none());
    }
}

fn event() -> ExchangeEvent {
    ExchangeEvent {
        leg_starts: vec![Duration::ZERO],
        ..ExchangeEvent::new("not-a-uuid", "anthropic", "POST /v1/messages")
    }
}

fn dropped(metrics: &Metrics) -> u64 {
    let text = metrics.text().unwrap();
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("baton_traces_dropped_total "));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn spans_that_no_collector_accepts_are_counted() {
    let metrics = Metrics::new();
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let traces = Traces::start(&format!("http://{closed}"), "here:1".to_owned(), &metrics).unwrap();
    for _ in 0..2 {
        traces.record(&event());
    }
    traces.flush(Duration::from_secs(30)).await;
    assert_eq!(dropped(&metrics), 2);
}

#[tokio::test]
async fn a_collector_that_hangs_is_not_waited_for() {
    let metrics = Metrics::new();
    // A listener that accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let traces = Traces::start(&url, "here:1".to_owned(), &metrics).unwrap();
    for _ in 0..10_000 {
        traces.record(&event());
    }
    assert!(dropped(&metrics) >= 10_000 - 4096);
    let begun = Instant::now();
    traces.flush(Duration::from_millis(50)).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn without_a_collector_no_spans_are_made() {
    let traces = Traces::off();
    traces.record(&event());
    traces.flush(Duration::ZERO).await;
}
