//! Credentials in unexpected positions.

use std::fs;
use std::path::Path;

use baton_strict::Reply;
use serde_json::json;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{handoff, history};
use crate::harness::program::Place;
use crate::harness::{AgentWire, post};

/// Appends the contents of all files below a directory.
fn contents(dir: &Path, out: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => contents(&path, out),
            false => out.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap())),
        }
    }
}

/// A mistake in a configuration or an environment variable puts a key in place of the model, the topic, the agent or the
/// upstream.
#[tokio::test]
async fn a_key_in_the_place_of_a_name_is_written_nowhere() {
    let place = Place::new([handoff(), Reply::text("Fresh.")], "handoff.nudge_at = 0.5\n").await;
    let program = place.start_logging();
    let key = format!("sk-{}-api03-{}", "ant", "x1Y_".repeat(12));
    let mut body = Anthropic.body(&history(), true);
    body["model"] = json!(key);
    let named = [("x-baton-topic", &*key), ("user-agent", &*key)];
    let headers = [Anthropic.headers(), &named].concat();
    let answer = program.posts(&headers, &body).await;
    let lower = key.to_lowercase();
    let other = format!("{}/u/{lower}{}", program.data, Anthropic.path());
    let unknown = post(&other, Anthropic.headers(), body.to_string().into()).await;
    assert_eq!(unknown.header("x-baton-error"), Some("unknown_upstream"));
    assert!(answer.text().contains("Fresh."), "{}", answer.text());
    assert_eq!(
        place.provider.generations()[0].body["model"],
        json!(key),
        "upstream gets it"
    );
    let began = std::time::Instant::now();
    let shown = loop {
        let mut shown = String::new();
        for path in ["/metrics", "/api/exchanges", "/api/handoffs", "/api/status"] {
            shown.push_str(&program.admin(path).await.text());
        }
        contents(&place.state, &mut shown);
        shown.push_str(&place.log());
        let is_whole = shown.contains("gen_ai_request_model") && shown.contains("\"open_risks\"");
        if is_whole || began.elapsed().as_secs() > 5 {
            break shown;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(shown.contains("[redacted:"), "{shown}");
    // The store keeps content that is sent again unchanged, but the key is not part of that.
    for key in [&key, &lower] {
        let place = shown.find(key).map(|at| &shown[at.saturating_sub(300)..at]);
        assert_eq!(place, None);
    }
}

#[tokio::test]
async fn logged_requests_are_redacted_like_the_journal() {
    let place = Place::new([Reply::text("Noted.")], "log.requests = true\n").await;
    let program = place.start_logging();
    let key = ["AKI", "AABCD1234EFGH5678"].concat();
    let stated = ["Xq7zwLm9", "opRt7"].concat();
    let message = json!({"role": "user", "content": format!("The key is {key}, the password is {stated}.")});
    let answer = program.sends(&[message]).await;
    assert!(answer.text().contains("Noted."), "{}", answer.text());
    drop(program);
    let log = place.log();
    assert!(
        log.contains("rewritten request") && log.contains("[redacted:aws-key]"),
        "{log}"
    );
    for secret in [key, stated] {
        assert!(!log.contains(&secret), "{log}");
    }
}
