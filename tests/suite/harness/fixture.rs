//! The proxy in front of a scripted provider, for an agent on Anthropic Messages; and a store that fails on demand.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};
use baton_llm::state::config::Config;
use baton_llm::state::store::records::{
    Lookup, PlacedKind, PlacedRecord, RecordKind, RecordPage, Retention, StoredRecord,
};
use baton_llm::state::store::{DocumentFilter, HandoffFilter, SharedStore, Store, StoreError, StoreFuture};
use baton_strict::{Options, Queue, Received, Reply, Strict};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::anthropic::Anthropic;
use super::{AgentWire, Baton, Message, RawResponse, config, memory};

/// The carry-over prompt of [`handoff`].
pub const PROMPT: &str = "Goal: skip BOMs.\nNext: reader.rs.";

pub struct AnthropicFixture {
    pub script: Queue,
    pub provider: Strict,
    pub baton: Baton,
}

impl AnthropicFixture {
    pub async fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with(replies, memory(), |_| {}).await
    }

    pub async fn with(
        replies: impl IntoIterator<Item = Reply>,
        store: SharedStore,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let script = Queue::new(replies);
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let mut config = config(&provider.url());
        change(&mut config);
        Self {
            script,
            baton: Baton::start(config, store),
            provider,
        }
    }

    /// Sends a streamed turn; panics unless the answer is complete.
    pub async fn turn(&self, history: &[Value]) -> Message {
        let response = self.ask(history).await;
        assert_eq!(
            (response.status, response.broken),
            (200, false),
            "{}",
            response.text()
        );
        let message = Anthropic.parse(&response.raw, true, false);
        let message = message.unwrap_or_else(|e| panic!("{e}\n{}", response.text()));
        assert!(message.ended, "{}", response.text());
        message
    }

    /// Sends a streamed turn.
    pub async fn ask(&self, history: &[Value]) -> RawResponse {
        self.baton.turn(&Anthropic, &Anthropic.body(history, true)).await
    }

    /// The last request that upstream received.
    pub fn last(&self) -> Arc<Received> {
        self.provider.requests().last().unwrap().clone()
    }

    pub fn assert_clean(&self) {
        assert_eq!(self.provider.complaints(), []);
    }
}

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub fn assistant(content: &[Value]) -> Value {
    json!({"role": "assistant", "content": content})
}

/// A history long enough to be handed off.
pub fn history() -> Vec<Value> {
    vec![
        user("Mend the importer."),
        json!({"role": "assistant", "content": "Looking."}),
        user("Go on."),
    ]
}

/// `history`, then an answer and the next user message.
pub fn then(history: &[Value], message: &Message, next: &str) -> Vec<Value> {
    [history, &[assistant(&message.content), user(next)]].concat()
}

/// A reply that calls the handoff.
pub fn handoff() -> Reply {
    handoff_to(PROMPT)
}

pub fn handoff_to(prompt: &str) -> Reply {
    Reply::text("Done with that.").call("session_handoff", json!({"prompt": prompt, "reason": "done"}))
}

/// The texts of a request's messages, in order, each with the first letter of its role.
pub fn texts(messages: &[Value]) -> Vec<String> {
    let text = |m: &Value| match &m["content"] {
        Value::String(text) => text.clone(),
        blocks => {
            let all = blocks.as_array().unwrap().iter();
            all.map(|b| {
                b["text"]
                    .as_str()
                    .unwrap_or(b["type"].as_str().unwrap())
                    .to_owned()
            })
            .collect::<Vec<_>>()
            .join("|")
        }
    };
    let line = |m: &Value| format!("{}: {}", &m["role"].as_str().unwrap()[..1], text(m));
    messages.iter().map(line).collect()
}

/// The text blocks of an answer.
pub fn said(message: &Message) -> Vec<&str> {
    message
        .content
        .iter()
        .filter_map(|b| b["text"].as_str())
        .collect()
}

/// A store whose reads and writes can be made to fail, or to wait.
pub struct FlakyStore {
    pub inner: SharedStore,
    pub no_reads: AtomicBool,
    pub no_writes: AtomicBool,
    held: Mutex<Option<Held>>,
    insertion_reads: AtomicUsize,
}

/// Sent when a lookup has read; received before it answers.
type Held = (oneshot::Sender<()>, oneshot::Receiver<()>);

impl FlakyStore {
    pub fn new(inner: SharedStore) -> Arc<Self> {
        Arc::new(Self {
            inner,
            no_reads: AtomicBool::new(false),
            no_writes: AtomicBool::new(false),
            held: Mutex::new(None),
            insertion_reads: AtomicUsize::new(0),
        })
    }

    /// The next lookup of pairs next to calls sends on `reached` when it has read, and answers after `go_on`.
    pub fn hold_look_up(&self, reached: oneshot::Sender<()>, go_on: oneshot::Receiver<()>) {
        *self.held.lock().unwrap() = Some((reached, go_on));
    }

    /// How often insertions were asked for.
    pub fn insertion_reads(&self) -> usize {
        self.insertion_reads.load(Ordering::SeqCst)
    }

    fn read<'a, T: Send + 'a>(&'a self, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        unless(&self.no_reads, answer)
    }

    fn write<'a, T: Send + 'a>(&'a self, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        unless(&self.no_writes, answer)
    }
}

fn unless<'a, T: Send + 'a>(off: &AtomicBool, answer: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
    match off.load(Ordering::SeqCst) {
        true => switched_off(),
        false => answer,
    }
}

fn switched_off<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    let message = "switched off by the test".to_owned();
    Box::pin(std::future::ready(Err(StoreError::new(message))))
}

impl Store for FlakyStore {
    fn kind(&self) -> &'static str {
        "memory"
    }
    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> StoreFuture<'a, Option<Handoff>> {
        self.read(self.inner.handoff(principal, id))
    }
    fn put<'a>(&'a self, action: &'static str, records: Vec<StoredRecord>) -> StoreFuture<'a, ()> {
        self.write(self.inner.put(action, records))
    }
    fn put_with<'a>(
        &'a self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        self.write(self.inner.put_with(action, records, update))
    }
    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> StoreFuture<'a, Vec<Handoff>> {
        self.read(self.inner.handoffs(filter))
    }
    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> StoreFuture<'a, bool> {
        self.write(self.inner.archive(principal, id, archived))
    }
    fn find<'a>(
        &'a self,
        kind: PlacedKind,
        principal: &'a str,
        by: Lookup<'a>,
    ) -> StoreFuture<'a, Vec<PlacedRecord>> {
        if kind == PlacedKind::Insertion {
            self.insertion_reads.fetch_add(1, Ordering::SeqCst);
        }
        let found = self.read(self.inner.find(kind, principal, by));
        if !matches!((kind, by), (PlacedKind::Pair, Lookup::Places(_))) {
            return found;
        }
        match self.held.lock().unwrap().take() {
            Some((reached, go_on)) => Box::pin(async move {
                let found = found.await;
                reached.send(()).unwrap();
                go_on.await.unwrap();
                found
            }),
            None => found,
        }
    }
    fn may_have_insertions(&self) -> bool {
        self.inner.may_have_insertions()
    }
    fn conversation<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        self.read(self.inner.conversation(key))
    }
    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> StoreFuture<'a, Option<String>> {
        self.read(self.inner.response_id(principal, shown))
    }
    fn put_document<'a>(&'a self, document: &'a DocumentRecord) -> StoreFuture<'a, Vec<HandoffId>> {
        self.write(self.inner.put_document(document))
    }
    fn documents<'a>(&'a self, filter: &'a DocumentFilter) -> StoreFuture<'a, Vec<DocumentRecord>> {
        self.read(self.inner.documents(filter))
    }
    fn set_document_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>> {
        self.write(self.inner.set_document_status(principal, id, status))
    }
    fn archive_documents(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>> {
        self.write(self.inner.archive_documents(before_ms))
    }
    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64> {
        self.write(self.inner.sweep(retention))
    }
    fn page<'a>(&'a self, kind: RecordKind, after: &'a str) -> StoreFuture<'a, RecordPage> {
        self.read(self.inner.page(kind, after))
    }
    fn import<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        self.write(self.inner.import(records))
    }
    fn has<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        self.read(self.inner.has(records))
    }
    fn ping(&self) -> StoreFuture<'_, ()> {
        self.read(self.inner.ping())
    }
}
