//! The inspector's lists show the model's actions, the failures with their messages, and the cost.
//!
//! Also tests the filter of these lists, on the API and in `baton log`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use baton_strict::{Fault, Reply};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::fixture::{handoff, history, then, user};
use crate::harness::program::{Place, Program, ask, baton, printed};
use crate::harness::{client, post, read, temp};

/// Time limit for the journal.
const WRITTEN: Duration = Duration::from_secs(10);

fn overloaded() -> Reply {
    Reply::failing(Fault::Status {
        status: 529,
        retry_after: None,
        message: "Overloaded, come back later".to_owned(),
    })
}

/// Returns the exchanges that match a filter, newest first, once the journal has `count` exchanges in total.
async fn listed(program: &Program, filter: &str, count: usize) -> Vec<Value> {
    let began = std::time::Instant::now();
    loop {
        let all = program.admin("/api/exchanges").await.json();
        let ended = all["exchanges"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["open"] == false);
        if ended.count() >= count {
            break;
        }
        assert!(began.elapsed() < WRITTEN, "{all}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found = program
        .admin(&format!("/api/exchanges?filter={filter}"))
        .await
        .json();
    found["exchanges"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| panic!("{found}"))
}

fn log(state: &Path, filter: &[&str]) -> (bool, String) {
    let mut command = baton(state, &["log", "--jsonl", "--state-dir"]);
    let output = command.arg(state).args(filter).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// Four exchanges: a call, a relayed error, a command, and a request outside of any conversation.
async fn run() -> (Program, Place) {
    let calls =
        Reply::text("I look.\nThen more.").call("Read", json!({"file_path": "src/lib.rs", "limit": 3}));
    let place = Place::new([calls, overloaded()], "").await;
    let program = place.start();
    assert_eq!(program.sends(&history()).await.status, 200);
    assert_eq!(program.sends(&history()).await.status, 529);
    let more = [
        json!({"role": "assistant", "content": "Well."}),
        user("::handoff list"),
    ];
    let command = [&history()[..], &more].concat();
    assert_eq!(program.sends(&command).await.status, 200);
    let nope = format!("{}/v1/nope", program.data);
    assert_eq!(post(&nope, &[], "{}".into()).await.status, 502);
    (program, place)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_say_what_happened_and_can_be_filtered() {
    let (program, place) = run().await;
    let all = listed(&program, "", 4).await;
    assert_eq!(
        all[3]["answer"],
        json!({"text": "I look.", "calls": [{"name": "Read", "argument": "src/lib.rs"}]})
    );
    assert_eq!(all[3]["user_line"], "Go on.");
    assert_eq!(all[2]["answer"]["error"], "Overloaded, come back later");
    assert_eq!(all[1]["user_line"], "::handoff list");
    assert_eq!(
        (&all[0]["conversation"], &all[0]["status"]),
        (&Value::Null, &json!(502))
    );
    for (filter, expected) in [
        ("error", vec![0, 2]),
        ("command", vec![1]),
        ("tool:Read%20since:1h", vec![3]),
        ("tool:Rea", vec![]),
        ("!error%20!command", vec![3]),
        ("status:529%20wire:anthropic", vec![2]),
        ("cost%3C1", vec![]),
    ] {
        let ids: Vec<_> = listed(&program, filter, 4)
            .await
            .iter()
            .map(|row| row["id"].clone())
            .collect();
        let expected: Vec<_> = expected.iter().map(|n: &usize| all[*n]["id"].clone()).collect();
        assert_eq!(ids, expected, "{filter}");
    }
    let wrong = program.admin("/api/exchanges?filter=error%20toll:x").await;
    assert_eq!(
        (wrong.status, &wrong.json()["error"]["position"]),
        (400, &json!(7))
    );
    let status = program.admin("/api/status").await.json();
    assert_eq!(
        (&status["failures"], &status["command_prefix"]),
        (&json!(2), &json!("::"))
    );
    let talks = program.admin("/api/conversations").await.json();
    assert_eq!(talks["conversations"][0]["failures"], 1, "{talks}");
    // The error's body is stored once and shown on both sides.
    let id = all[2]["id"].as_str().unwrap();
    for side in ["response?leg=0", "shown"] {
        let body = program.admin(&format!("/api/exchanges/{id}/{side}")).await.text();
        assert!(body.contains("Overloaded, come back later"), "{side}: {body}");
    }
    // The command line gives the same result.
    let (done, text) = log(&place.state, &["error", "status:529"]);
    assert!(done && text.contains(id) && text.lines().count() == 1, "{text}");
    let (done, text) = log(&place.state, &["error", "toll:x"]);
    assert!(
        !done && text.contains("\"toll\" is not a field") && text.contains("error toll:x\n      ^"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bill_is_the_same_on_the_api_and_on_the_command_line() {
    let (program, place) = run().await;
    listed(&program, "", 4).await;
    for by in ["day", "model", "conversation"] {
        let api = program
            .admin(&format!("/api/savings?by={by}&since=1h"))
            .await
            .json();
        let command = place.json(&["savings", "--json", "--since", "1h", "--by", by]);
        assert_eq!(api, command, "{by}");
        assert_eq!(api["total"]["exchanges"], 1, "{api}");
    }
    for wrong in ["by=week", "since=1y"] {
        assert_eq!(program.admin(&format!("/api/savings?{wrong}")).await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchanges_are_found_by_their_cost() {
    let dir = temp();
    let prices = dir.path().join("prices.toml");
    let table = "source = \"mine\"\ndate = \"2026-11-23\"\n[[provider]]\nid = \"p\"\n[[provider.model]]\nid = \"m\"\n\
                 names = [\"claude-strict*\"]\nprice = [{ input = 3, output = 15 }]\n";
    std::fs::write(&prices, table).unwrap();
    let more = format!("bill.prices = '{}'\n", prices.display());
    let place = Place::new([Reply::text("One.")], &more).await;
    let program = place.start();
    ask(&program, &history()).await;
    listed(&program, "", 1).await;
    assert_eq!(listed(&program, "cost%3E0", 1).await.len(), 1);
    assert_eq!(listed(&program, "cost%3E1", 1).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_names_the_exchange_in_which_it_fired() {
    let replies = [handoff(), Reply::text("Fresh."), Reply::text("More.")];
    let place = Place::new(replies, "").await;
    let program = place.start();
    let message = ask(&program, &history()).await;
    ask(&program, &then(&history(), &message, "Go on.")).await;
    let rows = listed(&program, "", 2).await;
    let id = rows[1]["fired"][0].as_str().unwrap();
    let found = program.admin(&format!("/api/handoffs/{id}")).await.json();
    assert_eq!(found["handoff"]["exchange"], rows[1]["id"], "{found}");
    assert_eq!(found["handoff"]["history_bytes"], rows[1]["received_bytes"]);
    let listed = program.admin("/api/handoffs").await.json();
    assert_eq!(listed["handoffs"].as_array().map(Vec::len), Some(1));
    // No rule was stated, so none was omitted.
    assert_eq!(listed["omissions"], json!({}));
}

/// After the proxy has ended, `status` shows no page, and `baton ui` shows the journal without changing
/// anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_proxy_the_page_is_read_only() {
    let (program, place) = run().await;
    listed(&program, "", 4).await;
    let command = |args: &[&str]| {
        let mut command = baton(&place.state, args);
        command.env("BATON_ADMIN__LISTEN", "127.0.0.1:0");
        command.arg("--state-dir").arg(&place.state);
        command
    };
    let text = |args: &[&str]| printed(command(args).output().unwrap());
    assert!(text(&["ui"]).contains(&format!("its page is {}", program.admin)));
    drop(program);
    let mut child = command(&["ui"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let page = line
        .strip_prefix("inspector on ")
        .and_then(|rest| rest.split(',').next())
        .unwrap()
        .to_owned();
    let get = async |path: &str| {
        read(
            client()
                .get(format!("{page}{path}").parse().unwrap())
                .await
                .unwrap(),
        )
        .await
    };
    let status = get("/api/status").await.json();
    assert_eq!(
        (&status["read_only"], &status["journal"]["exchanges"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(
        get("/api/exchanges?filter=error").await.json()["exchanges"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert!(get("/").await.text().contains("<title>baton</title>"));
    assert_eq!(get("/api/events").await.json()["error"]["code"], "no_proxy");
    let url = format!("{page}/api/drafts/0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11/accept");
    assert_eq!(post(&url, &[], "{}".to_owned().into()).await.status, 503);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// While a response streams, the page gets its text so far, from the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_under_way_is_shown_as_it_comes() {
    let words: String = (0..60).map(|n| format!("word{n} ")).collect();
    let slow = Reply::text(words.clone()).delay(Duration::from_millis(60));
    let place = Place::new([slow], "").await;
    let program = Arc::new(place.start());
    let sending = {
        let program = Arc::clone(&program);
        tokio::spawn(async move { program.sends(&history()).await.status })
    };
    let began = std::time::Instant::now();
    let mut seen = Vec::new();
    while !sending.is_finished() {
        assert!(began.elapsed() < 3 * WRITTEN, "{seen:?}");
        let rows = program.admin("/api/exchanges").await.json();
        let open = rows["exchanges"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["open"] == true);
        if let Some(id) = open.map(|row| row["id"].as_str().unwrap().to_owned()) {
            let live = program.admin(&format!("/api/exchanges/{id}/live")).await.json();
            seen.extend(live["parts"][0]["text"].as_str().map(str::to_owned));
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert_eq!(sending.await.unwrap(), 200);
    seen.dedup();
    assert!(seen.len() > 2, "it grows: {seen:?}");
    assert!(
        seen.iter().all(|text| words.starts_with(text.as_str())),
        "{seen:?}"
    );
    let rows = listed(&program, "", 1).await;
    let id = rows[0]["id"].as_str().unwrap();
    let live = program.admin(&format!("/api/exchanges/{id}/live")).await.json();
    assert_eq!(live, json!({"open": false, "parts": []}));
}
