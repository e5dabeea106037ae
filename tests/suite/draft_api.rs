//! Handoffs through the API of the admin listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use baton_core::record::{DocumentRecord, HandoffStatus};
use baton_llm::serve::admin::readiness::Report;
use baton_llm::serve::admin::{self, AdminState};
use baton_llm::state::jobs::drafts::DraftRecord;
use baton_llm::state::journal::Recorder;
use baton_llm::state::prices;
use baton_llm::state::store::SharedStore;
use baton_llm::state::telemetry::Metrics;
use baton_strict::Reply;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::fixture::FlakyStore;
use crate::harness::texts::{assert_begins, assert_contains, assert_ends};
use crate::harness::{config, memory};
use crate::matrix::fixture::{Fixture, behind_line, fresh};
use crate::matrix::talk::Talk;
use crate::matrix::variants::ANTHROPIC;

struct Api {
    talk: Talk,
    address: SocketAddr,
    key: String,
    store: SharedStore,
    _stop: tokio::sync::oneshot::Sender<()>,
}

const TYPE: &str = "content-type: application/json\r\n";

impl Api {
    async fn start() -> Self {
        Self::over(memory()).await
    }

    async fn over(store: SharedStore) -> Self {
        let mut talk = Talk::opened(Fixture::with(ANTHROPIC, [], store.clone(), |_| {}).await);
        talk.says("Go on.", "Looked.").await;
        let key = talk.baton.events(1).await[0].conversation.clone().unwrap();
        let (address, stop) = listen(&talk, store.clone()).await;
        Self {
            talk,
            address,
            key,
            store,
            _stop: stop,
        }
    }

    /// Starts another process with the same store.
    async fn restart(&mut self) {
        self.talk.restart(self.store.clone());
        (self.address, self._stop) = listen(&self.talk, self.store.clone()).await;
    }

    /// Returns status and JSON.
    async fn call(&self, start: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "{start} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body = serde_json::from_str(body).unwrap_or(Value::Null);
        (head[9..12].parse().unwrap(), body)
    }

    /// Requests a handoff. The sessions are short, so a draft is larger than they are.
    async fn ask(&self, headers: &str, body: &Value) -> (u16, Value) {
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut().filter(|body| !body.contains_key("prompt")) {
            fields.entry("force").or_insert(json!(true));
        }
        let start = format!("POST /api/conversations/{}/handoff", self.key);
        self.call(&start, &format!("{TYPE}{headers}"), &body.to_string())
            .await
    }

    /// Requests a handoff, which is accepted. Returns its path.
    async fn asked(&self, body: Value) -> String {
        let (status, asked) = self.ask("", &body).await;
        assert_eq!(status, 202, "{asked}");
        format!("/api/drafts/{}", asked["draft"]["id"].as_str().unwrap())
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(&format!("GET {path}"), "", "").await;
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The draft of a path that [`Self::asked`] returned, as the proxy has it.
    fn draft(&self, path: &str) -> DraftRecord {
        let id = path.rsplit('/').next().unwrap().parse().unwrap();
        self.talk.baton.drafting.get(id).unwrap()
    }
}

async fn listen(fixture: &Fixture, store: SharedStore) -> (SocketAddr, tokio::sync::oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = AdminState {
        metrics: Arc::new(Metrics::new()),
        ready: Arc::new(|| Box::pin(async { Report::default() })),
        config: Arc::new(config("")),
        journal: Recorder::off(),
        store,
        drafting: Arc::clone(&fixture.baton.drafting),
        sessions: Arc::clone(&fixture.baton.sessions),
        prices: prices::table(None).unwrap(),
        data_listener: Some(fixture.baton.addr),
        instance: "here:1".to_owned(),
        started: Instant::now(),
    };
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let stopped = Box::pin(async { stopped.await.unwrap_or_default() });
    tokio::spawn(admin::serve(listener, None, Arc::new(state), stopped));
    (address, stop)
}

/// The state of a draft and its method.
fn state(body: &Value) -> [&str; 2] {
    ["state", "method"].map(|key| body["draft"][key].as_str().unwrap_or("none"))
}

#[tokio::test]
async fn a_handoff_is_asked_for_and_made_with_the_next_request() {
    let mut api = Api::start().await;
    let body = json!({"focus": "the exporter"});
    let (status, asked) = api.ask("idempotency-key: k1\r\n", &body).await;
    assert_eq!((status, state(&asked)[0]), (202, "asked"), "{asked}");
    let id = asked["draft"]["id"].as_str().unwrap();
    let (status, again) = api.ask("idempotency-key: k1\r\n", &body).await;
    assert_eq!((status, &again["draft"]["id"]), (202, &asked["draft"]["id"]));
    let (status, busy) = api.ask("", &body).await;
    assert_eq!(
        (status, &busy["error"]["code"]),
        (409, &json!("already_drafting"))
    );
    assert_ends(busy["error"]["message"].as_str().unwrap(), id);
    assert_eq!(api.get("/api/drafts").await["drafts"][0]["id"], id);
    assert_eq!(api.get("/api/status").await["drafts"][0]["origin"], "api");
    api.talk.push(Reply::text("## Goal\nMend it."));
    let answer = api.talk.says("Now the exporter.", fresh()).await;
    assert_ends(&answer.text, "Fresh.");
    let done = api.get(&format!("/api/drafts/{id}")).await;
    assert_eq!(state(&done), ["done", "oneshot"]);
    assert_contains(&answer.text, done["handoff"].as_str().unwrap());
    assert_begins(
        done["document"].as_str().unwrap(),
        "Goal: the exporter\n\n## Goal\nMend it.",
    );
    assert_eq!(api.get("/api/drafts").await["drafts"], json!([]));
    let (status, ended) = api.call(&format!("DELETE /api/drafts/{id}"), "", "").await;
    assert_eq!((status, &ended["error"]["code"]), (409, &json!("ended")));
    api.talk.assert_clean();
}

#[tokio::test]
async fn what_is_wrong_is_told_and_changes_nothing() {
    let api = Api::start().await;
    let start = format!("POST /api/conversations/{}/handoff", api.key);
    let [unkeyed, foreign] =
        ["idempotency-key: ", "origin: https://evil.example"].map(|line| format!("{TYPE}{line}\r\n"));
    for (start, headers, body, status) in [
        (start.as_str(), "", "{}", 400),
        (&start, TYPE, "{", 400),
        (&start, TYPE, "[]", 400),
        (&start, &unkeyed, "{}", 400),
        (&start, &foreign, "{}", 403),
        ("POST /api/conversations/nobody/handoff", TYPE, "{}", 404),
        (
            "DELETE /api/drafts/0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11",
            "",
            "",
            404,
        ),
        ("DELETE /api/handoffs/x", "", "", 405),
        ("PUT /api/drafts/x", "", "", 405),
        ("GET /api/drafts/x", "", "", 404),
    ] {
        let called = api.call(start, headers, body).await;
        assert_eq!(called.0, status, "{start} {headers} {body}");
    }
    for (body, field) in [
        (json!({"promt": 1}), "promt"),
        (json!({"method": "fast"}), "method"),
        (json!({"preset": 7}), "preset"),
        (json!({"review": "yes"}), "review"),
        (json!({"prompt": " "}), "prompt"),
        (json!({"prompt": "x".repeat((1 << 20) + 1)}), "prompt"),
        (json!({"prompt": "a", "focus": "b"}), "focus"),
        (json!({"model": ["m"]}), "model"),
    ] {
        let (status, told) = api.ask("", &body).await;
        assert_eq!((status, &told["error"]["field"]), (422, &json!(field)), "{told}");
        assert_begins(told["error"]["message"].as_str().unwrap(), &format!("{field}: "));
    }
    assert!(api.talk.baton.drafting.all_open().is_empty());
}

/// The result contains the handoff, its document, and the document's directory.
#[tokio::test]
async fn a_result_is_whole() {
    let mut api = Api::start().await;
    let path = api.asked(json!({"method": "local"})).await;
    let waits = api.get(&path).await;
    for key in ["handoff", "document", "saved_path"] {
        assert_eq!(waits[key], Value::Null, "{key}");
    }
    let answer = api.talk.says("Now the exporter.", fresh()).await;
    let done = api.get(&path).await;
    let id = done["handoff"].as_str().unwrap();
    assert_contains(&answer.text, id);
    assert!(done["document"].is_string(), "{done}");
    let record = DocumentRecord {
        handoff: id.parse().unwrap(),
        principal: "local".to_owned(),
        repository: String::new(),
        branch: String::new(),
        topic: "a".to_owned(),
        status: HandoffStatus::Active,
        created_ms: 1,
        directory: "/handoffs/one".to_owned(),
        document: "{}".to_owned(),
    };
    api.store.put_document(&record).await.unwrap();
    assert_eq!(api.get(&path).await["saved_path"], "/handoffs/one");
}

/// Each try is in the log event and in the metrics.
#[tokio::test]
async fn a_draft_that_failed_is_told_everywhere() {
    let mut api = Api::start().await;
    let path = api.asked(json!({"method": "oneshot"})).await;
    api.talk.push(Reply::status(500, "no power"));
    api.talk.push(Reply::status(529, "busy"));
    api.talk.says("Now the exporter.", fresh()).await;
    assert_eq!(state(&api.get(&path).await), ["done", "local"]);
    let event = &api.talk.baton.events(2).await[1];
    let tries = event.drafts.iter().map(|draft| (draft.method, draft.outcome));
    let expected = [
        ("oneshot", "provider_error"),
        ("bundle", "provider_error"),
        ("local", "complete"),
    ];
    assert_eq!(tries.collect::<Vec<_>>(), expected);
    let metrics = Metrics::new();
    metrics.record(event);
    let text = metrics.text().unwrap();
    for (method, outcome) in [expected[0], expected[2]] {
        let labels = format!(r#"wire="anthropic",origin="api",method="{method}",outcome="{outcome}""#);
        assert_contains(&text, &format!("baton_drafts_total{{{labels}}} 1"));
    }
}

/// Fewer than two messages after the cut: nothing is requested, and nothing is pending.
#[tokio::test]
async fn a_conversation_that_is_known_to_be_too_short_is_refused_at_once() {
    let mut api = Api::start().await;
    let local = json!({"method": "local"});
    let (_, asked) = api.ask("idempotency-key: early\r\n", &local).await;
    let path = format!("DELETE /api/drafts/{}", asked["draft"]["id"].as_str().unwrap());
    assert_eq!(api.call(&path, "", "").await.0, 200, "{asked}");
    // The model hands over, so the conversation has only begun afterwards.
    api.talk.hands_over("Now the exporter.").await;
    for body in [json!({}), json!({"prompt": "Go on."})] {
        let (status, told) = api.ask("", &body).await;
        let code = &told["error"]["code"];
        assert_eq!((status, code), (422, &json!("nothing_to_hand_off")), "{told}");
        assert_eq!(told["error"]["message"], "nothing to hand off yet");
    }
    assert!(api.talk.baton.drafting.all_open().is_empty());
    // An earlier request is reported again.
    let (status, again) = api.ask("idempotency-key: early\r\n", &local).await;
    assert_eq!((status, &again["draft"]["id"]), (202, &asked["draft"]["id"]));
    api.talk.says("Go on.", "More.").await;
    let path = api.asked(json!({"method": "oneshot"})).await;
    api.talk.push(Reply::text("## Goal\nMend it."));
    api.talk.says("And now.", fresh()).await;
    assert_eq!(state(&api.get(&path).await)[0], "done");
}

/// A process that has not seen the conversation cannot decide, so the draft reports it.
#[tokio::test]
async fn where_nothing_is_known_of_a_conversation_the_draft_tells_that_it_is_too_short() {
    let mut api = Api::start().await;
    api.restart().await;
    let path = api.asked(json!({})).await;
    api.talk.history.clear();
    api.talk.says("Mend the importer.", "Went on.").await;
    let told = api.draft(&path);
    assert_eq!(told.result.failure, Some("nothing_to_hand_off"));
    assert_eq!(told.why.as_deref(), Some("nothing to hand off yet"));
    assert_eq!(api.talk.baton.drafting.newest_in(&api.key).unwrap().id, told.id);
    let tried = &api.talk.baton.events(1).await[0].drafts[0];
    assert_eq!((tried.method, tried.outcome), ("none", "nothing_to_hand_off"));
}

/// Nothing is cut before a user's approval. The user may change the document, and later messages are kept.
#[tokio::test]
async fn a_reviewed_draft_takes_effect_when_it_is_accepted() {
    for edited in [None, Some("## Goal\nOnly the tests.")] {
        let mut api = Api::start().await;
        let path = api.asked(json!({"review": true})).await;
        let start = format!("POST {path}/accept");
        assert_eq!(api.call(&start, TYPE, "{}").await.0, 409, "not written yet");
        api.talk.push(Reply::text("## Goal\nMend it."));
        let answer = api.talk.says("Now the exporter.", "Went on.").await;
        let told = behind_line(&answer.text).unwrap();
        assert_begins(told, "baton: the draft waits for your approval: ");
        assert_ends(told, "Went on.");
        let written = api.get(&path).await;
        assert_eq!(state(&written)[0], "review");
        assert_begins(written["document"].as_str().unwrap(), "## Goal\nMend it.");
        let body = edited.map_or(json!({}), |text| json!({"document": text}));
        if edited.is_some() {
            api.restart().await;
        }
        let (status, accepted) = api.call(&start, TYPE, &body.to_string()).await;
        assert_eq!((status, state(&accepted)[0]), (200, "accepted"), "{accepted}");
        let answer = api.talk.says("And the tests.", fresh()).await;
        assert_ends(&answer.text, "Fresh.");
        let seen = api.talk.sent();
        let begins = edited.unwrap_or("## Goal\nMend it.");
        assert_begins(&seen[0], &format!("u: <handoff-context>\n{begins}"));
        assert_ends(&seen[0], "\n\nNow the exporter.");
        assert_eq!(seen[1..], ["a: Went on.", "u: And the tests."]);
        assert_eq!(state(&api.get(&path).await)[0], "done");
        api.talk.assert_clean();
    }
}

/// A store that cannot be read does not mean that the conversation is unknown.
#[tokio::test]
async fn a_store_that_cannot_be_read_is_told() {
    let store = FlakyStore::new(memory());
    let api = Api::over(store.clone()).await;
    for (is_down, status) in [(true, 503), (false, 202)] {
        store.no_reads.store(is_down, Ordering::SeqCst);
        assert_eq!(api.ask("", &json!({})).await.0, status);
    }
}

#[tokio::test]
async fn a_rejected_draft_changes_nothing_and_others_can_be_asked_for() {
    let mut api = Api::start().await;
    let path = api.asked(json!({"review": true, "method": "local"})).await;
    api.talk.says("Now the exporter.", "Went on.").await;
    assert_eq!(api.get("/api/drafts").await["drafts"][0]["state"], "review");
    let (status, rejected) = api.call(&format!("POST {path}/reject"), "", "").await;
    assert_eq!((status, state(&rejected)[0]), (200, "rejected"));
    assert_eq!(api.talk.says("More.", "And on.").await.text, "And on.");
    assert_eq!(api.ask("", &json!({})).await.0, 202);
    api.talk.assert_clean();
}
