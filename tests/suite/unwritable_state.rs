//! The real program if its state cannot be written: no sentinel is shown without being stored, and `/readyz`
//! fails.
#![cfg(unix)]

use std::time::{Duration, Instant};

use baton_strict::Reply;
use serde_json::Value;

use crate::harness::RawResponse;
use crate::harness::fixture::{handoff, history};
use crate::harness::program::{Place, Program};
use crate::harness::texts::{assert_contains, assert_lacks};

/// Returns a response, which has an end.
async fn ask(program: &Program) -> RawResponse {
    let response = program.sends(&history()).await;
    assert_contains(&response.text(), "message_stop");
    response
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
    let replies = [Reply::text("Yes."), handoff(), Reply::text("Going on.")];
    let place = Place::new(replies, "").await;
    let program = place.start_logging();
    assert_eq!(ask(&program).await.status, 200);
    assert!(place.provider.requests()[0].offers_handoff());
    becomes(&program, 200).await;
    std::fs::remove_dir_all(&place.state).unwrap();
    let text = ask(&program).await.text();
    assert_lacks(&text, "handoff-resume");
    assert_contains(&text, "Going on.");
    assert_eq!(becomes(&program, 503).await, "degraded: store_write\n");
    let told = program.admin_json("/readyz?strict=1").await;
    assert_eq!(told.status, 503);
    let checks = told.json()["checks"].as_array().unwrap().clone();
    let state = |check: &Value| {
        [&check["name"], &check["state"]]
            .map(|text| text.as_str().unwrap().to_owned())
            .join(" ")
    };
    let states: Vec<String> = checks.iter().map(state).collect();
    assert_eq!(states[..2], ["store_read ok", "store_write failed"]);
    // A balancer must not take out the only replica, which still serves other conversations.
    assert_eq!(program.admin("/readyz").await.status, 200);
    assert_eq!(states[3], "upstreams not_checked");
    assert_lacks(&told.text(), place.state.to_str().unwrap());
    assert_eq!(program.admin("/healthz").await.status, 200);
    assert_contains(&place.log(), "failed a readiness check");
    assert_eq!(place.provider.complaints(), []);
}

#[tokio::test]
async fn a_full_disk_keeps_no_handoff_and_is_not_ready() {
    let more = "journal.enabled = false\nhandoff.mode = 'stop'\n";
    let place = Place::of(|_: &_| handoff(), more).await;
    // The limit fits the database file and a few pages of its log.
    let program = Program::start_on_a_small_disk(&place.config, &place.state, 176);
    becomes(&program, 200).await;
    let mut tries = 0;
    while ask(&program).await.text().contains("handoff-resume") {
        tries += 1;
        assert!(tries < 200, "never full");
    }
    assert_eq!(becomes(&program, 503).await, "degraded: store_write\n");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_ends_no_answer() {
    let place = Place::of(|_: &_| Reply::text("Yes."), "").await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else {
        return println!("this machine has no /dev/full");
    };
    let program = Program::start_logging_to(&place.config, &place.state, full.into());
    for _ in 0..3 {
        ask(&program).await;
    }
}
