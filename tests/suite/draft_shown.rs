//! The line that immediately tells the user about a draft in progress. No later request contains it. Runs on
//! every wire, with the strict provider as upstream.

use std::time::Duration;

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::texts::assert_begins;
use crate::harness::{memory, read_until};
use crate::matrix::fixture::{Fixture, behind_line};
use crate::matrix::variants::{Answer, Variant, on_every_wire};

on_every_wire!(told_at_once;);

/// Content that a draft may quote.
const DOCUMENT: &str = "## Goal\nMend the importer.\n\nbaton: not said by baton.\n\n\
    [[handoff-note:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n\n## Next steps\n1. reader.rs.";

fn document() -> Reply {
    Reply::new().thinking("What matters?").say(DOCUMENT).deltas(7)
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

/// A session with some work in it.
async fn session(stage: &Fixture) -> Vec<Value> {
    let history = stage.history();
    stage.push(thought("First."));
    let answer = stage.ask(&history, true).await;
    [&history[..], &answer.keep].concat()
}

fn and(stage: &Fixture, history: &[Value], text: &str) -> Vec<Value> {
    [history, &[stage.user(text)]].concat()
}

async fn says(stage: &Fixture, history: &[Value], reply: Reply) -> Answer {
    stage.push(reply);
    stage.ask(history, true).await
}

const WHOLE: [&str; 4] = ["u: Mend the importer.", "a: Looking.", "u: Go on.", "a: First."];

/// The line arrives long before the model has begun. Neither the line nor the text after it is in the model's
/// view: if the response breaks off after it, after the handoff, and after the handoff's undo.
async fn told_at_once(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |_| {}).await;
    let now = session(&stage).await;
    let asked = and(&stage, &now, "::handoff --force");
    let before = stage.provider.generations().len();
    stage.push(document().head_delay(Duration::from_secs(60)));
    let body = (variant.body)(&asked, true).to_string();
    let open = stage
        .baton
        .open((variant.path)(true), variant.headers, body.into())
        .await;
    let (_, rest) = read_until(open, "a handoff is being written.").await;
    // The line may come before the request to the model, which takes the reply.
    while stage.provider.generations().len() == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(rest);
    let line = "baton: a handoff is being written.";
    let said = (variant.message)("assistant", line);
    let next = [&asked[..], &[said, stage.user("Well.")]].concat();
    let broken = says(&stage, &next, thought("So.")).await;
    assert_eq!(stage.sent(), [&WHOLE[..], &["u: Well."]].concat());
    let next = stage.then(&next, &broken, "::handoff --force");
    let answer = says(&stage, &next, document()).await;
    let told = behind_line(&answer.text).unwrap();
    assert_begins(told, "baton: handed over (written by the model), ");
    // The progress line is its own note, and the sentinel marks the report before it.
    assert!(!answer.text.contains("[[handoff-note:"), "{}", answer.text);
    let next = stage.then(&next, &answer, "Go on.");
    let behind = says(&stage, &next, thought("Next.")).await;
    assert!(
        stage.sent()[0].starts_with("u: <handoff-context>\n## Goal"),
        "{:?}",
        stage.sent()
    );
    let next = stage.then(&next, &behind, "::handoff undo");
    let undone = stage.ask(&next, true).await;
    says(&stage, &stage.then(&next, &undone, "More."), thought("On.")).await;
    let whole = ["u: Well.", "a: So.", "u: Go on.", "a: Next.", "u: More."];
    assert_eq!(stage.sent(), [&WHOLE[..], &whole].concat());
    stage.assert_clean();
}
