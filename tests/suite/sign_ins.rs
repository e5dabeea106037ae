//! Sign-ins with a plan or an account instead of an API key.
//!
//! `tests/golden/sign_ins` has the first request of real agents that were signed in with artificial tokens,
//! with text and tools shortened. Each begins a chain of handoffs here. The provider enforces the known rules
//! of the sign-in's server.

use std::path::PathBuf;

use async_compression::tokio::bufread::ZstdEncoder;
use baton_llm::state::config::Config;
use baton_llm::state::journal::{self, ExchangeFilter, JournalReader};
use baton_llm::state::store::HandoffFilter;
use baton_strict::{Autopilot, Model, Options, Queue, Received, Reply, Rule, Strict};
use bytes::Bytes;
use http_body_util::Full;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::harness::texts::{assert_contains, assert_ends};
use crate::harness::{self, Baton, RawResponse, memory, temp};
use crate::matrix::fixture::{Fixture, fresh, handoff};
use crate::matrix::variants::{CHATGPT, CODE_ASSIST, Variant, on_every_wire_both_ways};

/// Replacements for the tokens and accounts of the recorded requests.
const TOKEN: &str = "token-of-a-user";
const ACCOUNT: &str = "account-of-a-user";

/// A recorded sign-in.
struct SignIn {
    /// File in `tests/golden/sign_ins`.
    file: &'static str,
    /// Upstream that accepts the sign-in, and the path there.
    upstream: &'static str,
    path: &'static str,
    /// How the agent parses responses.
    variant: Variant,
    /// Member with the transcript, and one of the agent's tools.
    transcript: &'static str,
    tool: &'static str,
}

const CODEX: SignIn = SignIn {
    file: "codex_chatgpt",
    upstream: "chatgpt",
    path: "/backend-api/codex/responses",
    variant: CHATGPT,
    transcript: "/input",
    tool: "wait",
};

const PI: SignIn = SignIn {
    file: "pi_chatgpt",
    tool: "read",
    ..CODEX
};

const GEMINI_CLI: SignIn = SignIn {
    file: "gemini_cli_google",
    upstream: "codeassist",
    path: "/v1internal:streamGenerateContent?alt=sse",
    variant: CODE_ASSIST,
    transcript: "/request/contents",
    tool: "list_directory",
};

/// The request in a file.
struct Recorded {
    path: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl Recorded {
    /// Reads a request and inserts this user text.
    fn read(file: &str, text: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden/sign_ins")
            .join(format!("{file}.json"));
        let recorded = std::fs::read_to_string(path).unwrap();
        let recorded = recorded
            .replace("TOKEN", TOKEN)
            .replace("ACCOUNT", ACCOUNT)
            .replace("\"hi\"", &json!(text).to_string());
        let recorded: Value = serde_json::from_str(&recorded).unwrap();
        Self {
            path: recorded["path"].as_str().unwrap().to_owned(),
            headers: serde_json::from_value(recorded["headers"].clone()).unwrap(),
            body: recorded["body"].clone(),
        }
    }

    async fn send(&self, baton: &Baton, body: &Value) -> RawResponse {
        let headers: Vec<_> = self
            .headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        let mut packed = body.to_string().into_bytes();
        if headers.contains(&("content-encoding", "zstd")) {
            let plain = std::mem::take(&mut packed);
            ZstdEncoder::new(&plain[..])
                .read_to_end(&mut packed)
                .await
                .unwrap();
        }
        baton.post(&self.path, &headers, packed.into()).await
    }
}

/// Header by which the server reports the use of the plan.
const LIMITS: (&str, &str) = ("x-codex-primary-used-percent", "12");

/// The server of a sign-in, another server in place of all other upstreams, and the proxy.
struct Scene {
    server: Strict,
    elsewhere: Strict,
    dir: tempfile::TempDir,
    journal: journal::Recorder,
    baton: Baton,
}

impl Scene {
    async fn new(upstream: &str) -> Self {
        let model = |seen: &Received| Autopilot.reply(seen).header(LIMITS.0, LIMITS.1);
        let server = Strict::start(model, Options::default()).await.unwrap();
        let elsewhere = Strict::start(Queue::default(), Options::default()).await.unwrap();
        let dir = temp();
        let mut config: Config = harness::config(&elsewhere.url());
        config.upstreams.get_mut(upstream).unwrap().base_url = server.url();
        config.state_dir = dir.path().to_owned();
        config.journal.enabled = true;
        let journal = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags).unwrap();
        Self {
            server,
            elsewhere,
            dir,
            baton: Baton::journaled(config, memory(), harness::KEY, journal.clone()),
            journal,
        }
    }

    async fn journal(&self, exchanges: usize) -> JournalReader {
        self.baton.events(exchanges).await;
        let journal = self.journal.clone();
        let flushed = tokio::task::spawn_blocking(move || journal.flush(std::time::Duration::from_secs(20)));
        assert!(flushed.await.unwrap());
        JournalReader::open(self.dir.path()).unwrap().unwrap()
    }
}

/// Headers that the proxy replaces: those of the body, of the connection, and of one attempt.
const REMADE: [&str; 4] = [
    "content-encoding",
    "accept-encoding",
    "content-type",
    "x-client-request-id",
];

/// An agent works through three tasks, and the model hands off between them.
async fn chain(sign_in: SignIn) {
    let scene = Scene::new(sign_in.upstream).await;
    let directive = format!("#task 1/3 steps=2 tool={}", sign_in.tool);
    let recorded = Recorded::read(sign_in.file, &directive);
    let (mut body, mut text, mut exchanges) = (recorded.body.clone(), String::new(), 0);
    loop {
        let response = recorded.send(&scene.baton, &body).await;
        exchanges += 1;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header(LIMITS.0), Some(LIMITS.1));
        let answer = (sign_in.variant.parse)(&response.raw, true);
        let answer = answer.unwrap_or_else(|e| panic!("{e}\n{}", response.text()));
        assert!(!response.text().contains("session_handoff"));
        text.push_str(&answer.text);
        if answer.calls.is_empty() {
            break;
        }
        let results = (sign_in.variant.results)(&answer.calls, "ok");
        let transcript = body.pointer_mut(sign_in.transcript).unwrap();
        let transcript = transcript.as_array_mut().unwrap();
        transcript.extend(answer.keep.into_iter().chain(results));
        assert!(exchanges < 20, "the agent never comes to an end: {text}");
    }
    assert!(text.ends_with("All 3 tasks done."), "{text}");
    assert_eq!(text.matches("[[handoff-resume:").count(), 2, "{text}");
    assert_eq!(scene.server.complaints(), []);
    for seen in scene.server.requests() {
        assert_eq!(seen.path, sign_in.path);
        for (name, value) in &recorded.headers {
            if !REMADE.contains(&name.to_ascii_lowercase().as_str()) {
                assert_eq!(seen.header(name), Some(value.as_str()), "{name}");
            }
        }
    }
    assert_eq!(scene.elsewhere.requests().len(), 0);
    assert_no_credential(&scene.journal(exchanges).await, exchanges);
}

/// Asserts that no exchange in the journal shows the token or the account.
fn assert_no_credential(query: &JournalReader, exchanges: usize) {
    let rows = query.list(&ExchangeFilter::default()).unwrap();
    assert_eq!(rows.len(), exchanges);
    for row in rows {
        let exchange = query.exchange(&row.id).unwrap().unwrap();
        let all = format!("{row:?} {exchange:?}");
        assert!(all.contains("[redacted:credential]"), "{all}");
        assert!(!all.contains(TOKEN) && !all.contains(ACCOUNT), "{all}");
    }
}

#[tokio::test]
async fn codex_with_a_chatgpt_plan_hands_over() {
    chain(CODEX).await;
}

#[tokio::test]
async fn pi_with_a_chatgpt_plan_hands_over() {
    chain(PI).await;
}

#[tokio::test]
async fn gemini_cli_with_a_google_account_hands_over() {
    chain(GEMINI_CLI).await;
}

/// Codex lists its models with either sign-in, and gets the response of the matching server.
#[tokio::test]
async fn models_are_those_of_the_account() {
    let scene = Scene::new("chatgpt").await;
    let uri = format!("http://{}/v1/models?client_version=0.169.0", scene.baton.addr);
    let request = http::Request::get(uri)
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("chatgpt-account-id", ACCOUNT)
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = harness::read(harness::client().request(request).await.unwrap()).await;
    assert_eq!((response.status, response.json()), (200, json!({"models": []})));
    let seen = scene.server.requests();
    assert_eq!(seen[0].path, "/backend-api/codex/models?client_version=0.169.0");
    assert_eq!(seen[0].header("chatgpt-account-id"), Some(ACCOUNT));
    assert_eq!(scene.elsewhere.requests().len(), 0);
}

/// The server's response to a rejected sign-in reaches the agent unchanged.
#[tokio::test]
async fn a_refused_sign_in_is_told_in_the_servers_own_words() {
    let scene = Scene::new("chatgpt").await;
    let mut recorded = Recorded::read("codex_chatgpt", "Hello.");
    recorded.headers.retain(|(name, _)| name != "authorization");
    let response = recorded.send(&scene.baton, &recorded.body).await;
    assert_eq!(
        (response.status, response.text().as_str()),
        (401, r#"{"detail":"Unauthorized"}"#)
    );
}

/// The server rejects an output limit, which a draft's first request has.
#[tokio::test]
async fn a_draft_is_asked_for_again_without_what_the_server_refuses() {
    let store = memory();
    let document = Reply::text("## Goal\nShip it.");
    let fixture = Fixture::with(CHATGPT, [document], store.clone(), |_| {}).await;
    let mut history = fixture.history();
    *history.last_mut().unwrap() = fixture.user("::handoff --force");
    let answer = fixture.ask(&history, true).await;
    assert_contains(&answer.text, "handed over (written by the model)");
    let rules: Vec<_> = fixture.provider.complaints().iter().map(|c| c.rule).collect();
    assert_eq!(rules, [Rule::Parameter]);
    let handoffs = store.handoffs(&HandoffFilter::default()).await.unwrap();
    assert_eq!(handoffs.len(), 1);
}

/// Some servers send no content type.
async fn untyped(variant: Variant, stream: bool) {
    let replies = [handoff(), fresh(), Reply::text("Next.")].map(Reply::untyped);
    let fixture = Fixture::new(variant, replies).await;
    let response = fixture.send(&fixture.history(), stream).await;
    assert_eq!(response.header("content-type"), None);
    let answer = fixture.answer(&response, stream);
    assert_contains(&answer.text, "[[handoff-resume:");
    assert_ends(&answer.text, "Fresh.");
    let next = fixture.then(&fixture.history(), &answer, "More.");
    assert_eq!(fixture.ask(&next, stream).await.text, "Next.");
    assert_eq!(fixture.baton.events(1).await[0].streamed, stream);
    fixture.assert_clean();
}

on_every_wire_both_ways!(untyped);
