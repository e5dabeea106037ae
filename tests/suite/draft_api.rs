//! Handoffs through the API of the admin listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use baton_core::record::{DocumentRecord, HandoffStatus};
use baton_llm::serve::admin::readiness::Report;
use baton_llm::serve::admin::{self, AdminState};
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
use crate::harness::texts::{assert_begins, assert_ends};
use crate::harness::{config, memory};
use crate::matrix::fixture::{Fixture, behind_line, fresh, handoff, outline};
use crate::matrix::variants::ANTHROPIC;

struct Api {
    fixture: Fixture,
    address: SocketAddr,
    history: Vec<Value>,
    key: String,
    store: SharedStore,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Api {
    async fn start() -> Self {
        let store = memory();
        let fixture = Fixture::with(ANTHROPIC, [Reply::text("Looked.")], store.clone(), |_| {}).await;
        let said = fixture.ask(&fixture.history(), true).await;
        let history = fixture.then(&fixture.history(), &said, "Now the exporter.");
        let key = fixture.baton.events(1).await[0].conversation.clone().unwrap();
        let (address, stop) = listen(&fixture, store.clone()).await;
        Self {
            fixture,
            address,
            history,
            key,
            store,
            _stop: stop,
        }
    }

    /// Starts another process with the same store.
    async fn restart(&mut self) {
        self.fixture.restart(self.store.clone());
        (self.address, self._stop) = listen(&self.fixture, self.store.clone()).await;
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
    async fn ask(&self, key: &str, headers: &str, body: &Value) -> (u16, Value) {
        let mut body = body.clone();
        if let Some(fields) = body.as_object_mut().filter(|body| !body.contains_key("prompt")) {
            fields.entry("force").or_insert(json!(true));
        }
        let headers = format!("content-type: application/json\r\n{headers}");
        let start = format!("POST /api/conversations/{key}/handoff");
        self.call(&start, &headers, &body.to_string()).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(&format!("GET {path}"), "", "").await;
        assert_eq!(status, 200, "{body}");
        body
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
    let stopped = async {
        let _ = stopped.await;
    };
    tokio::spawn(admin::serve(listener, None, Arc::new(state), Box::pin(stopped)));
    (address, stop)
}

#[tokio::test]
async fn a_handoff_is_asked_for_and_made_with_the_next_request() {
    let api = Api::start().await;
    let body = json!({"focus": "the exporter"});
    let (status, asked) = api.ask(&api.key, "idempotency-key: k1\r\n", &body).await;
    assert_eq!(
        (status, &asked["draft"]["state"]),
        (202, &json!("asked")),
        "{asked}"
    );
    let id = asked["draft"]["id"].as_str().unwrap();
    let (status, again) = api.ask(&api.key, "idempotency-key: k1\r\n", &body).await;
    assert_eq!((status, &again["draft"]["id"]), (202, &asked["draft"]["id"]));
    let (status, busy) = api.ask(&api.key, "", &body).await;
    assert_eq!(
        (status, &busy["error"]["code"]),
        (409, &json!("already_drafting"))
    );
    assert!(busy["error"]["message"].as_str().unwrap().ends_with(id), "{busy}");
    assert_eq!(api.get("/api/drafts").await["drafts"][0]["id"], id);
    assert_eq!(api.get("/api/status").await["drafts"][0]["origin"], "api");
    api.fixture.push(Reply::text("## Goal\nMend it."));
    api.fixture.push(fresh());
    let answer = api.fixture.ask(&api.history, true).await;
    assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
    let done = api.get(&format!("/api/drafts/{id}")).await;
    assert_eq!(
        (&done["draft"]["state"], &done["draft"]["method"]),
        (&json!("done"), &json!("oneshot"))
    );
    assert!(answer.text.contains(done["handoff"].as_str().unwrap()));
    assert!(
        done["document"]
            .as_str()
            .unwrap()
            .starts_with("Goal: the exporter\n\n## Goal\nMend it."),
        "{done}"
    );
    assert_eq!(api.get("/api/drafts").await["drafts"], json!([]));
    let (status, ended) = api.call(&format!("DELETE /api/drafts/{id}"), "", "").await;
    assert_eq!((status, &ended["error"]["code"]), (409, &json!("ended")));
    api.fixture.assert_clean();
}

#[tokio::test]
async fn what_is_wrong_is_told_and_changes_nothing() {
    let api = Api::start().await;
    let start = format!("POST /api/conversations/{}/handoff", api.key);
    let json_type = "content-type: application/json\r\n";
    for (start, headers, body, status) in [
        (start.as_str(), "", "{}", 400),
        (&start, json_type, "{", 400),
        (&start, json_type, "[]", 400),
        (&start, json_type, "{\"promt\":1}", 422),
        (&start, json_type, "{\"method\":\"fast\"}", 422),
        (
            &start,
            "content-type: application/json\r\nidempotency-key: \r\n",
            "{}",
            400,
        ),
        (
            &start,
            "content-type: application/json\r\norigin: https://evil.example\r\n",
            "{}",
            403,
        ),
        ("POST /api/conversations/nobody/handoff", json_type, "{}", 404),
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
        assert_eq!(
            api.call(start, headers, body).await.0,
            status,
            "{start} {headers} {body}"
        );
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
        let (status, told) = api.ask(&api.key, "", &body).await;
        assert_eq!((status, &told["error"]["field"]), (422, &json!(field)), "{told}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
    assert!(api.fixture.baton.drafting.all_open().is_empty());
}

/// The result contains the handoff, its document, and the document's directory.
#[tokio::test]
async fn a_result_is_whole() {
    let api = Api::start().await;
    let (_, asked) = api.ask(&api.key, "", &json!({"method": "local"})).await;
    let path = format!("/api/drafts/{}", asked["draft"]["id"].as_str().unwrap());
    let waits = api.get(&path).await;
    assert_eq!(
        [&waits["handoff"], &waits["document"], &waits["saved_path"]],
        [&Value::Null; 3]
    );
    api.fixture.push(fresh());
    let answer = api.fixture.ask(&api.history, true).await;
    let done = api.get(&path).await;
    let id = done["handoff"].as_str().unwrap().to_owned();
    assert!(
        answer.text.contains(&id) && done["document"].is_string(),
        "{done}"
    );
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

/// A failure is reported in the draft, on the conversation's page, in the log event and in the metrics.
#[tokio::test]
async fn a_draft_that_failed_is_told_everywhere() {
    let api = Api::start().await;
    let (_, asked) = api.ask(&api.key, "", &json!({"method": "oneshot"})).await;
    let id = asked["draft"]["id"].as_str().unwrap();
    let replies = [
        Reply::status(500, "no power"),
        Reply::status(529, "busy"),
        fresh(),
    ];
    replies.into_iter().for_each(|reply| api.fixture.push(reply));
    api.fixture.ask(&api.history, true).await;
    let done = api.get(&format!("/api/drafts/{id}")).await;
    assert_eq!(
        (&done["draft"]["state"], &done["draft"]["method"]),
        (&json!("done"), &json!("local"))
    );
    let event = &api.fixture.baton.events(2).await[1];
    let tries: Vec<_> = event
        .drafts
        .iter()
        .map(|draft| (draft.method, draft.outcome))
        .collect();
    assert_eq!(
        tries,
        [
            ("oneshot", "provider_error"),
            ("bundle", "provider_error"),
            ("local", "complete")
        ]
    );
    let metrics = Metrics::new();
    metrics.record(event);
    let text = metrics.text().unwrap();
    for series in [
        r#"baton_drafts_total{wire="anthropic",origin="api",method="oneshot",outcome="provider_error"} 1"#,
        r#"baton_drafts_total{wire="anthropic",origin="api",method="local",outcome="complete"} 1"#,
    ] {
        assert!(text.contains(series), "{series} in {text}");
    }

    // A draft that fails completely.
    let api = Api::start().await;
    let short = &api.history[..1];
    let (_, asked) = api.ask(&api.key, "", &json!({})).await;
    let id: uuid::Uuid = asked["draft"]["id"].as_str().unwrap().parse().unwrap();
    api.fixture.push(Reply::text("Went on."));
    api.fixture.ask(short, true).await;
    let draft = api.fixture.baton.drafting.get(id).unwrap();
    assert_eq!(draft.failure, Some("nothing_to_hand_off"));
    let told = api.fixture.baton.drafting.newest_in(&api.key).unwrap();
    assert_eq!(
        (told.id, told.why.as_deref()),
        (id, Some("nothing to hand off yet"))
    );
    let event = &api.fixture.baton.events(2).await[1];
    assert_eq!(
        (event.drafts[0].method, event.drafts[0].outcome),
        ("none", "nothing_to_hand_off")
    );
}

/// Fewer than two messages after the cut: nothing is requested, and nothing is pending.
#[tokio::test]
async fn a_conversation_that_is_known_to_be_too_short_is_refused_at_once() {
    let api = Api::start().await;
    // The model hands over, so the conversation has only begun afterwards.
    let replies = [
        handoff(),
        fresh(),
        Reply::text("More."),
        Reply::text("## Goal\nMend it."),
        fresh(),
    ];
    replies.into_iter().for_each(|reply| api.fixture.push(reply));
    let (status, asked) = api
        .ask(
            &api.key,
            "idempotency-key: early\r\n",
            &json!({"method": "local"}),
        )
        .await;
    assert_eq!(status, 202, "{asked}");
    let id = asked["draft"]["id"].as_str().unwrap();
    let path = format!("DELETE /api/drafts/{id}");
    assert_eq!(api.call(&path, "", "").await.0, 200);
    let fired = api.fixture.ask(&api.history, true).await;
    for body in [json!({}), json!({"prompt": "Go on."})] {
        let (status, told) = api.ask(&api.key, "", &body).await;
        let code = &told["error"]["code"];
        assert_eq!((status, code), (422, &json!("nothing_to_hand_off")), "{told}");
        assert_eq!(told["error"]["message"], "nothing to hand off yet");
    }
    assert!(api.fixture.baton.drafting.all_open().is_empty());
    // An earlier request is reported again.
    let (status, again) = api
        .ask(
            &api.key,
            "idempotency-key: early\r\n",
            &json!({"method": "local"}),
        )
        .await;
    assert_eq!((status, &again["draft"]["id"]), (202, &asked["draft"]["id"]));
    let next = api.fixture.then(&api.history, &fired, "Go on.");
    let said = api.fixture.ask(&next, true).await;
    let (status, asked) = api.ask(&api.key, "", &json!({"method": "oneshot"})).await;
    assert_eq!(status, 202, "{asked}");
    api.fixture
        .ask(&api.fixture.then(&next, &said, "And now."), true)
        .await;
    let done = api
        .get(&format!("/api/drafts/{}", asked["draft"]["id"].as_str().unwrap()))
        .await;
    assert_eq!(done["draft"]["state"], "done", "{done}");
}

/// A process that has not seen the conversation cannot decide, so the draft reports it.
#[tokio::test]
async fn where_nothing_is_known_of_a_conversation_the_draft_tells_that_it_is_too_short() {
    let mut api = Api::start().await;
    api.restart().await;
    let (status, asked) = api.ask(&api.key, "", &json!({})).await;
    assert_eq!(status, 202, "{asked}");
    let id: uuid::Uuid = asked["draft"]["id"].as_str().unwrap().parse().unwrap();
    api.fixture.push(Reply::text("Went on."));
    api.fixture.ask(&api.history[..1], true).await;
    assert_eq!(
        api.fixture.baton.drafting.get(id).unwrap().failure,
        Some("nothing_to_hand_off")
    );
}

/// Nothing is cut before a user's approval. The user may change the document, and later messages are kept.
#[tokio::test]
async fn a_reviewed_draft_takes_effect_when_it_is_accepted() {
    for edited in [None, Some("## Goal\nOnly the tests.")] {
        let mut api = Api::start().await;
        let (_, asked) = api.ask(&api.key, "", &json!({"review": true})).await;
        let id = asked["draft"]["id"].as_str().unwrap();
        let path = format!("/api/drafts/{id}");
        let start = format!("POST {path}/accept");
        let json_type = "content-type: application/json\r\n";
        assert_eq!(api.call(&start, json_type, "{}").await.0, 409, "not written yet");
        api.fixture.push(Reply::text("## Goal\nMend it."));
        api.fixture.push(Reply::text("Went on."));
        let answer = api.fixture.ask(&api.history, true).await;
        let told = behind_line(&answer.text).unwrap();
        assert_begins(told, "baton: the draft waits for your approval: ");
        assert_ends(told, "Went on.");
        let written = api.get(&path).await;
        assert_eq!(written["draft"]["state"], "review");
        assert_begins(written["document"].as_str().unwrap(), "## Goal\nMend it.");
        let body = edited.map_or(json!({}), |text| json!({"document": text}));
        if edited.is_some() {
            api.restart().await;
        }
        let (status, accepted) = api.call(&start, json_type, &body.to_string()).await;
        assert_eq!(
            (status, &accepted["draft"]["state"]),
            (200, &json!("accepted")),
            "{accepted}"
        );
        api.fixture.push(fresh());
        let next = api.fixture.then(&api.history, &answer, "And the tests.");
        let answer = api.fixture.ask(&next, true).await;
        assert!(answer.text.ends_with("Fresh."), "{}", answer.text);
        let seen = outline(api.fixture.provider.generations().last().unwrap());
        let begins = edited.unwrap_or("## Goal\nMend it.");
        assert!(
            seen[0].starts_with(&format!("u: <handoff-context>\n{begins}")),
            "{seen:?}"
        );
        assert!(seen[0].ends_with("\n\nNow the exporter."), "{seen:?}");
        assert_eq!(seen[1..], ["a: Went on.", "u: And the tests."]);
        assert_eq!(api.get(&path).await["draft"]["state"], "done");
        api.fixture.assert_clean();
    }
}

/// A store that cannot be read does not mean that the conversation is unknown.
#[tokio::test]
async fn a_store_that_cannot_be_read_is_told() {
    let store = FlakyStore::new(memory());
    let fixture = Fixture::with(ANTHROPIC, [Reply::text("Looked.")], store.clone(), |_| {}).await;
    fixture.ask(&fixture.history(), true).await;
    let key = fixture.baton.events(1).await[0].conversation.clone().unwrap();
    let history = fixture.history();
    let (address, stop) = listen(&fixture, store.clone()).await;
    let api = Api {
        fixture,
        address,
        history,
        key,
        store: store.clone(),
        _stop: stop,
    };
    store.no_reads.store(true, Ordering::SeqCst);
    assert_eq!(api.ask(&api.key, "", &json!({})).await.0, 503);
    store.no_reads.store(false, Ordering::SeqCst);
    assert_eq!(api.ask(&api.key, "", &json!({})).await.0, 202);
}

#[tokio::test]
async fn a_rejected_draft_changes_nothing_and_others_can_be_asked_for() {
    let api = Api::start().await;
    let (_, asked) = api
        .ask(&api.key, "", &json!({"review": true, "method": "local"}))
        .await;
    let path = format!("/api/drafts/{}", asked["draft"]["id"].as_str().unwrap());
    api.fixture.push(Reply::text("Went on."));
    let answer = api.fixture.ask(&api.history, true).await;
    assert_eq!(api.get("/api/drafts").await["drafts"][0]["state"], "review");
    let (status, rejected) = api.call(&format!("POST {path}/reject"), "", "").await;
    assert_eq!((status, &rejected["draft"]["state"]), (200, &json!("rejected")));
    api.fixture.push(Reply::text("And on."));
    let next = api.fixture.then(&api.history, &answer, "More.");
    assert_eq!(api.fixture.ask(&next, true).await.text, "And on.");
    assert_eq!(api.ask(&api.key, "", &json!({})).await.0, 202);
    api.fixture.assert_clean();
}
