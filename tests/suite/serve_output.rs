//! Output and logs of `baton serve`, and the reports of other commands about a running proxy.
#![cfg(unix)]

use std::io::BufRead;

use baton_strict::{Received, Reply};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, history, texts};
use crate::harness::program::{Place, Program, baton, words};
use crate::harness::texts::{assert_begins, assert_contains};
use crate::harness::{AgentWire, RawResponse, client, temp};

fn model(seen: &Received) -> Reply {
    match texts(seen.messages()) == [format!("u: {PROMPT}")] {
        true => Reply::text("Fresh."),
        false => handoff(),
    }
}

/// Sends a conversation, which the model hands over.
async fn hands_over(program: &Program) -> RawResponse {
    let response = program.sends(&history()).await;
    assert_contains(&response.text(), "Fresh.");
    response
}

#[tokio::test]
async fn serve_prints_the_line_to_paste_and_short_log_lines() {
    let place = Place::of(model, "").await;
    let mut program = Program::start_logging(&place.config, &place.state);
    let mut paste = String::new();
    program.said.read_line(&mut paste).unwrap();
    assert_eq!(
        paste.trim_end(),
        format!("ANTHROPIC_BASE_URL={} claude", program.data)
    );
    let response = hands_over(&program).await;
    let log = program.stopped();
    let log: Vec<_> = log.lines().collect();
    let exchanges: Vec<_> = log.iter().filter(|line| line.contains("/v1/messages")).collect();
    assert_eq!(exchanges.len(), 1, "{log:#?}");
    let exchange = response.header("x-baton-exchange").unwrap();
    assert!(
        exchanges[0].contains(&exchange[..13]) && exchanges[0].contains(" 200 "),
        "{log:#?}"
    );
    assert!(
        exchanges[0].contains("handed off") && exchanges[0].contains("2 legs"),
        "{log:#?}"
    );
    let fired: Vec<_> = log.iter().filter(|line| line.contains(" by model ")).collect();
    assert_eq!(fired.len(), 1, "{log:#?}");
    assert!(
        fired[0].contains("INFO") && fired[0].ends_with(": done"),
        "{log:#?}"
    );
    assert!(log.iter().all(|line| line.chars().count() <= 160), "{log:#?}");
}

#[tokio::test]
async fn a_handoff_is_an_event_of_its_own() {
    let key = format!("sk-ant-{}{}AA", "api03-", "aB3_".repeat(23) + "x");
    let reason = format!("hunter2, then {key}");
    let model = move |seen: &Received| match model(seen) {
        fired if fired == handoff() => {
            Reply::text("").call("session_handoff", json!({"prompt": PROMPT, "reason": reason}))
        }
        other => other,
    };
    let place = Place::of(model, "journal.redact = ['hunter[0-9]']").await;
    let mut program = Program::start_logging(&place.config, &place.state);
    let events = format!("{}/api/events", program.admin).parse().unwrap();
    let mut events = client().get(events).await.unwrap().into_body();
    events.frame().await.unwrap().unwrap();
    let response = hands_over(&program).await;
    let event = loop {
        let frame = events.frame().await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        if let Some(data) = text.strip_prefix("event: handoff\ndata: ") {
            break serde_json::from_str::<Value>(data).unwrap();
        }
    };
    let latest = place.json(&["handoffs", "show", "--json"]);
    assert_eq!(event["id"], latest["id"]);
    assert_eq!(event["conversation"], latest["conversation"]);
    assert_eq!(
        (&event["origin"], &latest["origin"]),
        (&"model".into(), &"model".into())
    );
    // Readers of logs and events may not be permitted to read the model's output.
    let message = event["reason"].as_str().unwrap();
    assert_begins(message, "[redacted:custom], then [redacted:");
    assert!(!event.to_string().contains("sk-ant-"), "{event}");
    assert_eq!(event["prompt_bytes"], PROMPT.len());
    let sizes: Vec<_> = place
        .provider
        .requests()
        .iter()
        .map(|seen| seen.raw.len())
        .collect();
    assert_eq!(
        (&event["before_bytes"], &event["after_bytes"]),
        (&sizes[0].into(), &sizes[1].into())
    );
    assert_eq!(event["exchange"], response.header("x-baton-exchange").unwrap());
    let api = program.admin("/api/handoffs").await.json();
    assert_eq!(api["handoffs"][0]["origin"], "model");
    let counted = "baton_handoffs_total{wire=\"anthropic\",origin=\"model\"} 1";
    let mut metrics = String::new();
    for _ in 0..200 {
        metrics = program.admin("/metrics").await.text();
        if metrics.contains(counted) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let after = format!(
        "baton_handoff_after_bytes_sum{{wire=\"anthropic\",origin=\"model\"}} {}.0",
        sizes[1]
    );
    assert!(metrics.contains(counted) && metrics.contains(&after), "{metrics}");
    let log = program.stopped();
    assert_contains(&log, " by model ");
    assert_contains(&log, "[redacted:custom]");
    assert!(!log.contains("hunter2") && !log.contains("sk-ant-"), "{log}");
}

#[tokio::test]
async fn doctor_says_whether_a_proxy_runs_and_where() {
    let place = Place::of(model, "").await;
    let status = || place.json(&["doctor", "--offline", "--json"]);
    assert_eq!(
        (&status()["running"], &status()["stale"]),
        (&Value::Null, &Value::Null)
    );
    let mut program = place.start();
    let running = status()["running"].clone();
    assert_eq!(running["pid"], program.child.id());
    assert_eq!(running["data"], program.data);
    assert_eq!(running["admin"], program.admin);
    let line = place.said(&["doctor", "--line"]);
    assert!(line.starts_with("baton on, 0 handoffs"), "{line}");
    assert_contains(
        &place.said(&["doctor", "--offline"]),
        &format!("agents at: {} (process ", program.data),
    );
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    assert_eq!(status()["running"], Value::Null);
    assert_eq!(status()["stale"]["pid"], program.child.id());
    assert!(place.said(&["doctor", "--offline"]).contains("was killed"));
    let mut next = place.start();
    assert_eq!(status()["running"]["pid"], next.child.id());
    assert_eq!(status()["stale"], Value::Null);
    next.signal("-TERM");
    next.child.wait().unwrap();
    assert_eq!(
        (&status()["running"], &status()["stale"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn readiness_is_an_exit_code() {
    let place = Place::of(model, "").await;
    let not_ready = || {
        let out = place.baton(&["doctor", "--ready"]);
        assert_eq!(out.status.code(), Some(69), "{out:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    assert!(not_ready().contains("no proxy serves from"));
    let mut program = place.start();
    assert_eq!(place.said(&["doctor", "--ready"]), "ready\n");
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    assert!(not_ready().contains("no proxy serves from"));
}

/// Control characters for terminals and text direction, and characters without a width.
const ACTING: &str = "\u{1b}[8m\u{1b}]0;x\u{7}\u{202e}\u{2066}\u{200b}\u{feff}\u{9b}31m\u{e0041}";

fn acting(text: &str) -> Vec<char> {
    let acts = |c: &char| *c != '\n' && baton_core::text::visible::acts(*c);
    text.chars().filter(acts).collect()
}

#[tokio::test]
async fn nothing_of_a_model_or_an_agent_acts_on_a_terminal() {
    let model = |seen: &Received| match model(seen) {
        fired if fired == handoff() => Reply::text(format!("Said {ACTING}.")).call(
            "session_handoff",
            json!({"prompt": format!("{PROMPT}"), "reason": format!("done {ACTING}")}),
        ),
        other => other,
    };
    for format in ["text", "json"] {
        let place = Place::of(model, &format!("log.format = '{format}'")).await;
        let mut program = Program::start_logging(&place.config, &place.state);
        let mut history = history();
        history.insert(0, json!({"role": "user", "content": format!("Do {ACTING} it")}));
        history.insert(
            1,
            json!({"role": "assistant", "content": format!("Yes {ACTING}")}),
        );
        let mut body = Anthropic.body(&history, true);
        body["model"] = format!("claude-{ACTING}").into();
        let response = program.posts(Anthropic.headers(), &body).await;
        assert_contains(&response.text(), "Fresh.");
        let exchange = response.header("x-baton-exchange").unwrap().to_owned();
        // The journal writes after the response.
        while !place.said(&["log", "--json"]).contains(&exchange) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let id = place.json(&["handoffs", "show", "--json"])["id"].clone();
        let id = id.as_str().unwrap();
        for words in [
            &["log"][..],
            &["log", "--json"],
            &["log", "--jsonl"],
            &["doctor", "--offline"],
            &["doctor", "--line"],
            &["doctor", "--offline", "--json"],
            &["show", &exchange],
            &["show", &exchange, "--diff"],
            &["show", &exchange, "--json"],
            &["handoffs", "list"],
            &["handoffs", "list", "--json"],
            &["handoffs", "list", "--map"],
            &["handoffs", "show", id],
            &["handoffs", "show", id, "--json"],
            &["handoffs", "list", "--status", "active"],
            &["handoffs", "show", id, "--format", "md"],
        ] {
            let printed = place.said(words);
            assert_eq!(acting(&printed), [], "{words:?}: {printed:?}");
            if words.contains(&"show") {
                assert!(
                    printed.contains("u{202e}") || printed.contains("u202e"),
                    "{words:?}: {printed}"
                );
            }
        }
        let log = program.stopped();
        // Files that users print.
        let printed = crate::promises::ending(&place.state, ".md");
        assert!(printed.len() >= 2, "a document and a ledger: {printed:?}");
        for path in printed {
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(acting(&text), [], "{}: {text:?}", path.display());
        }
        assert!(log.contains("/v1/messages"), "{log}");
        assert_eq!(acting(&log), [], "{log:?}");
    }
}

#[test]
fn a_listener_for_everybody_says_what_that_means() {
    for (listen, keys, warned) in [
        ("0.0.0.0:0", "", true),
        ("127.0.0.1:0", "", false),
        (
            "0.0.0.0:0",
            "[[clients]]\nname = 'ann'\nkey = '0123456789abcdef'",
            false,
        ),
    ] {
        let dir = temp();
        let file = dir.path().join("baton.toml");
        std::fs::write(&file, keys).unwrap();
        let line = format!("serve --listen {listen} --admin 127.0.0.1:0 --log-level error");
        let mut command = baton(dir.path(), &words(&line));
        command
            .arg("--config")
            .arg(&file)
            .arg("--state-dir")
            .arg(dir.path().join("state"));
        command.stderr(std::process::Stdio::piped());
        let mut program = Program::launch(&mut command);
        let log = program.stopped();
        let said = log.contains("warning: server.listen: anyone who can reach 0.0.0.0:")
            && log.contains("[[clients]]");
        assert_eq!(said, warned, "{listen}: {log}");
    }
}
