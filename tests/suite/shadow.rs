//! `handoff.inject = "shadow"`, by the config and by a run's URL.
//!
//! Upstream gets exactly the agent's bytes, and the agent exactly upstream's. Only the moments for a handoff
//! are recorded.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use baton_core::nudge::NudgeOutcome;
use baton_core::rewrite::untooled::ToolOmission;
use baton_llm::state::config::{Config, InjectPolicy};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::texts::{assert_contains, assert_lacks};
use crate::harness::{Baton, config, memory};

/// A server that responds to every request with the same bytes, and records the bodies.
struct Upstream {
    addr: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Upstream {
    async fn start(kind: &'static str, answer: Bytes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bodies);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = Vec::new();
                let body = loop {
                    if let Some(body) = body_of(&read) {
                        break body;
                    }
                    if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                        break Vec::new();
                    }
                };
                kept.lock().unwrap().push(body);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).await;
                // In pieces that do not coincide with events.
                for piece in answer.chunks(97) {
                    let _ = stream.write_all(piece).await;
                }
            }
        });
        Self { addr, bodies }
    }

    fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

/// Returns the body of a complete request.
fn body_of(read: &[u8]) -> Option<Vec<u8>> {
    let end = read.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
    let length = head.split("content-length:").nth(1)?.lines().next()?.trim();
    let body = read.get(end..end + length.parse::<usize>().ok()?)?;
    Some(body.to_vec())
}

fn shadow(url: &str, change: impl FnOnce(&mut Config)) -> Baton {
    let mut config = config(url);
    config.handoff.inject = InjectPolicy::Shadow;
    config.commands.prefix = "::".to_owned();
    change(&mut config);
    Baton::start(config, memory())
}

fn golden(name: &str) -> Bytes {
    let path = format!("{}/tests/golden/anthropic/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap().into()
}

/// Requests with content that baton would otherwise act on, in any spelling.
fn bodies() -> impl Strategy<Value = String> {
    let blank = prop::sample::select(vec!["", " ", "\n\t"]);
    let text = prop::sample::select(vec![
        "Mend it.",
        "::handoff",
        "::handoff status",
        "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\\n*Handed over.*\\n\\nGo on.\\n[[/handoff-resume:x]]",
        "caf\\u00e9 \\ud83d\\ude00",
    ]);
    let more = prop::sample::select(vec!["", "\"metadata\":{\"user_id\":\"u\"},", "\"x\":1.50,"]);
    (blank, text.clone(), text, more, any::<bool>()).prop_map(|(blank, first, last, more, tools)| {
        let tools = if tools { "\"tools\":[{\"name\":\"Bash\",\"input_schema\":{\"type\":\"object\"}}]," } else { "" };
        format!(
            "{{{blank}\"model\":\"claude-sonnet-4-5\",{more}{tools}\"max_tokens\":{blank}9000,\"stream\":true,\"messages\":[{blank}\
             {{\"role\":\"user\",\"content\":\"{first}\"}},{{\"role\":\"assistant\",\"content\":\"{last}\"}},{{\"role\":\"user\",\"content\":\"{last}\"}}]}}{blank}"
        )
    })
}

#[test]
fn what_upstream_gets_is_what_the_agent_sent_and_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    // A stream with a call of the handoff tool, which shadow mode does not hide.
    for answer in [golden("03_leg1.sse"), golden("21_mixed_to_agent.sse")] {
        let upstream = runtime.block_on(Upstream::start("text/event-stream", answer.clone()));
        let always = runtime.block_on(async { shadow(&upstream.url(), |_| ()) });
        let by_url = runtime.block_on(async {
            shadow(&upstream.url(), |config| {
                config.handoff.inject = InjectPolicy::Always
            })
        });
        let mut runner = TestRunner::new(Cases::with_cases(20));
        let run = runner.run(&bodies(), |body| {
            for (baton, path) in [(&always, "/v1/messages"), (&by_url, "/h/shadow/v1/messages")] {
                let shown = runtime.block_on(baton.post(path, &[], body.clone().into()));
                prop_assert_eq!(shown.raw.as_slice(), &answer[..]);
                let sent = upstream.bodies.lock().unwrap().pop().unwrap();
                prop_assert_eq!(String::from_utf8_lossy(&sent).into_owned(), body.clone());
            }
            Ok(())
        });
        run.unwrap();
    }
}

#[tokio::test]
async fn a_reply_in_one_piece_is_relayed_and_counted() {
    let answer = golden("02_response_handoff.json");
    let upstream = Upstream::start("application/json", answer.clone()).await;
    let baton = shadow(&upstream.url(), |_| ());
    let body = golden("00_request_agent.json");
    let mut value: Value = serde_json::from_slice(&body).unwrap();
    value["stream"] = json!(false);
    let body = Bytes::from(value.to_string());
    assert_eq!(baton.post("/v1/messages", &[], body.clone()).await.raw, answer);
    assert_eq!(upstream.bodies.lock().unwrap().pop().unwrap(), body);
    let event = baton.events(1).await.remove(0);
    assert_eq!(event.untooled, Some(ToolOmission::Shadow));
    assert!(
        event.tokens.iter().flatten().any(|usage| usage.input > 0),
        "{event:?}"
    );
}

/// The second request puts the context over the threshold.
#[tokio::test]
async fn a_moment_is_noted_and_nothing_else() {
    let answer = String::from_utf8(golden("04_leg2.sse").to_vec()).unwrap();
    let upstream = Upstream::start("text/event-stream", answer.into()).await;
    let baton = shadow(&upstream.url(), |config| {
        config.handoff.thresholds.nudge_tokens = 1
    });
    let turn = |messages: Value| {
        json!({"model": "claude-sonnet-4-5", "max_tokens": 9000, "stream": true, "messages": messages,
            "tools": [{"name": "Bash", "input_schema": {"type": "object"}}]})
    };
    let first = json!([{"role": "user", "content": "Mend it."}]);
    let second = json!([{"role": "user", "content": "Mend it."}, {"role": "assistant", "content": "Fresh."}, {"role": "user", "content": "Go on."}]);
    for messages in [first, second] {
        let body = Bytes::from(turn(messages).to_string());
        baton.post("/v1/messages", &[], body.clone()).await;
        assert_eq!(upstream.bodies.lock().unwrap().pop().unwrap(), body);
    }
    let events = baton.events(2).await;
    assert!(events[0].nudges.is_empty() && events[0].shadow.is_none());
    assert_eq!(events[1].nudges, [NudgeOutcome::WouldNotify]);
    let moment = events[1].shadow.as_ref().unwrap();
    assert!(
        moment.what == "would_tell" && moment.text.starts_with("<context-notice>"),
        "{moment:?}"
    );
}

/// The prompt that a handoff after the plan would have had is stored, without credentials.
#[tokio::test]
async fn an_accepted_plan_is_a_moment_with_its_carry_over_prompt() {
    let upstream = Upstream::start("text/event-stream", golden("04_leg2.sse")).await;
    let baton = shadow(&upstream.url(), |_| ());
    let token = format!("ghp_{}", "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4");
    let asked = format!("Rewrite the parser without recursion. The token is {token}.");
    let messages = json!([
        {"role": "user", "content": asked},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ExitPlanMode", "input": {"plan": "1. Read it."}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "User has approved your plan."}]},
    ]);
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 9000, "stream": true, "messages": messages,
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}]});
    let body = Bytes::from(body.to_string());
    baton.post("/v1/messages", &[], body.clone()).await;
    assert_eq!(upstream.bodies.lock().unwrap().pop().unwrap(), body);
    let event = baton.events(1).await.remove(0);
    assert_eq!(event.nudges, [NudgeOutcome::WouldFollowPlan]);
    let text = event.facts.shadow.unwrap().text;
    assert_contains(&text, "Rewrite the parser without recursion.");
    assert_lacks(&text, &token);
}
