//! The proxy with a scripted provider as upstream, for an agent on Anthropic Messages, and a store that fails
//! on demand.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};
use baton_llm::state::config::Config;
use baton_llm::state::store::records::{
    Lookup, PlacedKind, PlacedRecord, RecordKind, RecordPage, ResponseId, Retention, StoredRecord,
};
use baton_llm::state::store::{DocumentFilter, HandoffFilter, SharedStore, Store, StoreError, StoreResult};
use baton_strict::{Options, Queue, Received, Reply, Strict};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::anthropic::Anthropic;
use super::{AgentWire, Baton, Message, RawResponse, config, memory};

/// Carry-over prompt of [`handoff`].
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

    /// Sends a streamed turn. Panics unless the response is complete.
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

    /// Sends a turn, and returns what has come of its response.
    pub async fn heard(&self, history: &[Value], stream: bool) -> Message {
        let response = self
            .baton
            .turn(&Anthropic, &Anthropic.body(history, stream))
            .await;
        Anthropic.parse(&response.raw, stream, response.broken).unwrap()
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

/// Extends `history` by a response and the next user message.
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

/// Text of a request's messages, in order, each prefixed by the first letter of its role.
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

/// Text blocks of a response.
pub fn said(message: &Message) -> Vec<&str> {
    message
        .content
        .iter()
        .filter_map(|b| b["text"].as_str())
        .collect()
}

/// A store whose reads and writes can be made to fail or to wait.
pub struct FlakyStore {
    pub inner: SharedStore,
    pub no_reads: AtomicBool,
    pub no_writes: AtomicBool,
    held: Mutex<Option<Held>>,
    insertion_reads: AtomicUsize,
}

/// The first channel reports that a lookup has read, the second one releases its result.
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

    /// Holds the next lookup of pairs next to calls: it sends on `reached` after reading, and returns after
    /// `go_on`.
    pub fn hold_look_up(&self, reached: oneshot::Sender<()>, go_on: oneshot::Receiver<()>) {
        *self.held.lock().unwrap() = Some((reached, go_on));
    }

    /// Number of times that insertions were read.
    pub fn insertion_reads(&self) -> usize {
        self.insertion_reads.load(Ordering::SeqCst)
    }

    async fn read<T>(&self, answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        unless(&self.no_reads, answer).await
    }

    async fn write<T>(&self, answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        unless(&self.no_writes, answer).await
    }
}

async fn unless<T>(off: &AtomicBool, answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    match off.load(Ordering::SeqCst) {
        true => Err(StoreError::new("switched off by the test")),
        false => answer.await,
    }
}

#[async_trait]
impl Store for FlakyStore {
    fn kind(&self) -> &'static str {
        "memory"
    }
    async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Handoff>> {
        self.read(self.inner.handoff(principal, id)).await
    }
    async fn put(&self, action: &'static str, records: Vec<StoredRecord>) -> StoreResult<()> {
        self.write(self.inner.put(action, records)).await
    }
    async fn put_with(
        &self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome> {
        self.write(self.inner.put_with(action, records, update)).await
    }
    async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>> {
        self.read(self.inner.handoffs(filter)).await
    }
    async fn archive(&self, principal: &str, id: HandoffId, archived: bool) -> StoreResult<bool> {
        self.write(self.inner.archive(principal, id, archived)).await
    }
    async fn find(
        &self,
        kind: PlacedKind,
        principal: &str,
        by: Lookup<'_>,
    ) -> StoreResult<Vec<PlacedRecord>> {
        if kind == PlacedKind::Insertion {
            self.insertion_reads.fetch_add(1, Ordering::SeqCst);
        }
        let found = self.read(self.inner.find(kind, principal, by)).await;
        let is_held = matches!((kind, by), (PlacedKind::Pair, Lookup::Places(_)));
        let held = is_held.then(|| self.held.lock().unwrap().take()).flatten();
        if let Some((reached, go_on)) = held {
            reached.send(()).unwrap();
            go_on.await.unwrap();
        }
        found
    }
    fn may_have_insertions(&self) -> bool {
        self.inner.may_have_insertions()
    }
    async fn conversation(&self, key: &str) -> StoreResult<Option<Conversation>> {
        self.read(self.inner.conversation(key)).await
    }
    async fn response(&self, principal: &str, shown: &str) -> StoreResult<Option<ResponseId>> {
        self.read(self.inner.response(principal, shown)).await
    }
    async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>> {
        self.write(self.inner.put_document(document)).await
    }
    async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>> {
        self.read(self.inner.documents(filter)).await
    }
    async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>> {
        self.write(self.inner.set_document_status(principal, id, status))
            .await
    }
    async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>> {
        self.write(self.inner.archive_documents(before_ms)).await
    }
    async fn sweep(&self, retention: &Retention) -> StoreResult<u64> {
        self.write(self.inner.sweep(retention)).await
    }
    async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage> {
        self.read(self.inner.page(kind, after)).await
    }
    async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        self.write(self.inner.import(records)).await
    }
    async fn delete(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        self.write(self.inner.delete(records)).await
    }
    async fn has(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        self.read(self.inner.has(records)).await
    }
    async fn ping(&self) -> StoreResult<()> {
        self.read(self.inner.ping()).await
    }
}
