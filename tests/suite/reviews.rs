//! A draft awaits the user's approval while the work continues.
//!
//! The draft cuts the transcript at the position of its creation, and the later work follows unchanged. Runs
//! on every wire, with the strict provider.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::harness::{sqlite, temp};
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(accepted_in_the_chat accepted_by_the_api undone another_transcript accepted_after_a_restart;);

const DRAFT: &str = "::handoff --force --review --method local --no-git";

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

async fn says(stage: &Fixture, history: &[Value], text: &str, reply: Reply) -> Vec<Value> {
    stage.push(reply);
    let now = [history, &[stage.user(text)]].concat();
    let answer = stage.ask(&now, true).await;
    [&now[..], &answer.keep].concat()
}

/// Sends a command that baton answers. After the prefix, the answer must begin with `begins`.
async fn command(stage: &Fixture, history: &[Value], text: &str, begins: &str) -> Vec<Value> {
    let now = [history, &[stage.user(text)]].concat();
    let answer = stage.ask(&now, true).await;
    let told = answer.text.strip_prefix("baton: ").unwrap();
    assert!(told.starts_with(begins), "{text}: {told}");
    [&now[..], &answer.keep].concat()
}

/// Returns a session with some work.
async fn session(stage: &Fixture) -> Vec<Value> {
    let history = stage.history();
    says(stage, &history[..2], "Go on.", thought("First.")).await
}

/// Adds the work since the draft: a call with its result, and a response.
async fn works(stage: &Fixture, history: &[Value]) -> Vec<Value> {
    let now = [history, &[stage.user("Read on.")]].concat();
    let calls = thought("Reading.").call("read_file", json!({"path": "reader.rs"}));
    stage.push(calls);
    let answer = stage.ask(&now, true).await;
    let now = stage.ran(&now, &answer);
    stage.push(thought("Read."));
    let answer = stage.ask(&now, true).await;
    [&now[..], &answer.keep].concat()
}

/// Asserts that the model sees the draft and this later text.
fn sees(stage: &Fixture, since: &[&str]) {
    let sent = stage.sent();
    assert!(sent[0].starts_with("u: <handoff-context>\n"), "{sent:?}");
    let work = ["a: Reading.", "call read_file", "result", "a: Read."];
    assert_eq!(sent[1..], [&work[..], since].concat());
    assert!(!sent.concat().contains("[[handoff-"), "{sent:?}");
    // The text that follows the prompt is not quoted in it.
    let quoted = sent[0]
        .split_once("<carried-over>")
        .map_or("", |(_, after)| after);
    assert!(
        !quoted.contains("- Read on.") && !quoted.contains("- Well."),
        "{quoted}"
    );
}

async fn accepted_in_the_chat(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let now = session(&stage).await;
    let now = command(&stage, &now, DRAFT, "the draft waits").await;
    let now = works(&stage, &now).await;
    let now = command(&stage, &now, "::handoff accept", "handed over").await;
    let now = says(&stage, &now, "Well.", thought("So.")).await;
    sees(&stage, &["u: Well."]);
    assert!(stage.sent()[0].ends_with("Read on."), "{:?}", stage.sent());
    says(&stage, &now, "More.", thought("Much more.")).await;
    sees(&stage, &["u: Well.", "a: So.", "u: More."]);
    stage.assert_clean();
}

/// The draft takes effect with the next request, whose response shows it.
async fn accepted_by_the_api(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let now = session(&stage).await;
    let now = command(&stage, &now, DRAFT, "the draft waits").await;
    let now = works(&stage, &now).await;
    let drafting = &stage.baton.drafting;
    let id = drafting.all_open()[0].id;
    drafting
        .accept(id, Some("## Goal\nOnly the tests.".to_owned()))
        .unwrap();
    let now = says(&stage, &now, "Well.", thought("So.")).await;
    sees(&stage, &["u: Well."]);
    says(&stage, &now, "More.", thought("Much more.")).await;
    sees(&stage, &["u: Well.", "a: So.", "u: More."]);
    stage.assert_clean();
}

async fn undone(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let now = session(&stage).await;
    let now = command(&stage, &now, DRAFT, "the draft waits").await;
    let now = works(&stage, &now).await;
    let now = command(&stage, &now, "::handoff accept", "handed over").await;
    let now = command(&stage, &now, "::handoff undo", "the handoff ").await;
    let now = says(&stage, &now, "Well.", thought("So.")).await;
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    let now = command(&stage, &now, "::handoff undo", "the undo was reverted").await;
    says(&stage, &now, "More.", thought("Much more.")).await;
    sees(&stage, &["u: Well.", "a: So.", "u: More."]);
    stage.assert_clean();
}

/// The agent has rewound to before the draft, so nothing is cut.
async fn another_transcript(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let first = session(&stage).await;
    command(&stage, &first, DRAFT, "the draft waits").await;
    let history = stage.history();
    let other = says(&stage, &history[..2], "Rather that.", thought("That.")).await;
    let other = command(&stage, &other, "::handoff accept", "no handoff was made").await;
    says(&stage, &other, "Well.", thought("So.")).await;
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    stage.assert_clean();
}

/// Another process finds the position of the draft.
async fn accepted_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    let now = session(&stage).await;
    let now = command(&stage, &now, DRAFT, "the draft waits").await;
    let now = works(&stage, &now).await;
    stage.restart(sqlite(dir.path()));
    let now = command(&stage, &now, "::handoff accept", "handed over").await;
    stage.restart(sqlite(dir.path()));
    says(&stage, &now, "Well.", thought("So.")).await;
    sees(&stage, &["u: Well."]);
}
