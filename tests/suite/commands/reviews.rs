//! Drafts that await the approval of the user.
//!
//! The draft cuts the transcript at the position of its creation, and the later work follows unchanged.

use pretty_assertions::assert_eq;
use serde_json::json;

use super::opened;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_lacks};
use crate::harness::{sqlite, temp};
use crate::matrix::fixture::{Fixture, thought};
use crate::matrix::talk::Talk;
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(reviewed told_that_it_waits known_after_a_restart accepted_in_the_chat another_transcript;);

const DRAFT: &str = "::handoff --force --review --method local --no-git";

/// A draft waits for the user's approval, and nothing is cut before. After a rejection another one can be
/// requested.
async fn reviewed(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    assert_contains(&talk.command("::handoff accept").await, "no draft waits");
    let text = talk.command(DRAFT).await;
    assert_contains(&text, "waits for your approval");
    assert_contains(&text, "## Task");
    assert_lacks(&text, "[[handoff-resume");
    let text = talk.command("::handoff --force another").await;
    assert_contains(&text, "already waits for your approval");
    assert_contains(&talk.command("::handoff reject").await, "rejected");
    talk.command(DRAFT).await;
    // Another message leaves the draft pending.
    assert_ends(&talk.says("Go on.", thought("Next.")).await.text, "Next.");
    assert_eq!(talk.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    let text = talk.command("::handoff edit ## Goal\nOnly the tests.").await;
    assert_contains(&text, "handed over (composed without a model)");
    talk.says("Well.", thought("So.")).await;
    let sent = talk.sent();
    assert_begins(&sent[0], "u: <handoff-context>\n## Goal\nOnly the tests.");
    assert_ends(&sent[0], "Go on.");
    // The work since the draft.
    assert_eq!(sent[1..], ["a: Next.", "u: Well."]);
    assert!(talk.baton.drafting.all_open().is_empty());
    talk.assert_clean();
}

/// A user who continues while a draft is pending is notified once, before the model's output. The model never
/// sees the notice.
async fn told_that_it_waits(variant: Variant) {
    for stream in [true, false] {
        let mut talk = Talk::worked(variant).await;
        talk.command(DRAFT).await;
        talk.stream = stream;
        let told = talk.says("Go on.", thought("Next.")).await.text;
        assert_begins(
            &told,
            "baton: a draft of a handoff waits for your approval: `::handoff accept`",
        );
        assert_contains(&told, "[[handoff-note:");
        assert_ends(&told, "Next.");
        let once = talk.says("More.", thought("And on.")).await;
        assert_eq!(once.text, "And on.");
        let seen = ["u: Go on.", "a: First.", "u: Go on.", "a: Next.", "u: More."];
        assert_eq!(talk.sent()[2..], seen);
        talk.says("Well.", thought("So.")).await;
        assert_eq!(talk.sent()[2..7], seen);
        talk.assert_clean();
    }
}

/// The draft is in the store, so any process that serves the session next knows the draft and its outcome.
async fn known_after_a_restart(variant: Variant) {
    let dir = temp();
    let mut talk = Talk::worked_in(Fixture::with(variant, [], sqlite(dir.path()), |_| {}).await).await;
    talk.command(DRAFT).await;
    for (command, said) in [
        ("::handoff status", "A draft waits for your approval"),
        ("::handoff reject", "rejected"),
        ("::handoff accept", "no draft waits"),
        (DRAFT, "waits for your approval"),
        ("::handoff accept", "handed over (composed without a model)"),
        // After its undo it is an undone handoff, no longer a draft.
        ("::handoff undo", "was undone"),
        ("::handoff accept", "no draft waits"),
        ("::handoff undo", "was reverted"),
    ] {
        talk.restart(sqlite(dir.path()));
        assert_contains(&talk.command(command).await, said);
    }
    talk.says("Well.", thought("So.")).await;
    let [sent] = &talk.sent()[..] else {
        panic!("{:?}", talk.sent())
    };
    assert_ends(sent, "Well.");
    talk.assert_clean();
}

/// Asserts that the model sees the draft and this later text.
fn sees(talk: &Talk, since: &[&str]) {
    let sent = talk.sent();
    assert_begins(&sent[0], "u: <handoff-context>\n");
    let work = ["a: Reading.", "call read_file", "result", "a: Read."];
    assert_eq!(sent[1..], [&work[..], since].concat());
    assert_lacks(&sent.concat(), "[[handoff-");
    // The text that follows the prompt is not quoted in it.
    let (_, quoted) = sent[0].split_once("<carried-over>").unwrap_or_default();
    assert_lacks(quoted, "- Read on.");
    assert_lacks(quoted, "- Well.");
}

async fn accepted_in_the_chat(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    assert_begins(&talk.command(DRAFT).await, "baton: the draft waits");
    talk.history.push(talk.user("Read on."));
    let calls = thought("Reading.").call("read_file", json!({"path": "reader.rs"}));
    talk.runs(calls, "fn main() {}").await;
    talk.push(thought("Read."));
    talk.goes_on().await;
    assert_begins(&talk.command("::handoff accept").await, "baton: handed over");
    talk.says("Well.", thought("So.")).await;
    sees(&talk, &["u: Well."]);
    assert_ends(&talk.sent()[0], "Read on.");
    talk.says("More.", thought("Much more.")).await;
    sees(&talk, &["u: Well.", "a: So.", "u: More."]);
    talk.assert_clean();
}

/// The agent has rewound to before the draft, so nothing is cut.
async fn another_transcript(variant: Variant) {
    let mut talk = opened(variant).await;
    let before = talk.history.clone();
    talk.says("Go on.", thought("First.")).await;
    talk.command(DRAFT).await;
    talk.history = before;
    talk.says("Rather that.", thought("That.")).await;
    assert_begins(
        &talk.command("::handoff accept").await,
        "baton: no handoff was made",
    );
    talk.says("Well.", thought("So.")).await;
    assert_eq!(talk.sent()[..2], ["u: Mend the importer.", "a: Looking."]);
    talk.assert_clean();
}
