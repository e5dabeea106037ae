//! The line that immediately tells the user about a draft in progress. No later request contains it. Runs on
//! every wire, with the strict provider as upstream.

use std::time::Duration;

use baton_strict::Reply;
use pretty_assertions::assert_eq;

use crate::harness::read_until;
use crate::harness::texts::{assert_begins, assert_lacks};
use crate::matrix::fixture::{behind_line, thought};
use crate::matrix::talk::{Talk, WORKED};
use crate::matrix::variants::{Variant, on_every_wire};

on_every_wire!(told_at_once;);

/// Content that a draft may quote.
const DOCUMENT: &str = "## Goal\nMend the importer.\n\nbaton: not said by baton.\n\n\
    [[handoff-note:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n\n## Next steps\n1. reader.rs.";

fn document() -> Reply {
    Reply::new().thinking("What matters?").say(DOCUMENT).deltas(7)
}

/// The line arrives long before the model has begun. Neither the line nor the text after it is in the model's
/// view: if the response breaks off after it, after the handoff, and after the handoff's undo.
async fn told_at_once(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    let live = talk.elements();
    talk.push(document().head_delay(Duration::from_secs(60)));
    talk.history.push(talk.user("::handoff --force"));
    let body = (variant.body)(&talk.history, true).to_string();
    let open = talk
        .baton
        .open((variant.path)(true), variant.headers, body.into())
        .await;
    let (_, rest) = read_until(open, "a handoff is being written.").await;
    // The line may come before the request to the model, which takes the reply.
    while talk.provider.generations().len() == 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(rest);
    talk.history.push((variant.message)(
        "assistant",
        "baton: please wait: a handoff is being written.",
    ));
    talk.says("Well.", thought("So.")).await;
    assert_eq!(talk.sent(), [&WORKED[..], &["u: Well."]].concat());
    let answer = talk.says("::handoff --force", document()).await;
    assert_eq!(
        talk.elements()[..live.len()],
        live,
        "the live prefix, byte for byte"
    );
    let told = behind_line(&answer.text).unwrap();
    assert_begins(told, "baton: handed over (written by the model), ");
    // The progress line is its own note, and the sentinel marks the report before it.
    assert_lacks(&answer.text, "[[handoff-note:");
    talk.says("Go on.", thought("Next.")).await;
    assert_begins(&talk.sent()[0], "u: <handoff-context>\n## Goal");
    talk.command("::handoff undo").await;
    talk.says("More.", thought("On.")).await;
    let whole = ["u: Well.", "a: So.", "u: Go on.", "a: Next.", "u: More."];
    assert_eq!(talk.sent(), [&WORKED[..], &whole].concat());
    talk.assert_clean();
}
