//! Commands that are interrupted, repeated, or sent beside each other.

use std::sync::atomic::Ordering;

use baton_strict::Reply;
use pretty_assertions::assert_eq;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use super::{DOCUMENT, and, command, elements, says, thought};
use crate::harness::fixture::FlakyStore;
use crate::harness::memory;
use crate::harness::texts::{assert_begins, assert_contains};
use crate::matrix::fixture::Fixture;
use crate::matrix::variants::{self, Variant, on_every_wire};

on_every_wire!(never_answered sent_again store_fails_meanwhile two_at_once;);

/// Beginning of baton's answer to a handoff, after the progress line.
const SHOWN: &[u8] = b"baton: handed over";

/// Sends a request, reads the beginning of the response, and disconnects.
async fn leaves(stage: &Fixture, path: &str, headers: &[(&str, &str)], body: &str) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(stage.baton.addr).await.unwrap();
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n",
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
    let seen = String::from_utf8_lossy(&seen);
    assert_begins(&seen, "HTTP/1.1 200");
    assert_contains(&seen, "baton: handed over");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// Waits until a draft's request is upstream.
async fn until_asked(stage: &Fixture, requests: usize) {
    while stage.provider.requests().len() < requests {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// A command without an answer or a trace, because the process was killed or baton was not in use. The user's
/// next message is sent without it.
async fn never_answered(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = stage.then(&history, &answer, "::handoff --force the reader");
    let next = and(&stage, &now, "More.");
    let answer = says(&stage, &next, thought("Second.")).await;
    let all = [
        "u: Mend the importer.",
        "a: Looking.",
        "u: Go on.",
        "a: First.",
        "u: More.",
    ];
    assert_eq!(stage.sent(), all);
    let sent = elements(&stage);
    // Two in a row, and one that is answered after them.
    let mut now = [&next[..], &answer.keep].concat();
    for text in ["::pin Be brief.", "  ::handoff undo"] {
        now = and(&stage, &now, text);
    }
    let (text, now) = command(&stage, &now, "::pins").await;
    assert!(text.contains("nothing is pinned"), "{text}");
    says(&stage, &and(&stage, &now, "Third."), thought("So.")).await;
    assert_eq!(elements(&stage)[..sent.len()], sent, "the prefix stays");
    assert_eq!(stage.sent()[5..], ["a: Second.", "u: Third."]);
    // A command that the user only mentions is plain text.
    let said = and(&stage, &and(&stage, &history, "See ::pin there."), "More.");
    says(&stage, &said, Reply::text("So.")).await;
    assert!(stage.sent().last().unwrap().contains("See ::pin there."));
    stage.assert_clean();
}

/// An agent whose connection broke repeats the request. It gets the existing handoff, and no second one is
/// written.
async fn sent_again(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = stage.then(&history, &answer, "::handoff --force the reader");
    // More than an unread connection buffers, and within the limits of a prompt and a leg. Each character is
    // six bytes of JSON, and occurs five times in a stream of Responses.
    let characters = if (variant.path)(true) == (variants::RESPONSES.path)(true) {
        220_000
    } else {
        700_000
    };
    let long = format!("{DOCUMENT}\n{}", "\u{1}".repeat(characters));
    stage.push(Reply::text(&long).deltas(50_000));
    let body = (variant.body)(&now, true).to_string();
    leaves(&stage, (variant.path)(true), variant.headers, &body).await;
    // The proxy notices it.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(stage.baton.drafting.all_open().is_empty());
    let legs = stage.provider.generations().len();
    let again = stage.ask(&now, true).await;
    assert_eq!(
        stage.provider.generations().len(),
        legs,
        "nothing was written again"
    );
    assert_begins(&again.text, "baton: handed over (written by the model), ");
    assert!(!again.text.contains(" 0 B"), "{}", again.text);
    let next = stage.then(&now, &again, "Go on.");
    let answer = says(&stage, &next, thought("Next.")).await;
    let sent = stage.sent();
    assert!(sent.len() == 1 && sent[0].contains(DOCUMENT), "{sent:?}");
    // The same words later lead to another handoff.
    stage.push(Reply::text(DOCUMENT));
    let later = stage
        .ask(&stage.then(&next, &answer, "::handoff --force the reader"), true)
        .await;
    let id = |text: &str| text.split("[[handoff-resume:").nth(1).unwrap()[..36].to_owned();
    assert_ne!(id(&later.text), id(&again.text));
    stage.assert_clean();
}

/// The store fails while the model writes. Nothing is cut, the user is notified, and the next request is
/// whole.
async fn store_fails_meanwhile(variant: Variant) {
    let store = FlakyStore::new(memory());
    let stage = Fixture::with(variant, [], store.clone(), |_| {}).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = stage.then(&history, &answer, "::handoff --force");
    let slow = std::time::Duration::from_millis(150);
    stage.push(Reply::text(DOCUMENT).head_delay(slow));
    let fails = async {
        until_asked(&stage, 2).await;
        store.no_writes.store(true, Ordering::SeqCst);
    };
    let (answer, ()) = tokio::join!(stage.ask(&now, true), fails);
    let text = &answer.text;
    let part = "no handoff was made: the store of handoffs cannot be written.";
    assert_contains(text, part);
    assert!(!text.contains("[[handoff-resume"), "{text}");
    store.no_writes.store(false, Ordering::SeqCst);
    assert!(stage.baton.drafting.all_open().is_empty());
    says(&stage, &stage.then(&now, &answer, "Well."), thought("So.")).await;
    assert_eq!(stage.sent()[2..], ["u: Go on.", "a: First.", "u: Well."]);
    stage.assert_clean();
}

/// If two arrive at once, the second learns of the first, and may cancel it.
async fn two_at_once(variant: Variant) {
    let stage = Fixture::new(variant, []).await;
    let history = stage.history();
    let answer = says(&stage, &history, thought("First.")).await;
    let now = [&history[..], &answer.keep].concat();
    let slow = std::time::Duration::from_secs(20);
    stage.push(Reply::text(DOCUMENT).head_delay(slow));
    let first = and(&stage, &now, "::handoff --force");
    let others = async {
        until_asked(&stage, 2).await;
        let (busy, _) = command(&stage, &now, "::handoff --force the tests").await;
        let (status, _) = command(&stage, &now, "::handoff status").await;
        let (cancelled, _) = command(&stage, &now, "::handoff cancel").await;
        (busy, status, cancelled)
    };
    let (answer, (busy, status, cancelled)) = tokio::join!(stage.ask(&first, true), others);
    assert!(busy.contains("a handoff is already being written ("), "{busy}");
    let id = busy.split('(').nth(1).unwrap().split(')').next().unwrap();
    assert_contains(&status, &format!("A handoff is being written ({id})"));
    assert!(cancelled.contains("was cancelled"), "{cancelled}");
    assert_contains(&answer.text, "no handoff was made: cancelled.");
    assert!(stage.baton.drafting.all_open().is_empty());
    says(&stage, &stage.then(&first, &answer, "Well."), thought("So.")).await;
    assert_eq!(stage.sent()[2..], ["u: Go on.", "a: First.", "u: Well."]);
    assert_eq!(stage.script.left(), 0);
}
