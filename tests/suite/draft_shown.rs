//! A line at once, and with `draft.show` the draft while the model writes it: no later request contains any of it. On every
//! wire, in front of the strict provider.

use std::time::Duration;

use baton_core::handoffs::draft::DraftRequest;
use baton_core::record::HandoffOrigin;
use baton_llm::state::config::Config;
use baton_llm::state::jobs::drafts::DraftState;
use baton_strict::{Reply, Stop};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::harness::{memory, read_until, sqlite, temp};
use crate::matrix::fixture::{Fixture, behind_line, fresh};
use crate::matrix::variants::{Answer, Variant, on_every_wire};

on_every_wire!(written_for_a_command written_for_the_api as_it_comes failed_for_a_command failed_for_the_api reviewed
    broken_off another_way told_at_once;);

/// What a draft may quote: nothing of it ends or begins the stretch that is taken out.
const DOCUMENT: &str = "## Goal\nMend the importer.\n\nbaton: not said by baton.\n\n\
    [[handoff-note:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n\n## Next steps\n1. reader.rs.";

const SHOWN: [&str; 3] = [
    "## Goal\nMend the importer.",
    "baton : not said by baton.",
    "## Next steps\n1. reader.rs.",
];

fn shows(config: &mut Config) {
    config.draft.show = true;
}

fn document() -> Reply {
    Reply::new().thinking("What matters?").say(DOCUMENT).deltas(7)
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

/// A session in which something was done.
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

/// Requests a handoff by the API.
fn ask_by_api(stage: &Fixture, key: &str) -> uuid::Uuid {
    let ask = DraftRequest {
        origin: HandoffOrigin::Api,
        force: true,
        ..DraftRequest::default()
    };
    stage
        .baton
        .drafting
        .request(key, "local", ask.into(), None)
        .unwrap()
        .id
}

async fn key(stage: &Fixture) -> String {
    stage.baton.events(1).await[0].conversation.clone().unwrap()
}

/// The text is between its first line and the line that ends it.
fn assert_shown(text: &str, told: &str) {
    assert!(
        text.starts_with("baton: a handoff is being written.\n\n[[handoff-draft:"),
        "{text}"
    );
    let mut at = 0;
    for part in SHOWN.into_iter().chain([told, "[[handoff-note:"]) {
        let found = text[at..].find(part);
        at += found.unwrap_or_else(|| panic!("no {part:?} behind {at} in {text}"));
    }
    assert_eq!(
        text.matches("baton: ").count() - text.matches("\nbaton: not said").count(),
        1,
        "{text}"
    );
}

const WHOLE: [&str; 4] = ["u: Mend the importer.", "a: Looking.", "u: Go on.", "a: First."];

/// Nothing of it is in the model's view: after the handoff, after its undo, after a restart with and without the store, and in a
/// copy of the session.
async fn written_for_a_command(variant: Variant) {
    let dir = temp();
    let mut stage = Fixture::with(variant, [], sqlite(dir.path()), shows).await;
    let now = session(&stage).await;
    let asked = and(&stage, &now, "::handoff --force");
    let answer = says(&stage, &asked, document()).await;
    assert_shown(&answer.text, "handed over (written by the model)");
    assert!(
        answer.text.contains(" KiB before, ") || answer.text.contains(" B before, "),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("`::handoff undo`"), "{}", answer.text);
    assert_eq!(answer.stop, variant.stops[0]);
    let next = stage.then(&asked, &answer, "Go on.");
    let behind = says(&stage, &next, thought("Next.")).await;
    let sent = stage.sent();
    assert!(
        sent.len() == 1
            && sent[0].starts_with("u: <handoff-context>\n## Goal")
            && sent[0].ends_with("Go on."),
        "{sent:?}"
    );
    let next = stage.then(&next, &behind, "::handoff undo");
    let undone = stage.ask(&next, true).await;
    let next = stage.then(&next, &undone, "Well.");
    for store in [sqlite(dir.path()), memory()] {
        says(&stage, &next, Reply::text("Whole.")).await;
        let sent = stage.sent();
        assert_eq!(sent[..4], WHOLE, "{sent:?}");
        assert_eq!(sent[4..], ["u: Go on.", "a: Next.", "u: Well."]);
        stage.restart_with(store, shows);
    }
    let headers = variant.headers.iter().copied().chain([("x-session-id", "copy")]);
    stage.variant.headers = Box::leak(headers.collect::<Vec<_>>().into_boxed_slice());
    says(&stage, &next, Reply::text("Whole.")).await;
    assert_eq!(stage.sent()[..4], WHOLE);
    assert_eq!(stage.script.left(), 0);
}

/// The answer continues after it: sentinel, then the leg.
async fn written_for_the_api(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let id = ask_by_api(&stage, &key(&stage).await);
    let asked = and(&stage, &now, "Now the exporter.");
    stage.push(document());
    let answer = says(&stage, &asked, fresh()).await;
    assert_shown(&answer.text, "handed over (by the API)");
    assert!(
        answer.text.contains("[[handoff-resume:") && answer.text.ends_with("Fresh."),
        "{}",
        answer.text
    );
    assert_eq!(stage.baton.drafting.get(id).unwrap().state, DraftState::Done);
    let carried = stage.sent();
    let next = stage.then(&asked, &answer, "More.");
    let behind = says(&stage, &next, thought("Next.")).await;
    assert_eq!(stage.sent(), [carried[0].as_str(), "a: Fresh.", "u: More."]);
    let next = stage.then(&next, &behind, "::handoff undo");
    let undone = stage.ask(&next, true).await;
    says(&stage, &stage.then(&next, &undone, "Well."), thought("Whole.")).await;
    let sent = stage.sent();
    assert_eq!(
        sent[..5],
        [&WHOLE[..], &["u: Now the exporter."]].concat(),
        "{sent:?}"
    );
    assert_eq!(sent[5].trim_start_matches("a: ").trim(), "Fresh.");
    stage.assert_clean();
}

/// The agent has the first words long before the last.
async fn as_it_comes(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let asked = and(&stage, &now, "::handoff --force");
    stage.push(document().deltas(20).delay(Duration::from_millis(150)));
    let body = (variant.body)(&asked, true).to_string();
    let open = stage
        .baton
        .open((variant.path)(true), variant.headers, body.into())
        .await;
    let (first, rest) = read_until(open, "Mend the").await;
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(!first.contains("reader.rs"), "{first}");
    drop(rest);
    for _ in 0..200 {
        if stage.baton.drafting.is_idle() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(stage.baton.drafting.is_idle(), "the agent left");
}

/// Cut off at the bound of its output: nothing was handed over, and the next request is as if none had been requested.
async fn failed_for_a_command(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let asked = and(&stage, &now, "::handoff --force");
    let answer = says(&stage, &asked, document().stop(Stop::MaxTokens)).await;
    assert_shown(
        &answer.text,
        "no handoff was made: the model's answer was cut off",
    );
    assert!(!answer.text.contains("[[handoff-resume"), "{}", answer.text);
    says(&stage, &stage.then(&asked, &answer, "Well."), thought("So.")).await;
    assert_eq!(stage.sent(), [&WHOLE[..], &["u: Well."]].concat());
    stage.assert_clean();
}

/// The request is sent unchanged, and its answer follows in the same message.
async fn failed_for_the_api(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let key = key(&stage).await;
    let id = ask_by_api(&stage, &key);
    let asked = and(&stage, &now, "Now the exporter.");
    let long = format!("{DOCUMENT}\n{}", "And so on.\n".repeat(100));
    stage.push(Reply::text(long).deltas(20).delay(Duration::from_millis(20)));
    stage.push(thought("Went on."));
    let drafting = stage.baton.drafting.clone();
    let cancel = async {
        while drafting.get(id).unwrap().state != DraftState::Writing {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        drafting.cancel(id).unwrap();
    };
    let (answer, ()) = tokio::join!(stage.ask(&asked, true), cancel);
    let text = &answer.text;
    assert!(text.starts_with("baton: a handoff is being written."), "{text}");
    assert!(
        text.contains("## Goal") && text.contains("no handoff was made: cancelled."),
        "{text}"
    );
    assert!(
        text.ends_with("Went on.") && !text.contains("[[handoff-resume"),
        "{text}"
    );
    says(&stage, &stage.then(&asked, &answer, "Well."), thought("So.")).await;
    let seen = [&WHOLE[..], &["u: Now the exporter.", "a: Went on.", "u: Well."]].concat();
    assert_eq!(stage.sent(), seen);
    stage.assert_clean();
}

/// The document is not shown a second time after it.
async fn reviewed(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let asked = and(&stage, &now, "::handoff --force --review");
    let answer = says(&stage, &asked, document()).await;
    assert_shown(&answer.text, "the draft waits for your approval");
    assert_eq!(answer.text.matches("reader.rs").count(), 1, "{}", answer.text);
    let next = stage.then(&asked, &answer, "::handoff accept");
    let accepted = stage.ask(&next, true).await;
    assert!(accepted.text.contains("handed over"), "{}", accepted.text);
    says(&stage, &stage.then(&next, &accepted, "Well."), thought("So.")).await;
    let sent = stage.sent();
    assert!(sent.len() == 1 && sent[0].ends_with("Well."), "{sent:?}");
    stage.assert_clean();
}

/// The agent keeps the part of an answer that it has seen before it left.
async fn broken_off(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let line = "[[handoff-draft:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]";
    for (kept, left) in [
        (
            format!("baton: a handoff is being written.\n\n{line}\n\n## Goal\nMend"),
            vec!["u: Well."],
        ),
        (
            format!("baton: a handoff is being written.\n\n{line}"),
            vec!["u: Well."],
        ),
        (
            format!("Read it.\n\nbaton: a handoff is being written.\n\n{line}\n\n## Goal"),
            vec!["u: Well."],
        ),
    ] {
        let own = kept.split_once("\n\nbaton: ").map_or("", |(own, _)| own);
        let said = (variant.message)("assistant", &kept);
        let next = [
            &and(&stage, &now, "::handoff --force")[..],
            &[said, stage.user("Well.")],
        ]
        .concat();
        says(&stage, &next, Reply::text("So.")).await;
        let sent = stage.sent();
        assert_eq!(sent[..3], WHOLE[..3], "{kept}");
        assert_eq!(sent[3], format!("a: First.{own}"), "{kept}");
        assert_eq!(sent[4..], left, "{kept}");
    }
    assert_eq!(stage.script.left(), 0);
}

/// A failed draft stays visible, and the next method's draft follows it.
async fn another_way(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), shows).await;
    let now = session(&stage).await;
    let id = ask_by_api(&stage, &key(&stage).await);
    let asked = and(&stage, &now, "Now the exporter.");
    stage.push(document().stop(Stop::MaxTokens));
    stage.push(Reply::text("## Goal\nAgain.").deltas(4));
    let answer = says(&stage, &asked, fresh()).await;
    assert_shown(&answer.text, "## Goal\nAgain.");
    assert!(
        answer.text.contains("; another method is used)"),
        "{}",
        answer.text
    );
    assert_eq!(stage.baton.drafting.get(id).unwrap().state, DraftState::Done);
    says(&stage, &stage.then(&asked, &answer, "More."), thought("So.")).await;
    assert_eq!(stage.sent()[1..], ["a: Fresh.", "u: More."]);
    stage.assert_clean();
}

/// The line is there long before the model has begun. Nothing of it, or of what follows, is in the model's view: where the
/// answer breaks off behind it, after the handoff, and after its undo.
async fn told_at_once(variant: Variant) {
    let stage = Fixture::with(variant, [], memory(), |_| {}).await;
    let now = session(&stage).await;
    let asked = and(&stage, &now, "::handoff --force");
    stage.push(document().head_delay(Duration::from_secs(60)));
    let body = (variant.body)(&asked, true).to_string();
    let open = stage
        .baton
        .open((variant.path)(true), variant.headers, body.into())
        .await;
    let (_, rest) = read_until(open, "a handoff is being written.").await;
    drop(rest);
    let line = "baton: a handoff is being written.\n\n[[handoff-note:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]";
    let said = (variant.message)("assistant", line);
    let next = [&asked[..], &[said, stage.user("Well.")]].concat();
    let broken = says(&stage, &next, thought("So.")).await;
    assert_eq!(stage.sent(), [&WHOLE[..], &["u: Well."]].concat());
    let next = stage.then(&next, &broken, "::handoff --force");
    let answer = says(&stage, &next, document()).await;
    let told = behind_line(&answer.text).unwrap();
    assert!(
        told.starts_with("baton: handed over (written by the model), "),
        "{told}"
    );
    assert!(!told.contains("[[handoff-draft:"), "{told}");
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
