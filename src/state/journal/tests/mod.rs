//! Tests of the journal in isolation: notes go in as the proxy creates them, and are read back.

mod bodies;
mod bounds;
mod cuts;
mod retention;
mod rows;
mod search;
mod secrets;

use std::ops::Deref;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::*;
use crate::telemetry::{ExchangeEvent, ExchangeFacts};
use baton_core::record::WireId;
use baton_core::rewrite::{ChangeReason, SizeChange};
use baton_core::wire::{self, LocatedBody, Operation, StopReason, Usage};

const TIMEOUT: Duration = Duration::from_secs(20);

fn settings() -> Settings {
    Settings {
        enabled: true,
        max_bytes: 1 << 40,
        max_age: Duration::from_secs(86_400 * 36_500),
        redact: vec!["hunter[0-9]".to_owned()],
        secrets: vec![crate::config::Secret::new("our own key")],
        queue_bytes: 64 << 20,
        response_bytes: 1 << 20,
        cache_bytes: 1 << 20,
    }
}

fn started(dir: &Path) -> Recorder {
    start(&settings(), dir, &[]).unwrap()
}

/// A journal in a directory of its own.
struct TestJournal {
    recorder: Recorder,
    dir: tempfile::TempDir,
}

impl TestJournal {
    fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a journal with other settings.
    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings();
        change(&mut settings);
        let recorder = start(&settings, dir.path(), &[]).unwrap();
        Self { recorder, dir }
    }

    /// Reads what was noted so far.
    fn read(&self) -> JournalReader {
        assert!(self.flush(TIMEOUT));
        query(self.dir.path())
    }
}

impl Deref for TestJournal {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

/// Begins to write to a new file.
fn new_archive(dir: &Path) -> Archive {
    archive_of(schema::make(dir).unwrap())
}

fn archive_of(conn: rusqlite::Connection) -> Archive {
    Archive::new(conn, Redactor::new(&[]), Vec::new(), 1 << 20).unwrap()
}

fn id(n: u32) -> String {
    uuid::Uuid::from_u128(0x0199_a3c2_0000_7000_8000_0000_0000_0000 + u128::from(n)).to_string()
}

fn begun(id: &str, conversation: &str, received: &Bytes) -> ReceivedRequest {
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", "sk-ant-REAL0123456789".parse().unwrap());
    headers.insert("anthropic-version", "2023-06-01".parse().unwrap());
    ReceivedRequest {
        id: id.to_owned(),
        at_ms: crate::clock::now_ms(),
        principal: "local".to_owned(),
        conversation: Some(conversation.to_owned()),
        wire: WireId::Anthropic,
        operation: Operation::Generate,
        upstream: "anthropic".to_owned(),
        route: "POST /v1/messages".to_owned(),
        model: Some("m".to_owned()),
        headers: PackedHeaders::new(&headers),
        received: Arc::new(
            wire::wire(WireId::Anthropic)
                .located(received, Operation::Generate)
                .into(),
        ),
    }
}

fn over(id: &str, conversation: &str, received: usize, sent: &[usize]) -> ExchangeEvent {
    ExchangeEvent {
        wire: Some(WireId::Anthropic),
        conversation: Some(conversation.to_owned()),
        facts: ExchangeFacts {
            status: 200,
            received_bytes: received as u64,
            sent_bytes: sent.iter().map(|n| *n as u64).collect(),
            ..ExchangeFacts::default()
        },
        ..ExchangeEvent::new(id, "anthropic", "POST /v1/messages")
    }
}

fn leg_of(rope: &[Bytes], changes: &[SizeChange]) -> SentLeg {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer sk-REAL0123456789".parse().unwrap());
    headers.insert("accept-encoding", "identity".parse().unwrap());
    SentLeg {
        url: "https://api.example/v1/messages".to_owned(),
        headers: PackedHeaders::new(&headers),
        rope: rope.to_vec(),
        request: Arc::default(),
        changes: changes.to_vec(),
    }
}

/// Records one exchange with one leg, like the proxy does.
fn note(
    recorder: &Recorder,
    n: u32,
    received: &Bytes,
    sent: &[Bytes],
    changes: &[SizeChange],
    answer: &Bytes,
) -> String {
    let id = id(n);
    let recording = recorder.exchange(&id);
    recording.begin(|| begun(&id, "c", received));
    recording.sent(|| leg_of(sent, changes));
    recording.answered(200, &HeaderMap::new());
    let mut leg = recording.capture_leg();
    let mut shown = recording.capture_shown(&HeaderMap::new());
    for chunk in [answer.slice(..answer.len() / 2), answer.slice(answer.len() / 2..)] {
        leg.push(&chunk);
        shown.push(&chunk);
    }
    leg.ended();
    shown.ended();
    recording.counted(Usage::default(), StopReason::Done);
    drop((leg, shown));
    let bytes = sent.iter().map(Bytes::len).sum();
    recorder.end(over(&id, "c", received.len(), &[bytes]));
    id
}

/// Records a relayed exchange with an empty response.
fn note_relayed(recorder: &Recorder, n: u32, received: &Bytes) -> String {
    let answer = Bytes::from_static(b"{}");
    note(recorder, n, received, from_ref(received), &[], &answer)
}

fn body(messages: &[Value]) -> Bytes {
    let body = json!({"model": "m", "max_tokens": 4096, "system": "s".repeat(2000), "messages": messages,
        "tools": [{"name": "read", "description": "d".repeat(900), "input_schema": {}}]});
    body.to_string().into()
}

fn chat_message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn query(dir: &Path) -> JournalReader {
    JournalReader::open(dir).unwrap().unwrap()
}

/// Returns the agent's request of an exchange as stored.
fn stored_request(dir: &Path, id: &str) -> Option<Vec<u8>> {
    query(dir).body(id, BodySide::Received).unwrap()
}

/// Returns a conversation in which each turn adds `words` new words.
fn talk(turns: usize, words: usize) -> Vec<Value> {
    let text = |turn: usize| {
        let words = (0..words).map(|i| format!("w{:x}", (turn * 7919 + i * 104_729) % 50_021));
        words.collect::<Vec<_>>().join(" ")
    };
    (0..turns)
        .flat_map(|turn| {
            [
                chat_message("user", &format!("{turn} {}", text(2 * turn))),
                chat_message("assistant", &text(2 * turn + 1)),
            ]
        })
        .collect()
}

/// Records a request that the proxy has parsed.
fn arrive(recorder: &Recorder, n: u32, received: &Bytes) -> String {
    let id = id(n);
    recorder.exchange(&id).begin(|| begun(&id, "c", received));
    recorder.end(over(&id, "c", received.len(), &[]));
    id
}
