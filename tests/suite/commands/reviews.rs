//! Drafts that await the approval of the user.
//!
//! The draft cuts the transcript at the position of its creation, and the later work follows unchanged.

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{and, command, says, thought};
use crate::harness::texts::{assert_begins, assert_contains, assert_lacks};
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(reviewed told_that_it_waits known_after_a_restart accepted_in_the_chat another_transcript;);

const DRAFT: &str = "::handoff --force --review --method local --no-git";

/// A draft waits for the user's approval, and nothing is cut before. After a rejection another one can be
/// requested.
async fn reviewed(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let (text, then) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("no draft waits"), "{text}");
    let (text, then) = command(&stage, &then, DRAFT).await;
    assert_contains(&text, "waits for your approval");
    assert_contains(&text, "## Task");
    assert!(!text.contains("[[handoff-resume"), "{text}");
    let (text, then) = command(&stage, &then, "::handoff --force another").await;
    assert!(text.contains("already waits for your approval"), "{text}");
    let (text, then) = command(&stage, &then, "::handoff reject").await;
    assert!(text.contains("rejected"), "{text}");
    let (_, then) = command(&stage, &then, DRAFT).await;
    // Another message leaves the draft pending.
    let then = and(&stage, &then, "Go on.");
    let answer = says(&stage, &then, thought("Next.")).await;
    assert!(answer.text.ends_with("Next."), "{}", answer.text);
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    let then = [&then[..], &answer.keep].concat();
    let (text, then) = command(&stage, &then, "::handoff edit ## Goal\nOnly the tests.").await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    says(&stage, &and(&stage, &then, "Well."), thought("So.")).await;
    let sent = stage.sent();
    let begins = "u: <handoff-context>\n## Goal\nOnly the tests.";
    assert!(
        sent[0].starts_with(begins) && sent[0].ends_with("Go on."),
        "{sent:?}"
    );
    // The work since the draft.
    assert_eq!(sent[1..], ["a: Next.", "u: Well."]);
    assert!(stage.baton.drafting.all_open().is_empty());
    stage.assert_clean();
}

/// A user who continues while a draft is pending is notified once, before the model's output. The model never
/// sees the notice.
async fn told_that_it_waits(variant: Variant) {
    for stream in [true, false] {
        let stage = Fixture::new(variant, []).await;
        let history = stage.history();
        let answer = says(&stage, &history, thought("First.")).await;
        let now = [&history[..], &answer.keep].concat();
        let (_, now) = command(&stage, &now, "::handoff --force --review --method local --no-git").await;
        let now = and(&stage, &now, "Go on.");
        stage.push(thought("Next."));
        let answer = stage.ask(&now, stream).await;
        let told = answer
            .text
            .strip_suffix("Next.")
            .unwrap_or_else(|| panic!("{}", answer.text));
        let part = "baton: a draft of a handoff waits for your approval: `::handoff accept`";
        assert_begins(told, part);
        assert!(told.contains("[[handoff-note:"), "{told}");
        let now = stage.then(&now, &answer, "More.");
        stage.push(thought("And on."));
        let answer = stage.ask(&now, stream).await;
        assert_eq!(answer.text, "And on.", "once");
        let seen = ["u: Go on.", "a: First.", "u: Go on.", "a: Next.", "u: More."];
        assert_eq!(stage.sent()[2..], seen);
        says(&stage, &stage.then(&now, &answer, "Well."), thought("So.")).await;
        assert_eq!(stage.sent()[2..7], seen);
        stage.assert_clean();
    }
}

/// The draft is in the store, so any process that serves the session next knows the draft and its outcome.
async fn known_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let (_, now) = command(&stage, &now, "::handoff --force --review --method local --no-git").await;
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff status").await;
    assert!(text.contains("A draft waits for your approval"), "{text}");
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff reject").await;
    assert!(text.contains("rejected"), "{text}");
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("no draft waits"), "{text}");
    let (_, now) = command(&stage, &now, "::handoff --force --review --method local --no-git").await;
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("handed over (composed without a model)"), "{text}");
    // After its undo it is an undone handoff, no longer a draft.
    let (_, now) = command(&stage, &now, "::handoff undo").await;
    stage.restart(sqlite(dir.path()));
    let (text, now) = command(&stage, &now, "::handoff accept").await;
    assert!(text.contains("no draft waits"), "{text}");
    let (_, now) = command(&stage, &now, "::handoff undo").await;
    says(&stage, &and(&stage, &now, "Well."), thought("So.")).await;
    let sent = stage.sent();
    assert!(sent.len() == 1 && sent[0].ends_with("Well."), "{sent:?}");
    stage.assert_clean();
}

async fn turn(stage: &Fixture, history: &[Value], text: &str, reply: Reply) -> Vec<Value> {
    stage.push(reply);
    let now = [history, &[stage.user(text)]].concat();
    let answer = stage.ask(&now, true).await;
    [&now[..], &answer.keep].concat()
}

/// Sends a command that baton answers. After the prefix, the answer must begin with `begins`.
async fn told(stage: &Fixture, history: &[Value], text: &str, begins: &str) -> Vec<Value> {
    let now = [history, &[stage.user(text)]].concat();
    let answer = stage.ask(&now, true).await;
    let said = answer.text.strip_prefix("baton: ").unwrap();
    assert!(said.starts_with(begins), "{text}: {said}");
    [&now[..], &answer.keep].concat()
}

/// Returns a session with some work.
async fn session(stage: &Fixture) -> Vec<Value> {
    let history = stage.history();
    turn(stage, &history[..2], "Go on.", thought("First.")).await
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
    assert_lacks(quoted, "- Read on.");
    assert_lacks(quoted, "- Well.");
}

async fn accepted_in_the_chat(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let now = session(&stage).await;
    let now = told(&stage, &now, DRAFT, "the draft waits").await;
    let now = works(&stage, &now).await;
    let now = told(&stage, &now, "::handoff accept", "handed over").await;
    let now = turn(&stage, &now, "Well.", thought("So.")).await;
    sees(&stage, &["u: Well."]);
    assert!(stage.sent()[0].ends_with("Read on."), "{:?}", stage.sent());
    turn(&stage, &now, "More.", thought("Much more.")).await;
    sees(&stage, &["u: Well.", "a: So.", "u: More."]);
    stage.assert_clean();
}

/// The agent has rewound to before the draft, so nothing is cut.
async fn another_transcript(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let first = session(&stage).await;
    told(&stage, &first, DRAFT, "the draft waits").await;
    let history = stage.history();
    let other = turn(&stage, &history[..2], "Rather that.", thought("That.")).await;
    let other = told(&stage, &other, "::handoff accept", "no handoff was made").await;
    turn(&stage, &other, "Well.", thought("So.")).await;
    assert_eq!(stage.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    stage.assert_clean();
}
