//! Commands that are interrupted, repeated, or sent beside each other.

use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::sleep;

use super::DOCUMENT;
use crate::harness::fixture::FlakyStore;
use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains, assert_lacks};
use crate::matrix::fixture::{Fixture, thought};
use crate::matrix::talk::{Talk, WORKED};
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(never_answered sent_again store_fails_meanwhile two_at_once;);

/// Beginning of baton's answer to a handoff, after the progress line.
const SHOWN: &[u8] = b"baton: handed over";

/// Sends the transcript, reads the beginning of the response, and disconnects.
async fn leaves(talk: &Talk) {
    let variant = &talk.variant;
    let body = (variant.body)(&talk.history, true).to_string();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(talk.baton.addr).await.unwrap();
    let headers = variant.headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
        (variant.path)(true),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    // The progress line and keep-alives precede it.
    while !seen.windows(SHOWN.len() + 40).any(|some| some.starts_with(SHOWN)) {
        let mut some = [0; 64];
        let read = stream.read(&mut some).await.unwrap();
        seen.extend_from_slice(&some[..read]);
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
    }
    assert_begins(&String::from_utf8_lossy(&seen), "HTTP/1.1 200");
    sleep(Duration::from_millis(100)).await;
}

/// Waits until a draft's request is upstream.
async fn until_asked(stage: &Fixture) {
    while stage.provider.requests().len() < 2 {
        sleep(Duration::from_millis(2)).await;
    }
}

/// A command without an answer or a trace, because the process was killed or baton was not in use. The user's
/// next message is sent without it.
async fn never_answered(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    talk.history.push(talk.user("::handoff --force the reader"));
    talk.says("More.", thought("Second.")).await;
    assert_eq!(talk.sent(), [&WORKED[..], &["u: More."]].concat());
    let sent = talk.elements();
    // Two in a row, and one that is answered after them.
    for text in ["::pin Be brief.", "  ::handoff undo"] {
        talk.history.push(talk.user(text));
    }
    assert_contains(&talk.command("::pins").await, "nothing is pinned");
    talk.says("Third.", thought("So.")).await;
    assert_eq!(talk.elements()[..sent.len()], sent, "the prefix stays");
    assert_eq!(talk.sent()[5..], ["a: Second.", "u: Third."]);
    // A command that the user only mentions is plain text.
    talk.history.truncate(2);
    talk.history.push(talk.user("See ::pin there."));
    talk.says("More.", "So.").await;
    assert_contains(talk.sent().last().unwrap(), "See ::pin there.");
    talk.assert_clean();
}

/// An agent whose connection broke repeats the request. It gets the existing handoff, and no second one is
/// written.
async fn sent_again(variant: Variant) {
    const COMMAND: &str = "::handoff --force the reader";
    let mut talk = Talk::worked(variant).await;
    // More than an unread connection buffers, and within the limits of a prompt and a leg. Each character is
    // six bytes of JSON, and occurs five times in a stream of Responses.
    let is_responses = (variant.path)(true) == (variants::RESPONSES.path)(true);
    let characters = if is_responses { 220_000 } else { 700_000 };
    let long = format!("{DOCUMENT}\n{}", "\u{1}".repeat(characters));
    talk.push(Reply::text(&long).deltas(50_000));
    talk.history.push(talk.user(COMMAND));
    leaves(&talk).await;
    // The proxy notices it.
    sleep(Duration::from_millis(300)).await;
    assert!(talk.baton.drafting.all_open().is_empty());
    let legs = talk.provider.generations().len();
    let again = talk.goes_on().await.text;
    assert_eq!(
        talk.provider.generations().len(),
        legs,
        "nothing was written again"
    );
    assert_begins(&again, "baton: handed over (written by the model), ");
    assert_lacks(&again, " 0 B");
    talk.says("Go on.", thought("Next.")).await;
    let [sent] = &talk.sent()[..] else {
        panic!("{:?}", talk.sent())
    };
    assert_contains(sent, DOCUMENT);
    // The same words later lead to another handoff.
    let later = talk.says(COMMAND, DOCUMENT).await.text;
    let id = |text: &str| text.split("[[handoff-resume:").nth(1).unwrap()[..36].to_owned();
    assert_ne!(id(&later), id(&again));
    talk.assert_clean();
}

/// The store fails while the model writes. Nothing is cut, the user is notified, and the next request is
/// whole.
async fn store_fails_meanwhile(variant: Variant) {
    let store = FlakyStore::new(memory());
    let mut talk = Talk::worked_in(Fixture::with(variant, [], store.clone(), |_| {}).await).await;
    talk.push(Reply::text(DOCUMENT).head_delay(Duration::from_millis(150)));
    talk.history.push(talk.user("::handoff --force"));
    let fails = async {
        until_asked(&talk).await;
        store.no_writes.store(true, Ordering::SeqCst);
    };
    let (answer, ()) = tokio::join!(talk.ask(&talk.history, true), fails);
    assert_contains(
        &answer.text,
        "no handoff was made: the store of handoffs cannot be written (the proxy's log has the cause).",
    );
    assert_lacks(&answer.text, "[[handoff-resume");
    store.no_writes.store(false, Ordering::SeqCst);
    assert!(talk.baton.drafting.all_open().is_empty());
    talk.history.extend(answer.keep);
    talk.says("Well.", thought("So.")).await;
    assert_eq!(talk.sent()[2..], ["u: Go on.", "a: First.", "u: Well."]);
    talk.assert_clean();
}

/// If two arrive at once, the second learns of the first, and may cancel it.
async fn two_at_once(variant: Variant) {
    let mut talk = Talk::worked(variant).await;
    talk.push(Reply::text(DOCUMENT).head_delay(Duration::from_secs(20)));
    let with = |text: &str| [&talk.history[..], &[talk.user(text)]].concat();
    let first = with("::handoff --force");
    let others = async {
        until_asked(&talk).await;
        let mut said = Vec::new();
        for text in [
            "::handoff --force the tests",
            "::handoff status",
            "::handoff cancel",
        ] {
            said.push(talk.ask(&with(text), true).await.text);
        }
        assert_eq!(talk.provider.requests().len(), 2, "nothing goes upstream");
        said
    };
    let (answer, said) = tokio::join!(talk.ask(&first, true), others);
    let [busy, status, cancelled] = &said[..] else {
        panic!()
    };
    assert_contains(busy, "a handoff is already being written (");
    let id = busy.split('(').nth(1).unwrap().split(')').next().unwrap();
    assert_contains(status, &format!("A handoff is being written ({id})"));
    assert_contains(cancelled, "was cancelled");
    assert_contains(&answer.text, "no handoff was made: cancelled.");
    assert!(talk.baton.drafting.all_open().is_empty());
    talk.history = [first, answer.keep].concat();
    talk.says("Well.", thought("So.")).await;
    assert_eq!(talk.sent()[2..], ["u: Go on.", "a: First.", "u: Well."]);
    assert_eq!(talk.script.left(), 0);
}
