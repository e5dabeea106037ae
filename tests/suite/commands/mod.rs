//! Chat commands: answered by baton on every wire. Neither they nor their answers are ever in the model's
//! view.

mod handover;
mod pins;
mod repeats;
mod resume;
mod reviews;
mod undo;
mod words;

use baton_core::text::{Span, json};
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::matrix::fixture::{Fixture, fresh, handoff};
use crate::matrix::variants::Answer;

const SECOND: &str = "Goal: the second one.";

const WHOLE: [&str; 4] = [
    "u: Mend the importer.",
    "a: Looking.",
    "u: Go on.",
    "a: Done with that.Fresh.",
];

const DOCUMENT: &str = "## Goal\nMend the importer.\n\n## Next steps\n1. reader.rs.";

async fn says(stage: &Fixture, history: &[Value], reply: Reply) -> Answer {
    stage.push(reply);
    stage.ask(history, true).await
}

fn thought(text: &str) -> Reply {
    Reply::new().thinking("So it is.").say(text)
}

/// Sends a command after the transcript. Returns baton's answer and the new transcript. Nothing is sent
/// upstream.
async fn command(stage: &Fixture, history: &[Value], text: &str) -> (String, Vec<Value>) {
    let asked = stage.provider.requests().len();
    let history = [history, &[stage.user(text)]].concat();
    let answer = stage.ask(&history, true).await;
    assert_eq!(
        stage.provider.requests().len(),
        asked,
        "{text}: nothing goes upstream"
    );
    assert!(answer.text.starts_with("baton: "), "{text}: {}", answer.text);
    assert!(answer.text.contains("[[handoff-note:"), "{text}: {}", answer.text);
    assert_eq!(answer.stop, stage.variant.stops[0]);
    (answer.text, [&history[..], &answer.keep].concat())
}

fn and(stage: &Fixture, history: &[Value], text: &str) -> Vec<Value> {
    [history, &[stage.user(text)]].concat()
}

/// Elements of the last request's transcript, byte for byte as the model received them.
fn elements(stage: &Fixture) -> Vec<String> {
    let seen = stage.provider.generations().last().unwrap().clone();
    let raw: &[u8] = &seen.raw;
    let whole = Span::new(0, raw.len());
    let keys = ["messages", "input", "contents"];
    let list = keys.iter().find_map(|key| json::get(raw, whole, key)).unwrap();
    let all = json::elements(raw, list).into_iter();
    all.map(|span| String::from_utf8(span.of(raw).to_vec()).unwrap())
        .collect()
}

/// Outline of the last request. If messages are single strings, the text around a sentinel is two paragraphs.
fn sent(stage: &Fixture) -> Vec<String> {
    let seen = stage.provider.generations().last().unwrap().clone();
    assert!(
        memchr::memmem::find(&seen.raw, b"[[handoff-resume:").is_none(),
        "no mark reaches the model"
    );
    let joined = |line: String| {
        line.replace("\n\nFresh.", "Fresh.")
            .replace("\n\nSecond.", "Second.")
    };
    stage.sent().into_iter().map(joined).collect()
}

/// A session with a handoff in it, and a turn after that.
async fn handed_over(stage: &Fixture) -> Vec<Value> {
    let history = stage.history();
    stage.push(handoff());
    stage.push(fresh());
    let fired = stage.ask(&history, true).await;
    stage.then(&history, &fired, "Go on.")
}
