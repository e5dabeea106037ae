//! The real program if its state cannot be written: no sentinel is shown without being stored, and `/readyz`
//! fails.
#![cfg(unix)]

use std::time::{Duration, Instant};

use baton_strict::{Options, Queue, Reply, Strict};
use serde_json::Value;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{handoff, history};
use crate::harness::program::{Program, config_for};
use crate::harness::{AgentWire, RawResponse, post, temp};

async fn ask(program: &Program, history: &[Value]) -> RawResponse {
    let url = format!("{}{}", program.data, Anthropic.path());
    let body = Anthropic.body(history, true).to_string();
    post(&url, Anthropic.headers(), body.into()).await
}

/// Waits until a strict health check has this status.
async fn becomes(program: &Program, status: u16) -> String {
    let began = Instant::now();
    loop {
        let response = program.admin("/readyz?strict=1").await;
        if response.status == status {
            return response.text();
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{}", response.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_state_directory_that_is_deleted_under_the_program_keeps_no_handoff() {
    let script = Queue::new([Reply::text("Yes."), handoff(), Reply::text("Not asked for.")]);
    let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
    let dir = temp();
    let (config, state) = (config_for(&provider, dir.path(), ""), dir.path().join("state"));
    let program = Program::start(&config, &state);
    assert_eq!(ask(&program, &history()).await.status, 200);
    assert!(provider.requests()[0].offers_handoff());
    becomes(&program, 200).await;
    std::fs::remove_dir_all(&state).unwrap();
    let response = ask(&program, &history()).await;
    assert!(response.text().contains("message_stop"), "{}", response.text());
    assert!(!response.text().contains("handoff-resume"), "{}", response.text());
    assert_eq!(script.left(), 1, "no leg behind a handoff that is none");
    assert_eq!(becomes(&program, 503).await, "degraded: store_write\n");
    let told = program.admin_json("/readyz?strict=1").await;
    assert_eq!(told.status, 503);
    let states: Vec<String> = told.json()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| {
            format!(
                "{} {}",
                check["name"].as_str().unwrap(),
                check["state"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(states[..2], ["store_read ok", "store_write failed"]);
    // A balancer must not take out the only replica, which still serves other conversations.
    assert_eq!(program.admin("/readyz").await.status, 200);
    assert_eq!(states[3], "upstreams not_checked");
    assert!(
        !told.text().contains(state.to_str().unwrap()),
        "no path: {}",
        told.text()
    );
    assert_eq!(program.admin("/healthz").await.status, 200);
    assert_eq!(provider.complaints(), []);
}

#[tokio::test]
async fn a_full_disk_keeps_no_handoff_and_is_not_ready() {
    let provider = Strict::start(|_: &_| handoff(), Options::default())
        .await
        .unwrap();
    let dir = temp();
    let more = "journal.enabled = false\nhandoff.mode = 'stop'\n";
    let (config, state) = (config_for(&provider, dir.path(), more), dir.path().join("state"));
    // The limit fits the database file and a few pages of its log.
    let program = Program::start_on_a_small_disk(&config, &state, 176);
    becomes(&program, 200).await;
    let mut lost = None;
    for _ in 0..200 {
        let response = ask(&program, &history()).await;
        assert!(response.text().contains("message_stop"), "{}", response.text());
        if !response.text().contains("handoff-resume") {
            lost = Some(response);
            break;
        }
    }
    assert!(lost.is_some(), "never full");
    assert_eq!(becomes(&program, 503).await, "degraded: store_write\n");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_ends_no_answer() {
    let provider = Strict::start(|_: &_| Reply::text("Yes."), Options::default())
        .await
        .unwrap();
    let dir = temp();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        return println!("this machine has no /dev/full");
    };
    let (config, state) = (config_for(&provider, dir.path(), ""), dir.path().join("state"));
    let program = Program::start_logging_to(&config, &state, full.into());
    for _ in 0..3 {
        let response = ask(&program, &history()).await;
        assert!(response.text().contains("message_stop"), "{}", response.text());
    }
}
