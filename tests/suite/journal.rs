//! The journal of the real proxy: it contains exactly the bytes on the wire, and never delays an exchange.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_llm::serve::admin::readiness::Report;
use baton_llm::serve::admin::{self, AdminState};
use baton_llm::state::config::{Config, Secret};
use baton_llm::state::journal::{
    self, BodySide, ExchangeFilter, ExchangeRow, JournalReader, MessageState, Recorder,
};
use baton_llm::state::prices;
use baton_llm::state::store::SharedStore;
use baton_llm::state::telemetry::{ExchangeOutcome, Metrics};
use baton_strict::{Autopilot, Options, Strict};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::user;
use crate::harness::program::{self, Program};
use crate::harness::texts::assert_contains;
use crate::harness::{self, AgentWire, Baton, RawResponse};

const LONG: Duration = Duration::from_secs(30);

/// A proxy with a journal, and the agent's requests and responses.
struct Run {
    dir: tempfile::TempDir,
    recorder: Recorder,
    store: SharedStore,
    baton: Baton,
    provider: Strict,
    /// For each turn: the request, the response, and the bodies that the provider received.
    turns: Vec<(Bytes, RawResponse, Vec<Bytes>)>,
}

fn settings(config: &mut Config, dir: &Path) {
    config.state_dir = dir.to_owned();
    config.journal.enabled = true;
}

impl Run {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
        let dir = harness::temp();
        let mut config = harness::config(&provider.url());
        settings(&mut config, dir.path());
        change(&mut config);
        let recorder = journal::start(&config.journal, dir.path(), &config.handoff.preamble_tags).unwrap();
        let store = harness::memory();
        let baton = Baton::journaled(config, Arc::clone(&store), harness::KEY, recorder.clone());
        Self {
            dir,
            recorder,
            store,
            baton,
            provider,
            turns: Vec::new(),
        }
    }

    /// Runs an agent through all tasks.
    async fn play(&mut self, tasks: usize, stream: bool) {
        let mut history =
            vec![json!({"role": "user", "content": format!("Begin.\n#task 1/{tasks} steps=2")})];
        for _ in 0..tasks * 6 {
            let body: Bytes = Anthropic.body(&history, stream).to_string().into();
            let before = self.provider.generations().len();
            let response = self
                .baton
                .post(Anthropic.path(), Anthropic.headers(), body.clone())
                .await;
            assert_eq!(response.status, 200, "{}", response.text());
            let legs = self.provider.generations().split_off(before);
            let legs = legs.iter().map(|seen| seen.raw.clone()).collect();
            let message = Anthropic.parse(&response.raw, stream, response.broken).unwrap();
            self.turns.push((body, response, legs));
            history.push(json!({"role": "assistant", "content": message.content}));
            if message.stop.as_deref() != Some("tool_use") {
                return;
            }
            let results = message.content.iter().filter(|block| block["type"] == "tool_use");
            let results: Vec<_> = results
                .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "done ".repeat(40)}))
                .collect();
            history.push(json!({"role": "user", "content": results}));
        }
        panic!("the agent never comes to an end");
    }

    async fn query(&self) -> JournalReader {
        self.query_of(self.turns.len()).await
    }

    /// Opens the journal once it has this many exchanges.
    async fn query_of(&self, exchanges: usize) -> JournalReader {
        self.baton.events(exchanges).await;
        let recorder = self.recorder.clone();
        let flushed = tokio::task::spawn_blocking(move || recorder.flush(LONG)).await;
        assert!(flushed.unwrap());
        JournalReader::open(self.dir.path()).unwrap().unwrap()
    }
}

fn oldest_first(query: &JournalReader) -> Vec<ExchangeRow> {
    let mut rows = query.list(&ExchangeFilter::default()).unwrap();
    rows.reverse();
    rows
}

async fn chain(stream: bool) {
    let mut run = Run::start(|_| ()).await;
    run.play(5, stream).await;
    let query = run.query().await;
    let rows = oldest_first(&query);
    assert_eq!(rows.len(), run.turns.len());
    assert_eq!(rows.iter().map(|r| r.event.fired.len()).sum::<usize>(), 4);
    for (row, (body, response, legs)) in rows.iter().zip(&run.turns) {
        assert_eq!(Some(row.id.as_str()), response.header("x-baton-exchange"));
        assert!(
            !row.partial && !row.open && row.event.outcome == ExchangeOutcome::Complete,
            "{row:?}"
        );
        let read = |side| query.body(&row.id, side).unwrap().unwrap();
        assert_eq!(read(BodySide::Received), *body);
        assert_eq!(read(BodySide::Shown), response.raw);
        assert_eq!(row.sent_messages.len(), legs.len());
        for (n, leg) in legs.iter().enumerate() {
            assert_eq!(read(BodySide::Sent(n as u32)), *leg);
            assert!(!read(BodySide::Response(n as u32)).is_empty());
        }
        let exchange = query.exchange(&row.id).unwrap().unwrap();
        if row.event.fired.is_empty() {
            continue;
        }
        let answer = String::from_utf8(read(BodySide::Response(0))).unwrap();
        assert!(answer.contains("session_handoff") && !response.text().contains("session_handoff"));
        assert!(response.text().contains("[[handoff-resume:"));
        // The second leg has none of the agent's messages except the preamble.
        assert!(
            exchange.legs[1]
                .received_states
                .iter()
                .all(|s| *s == MessageState::Cut)
        );
        assert_eq!(exchange.legs[1].sent.messages[0].state, MessageState::New);
        assert!(
            exchange
                .notes
                .iter()
                .any(|note| note.contains(&row.event.fired[0])),
            "{:?}",
            exchange.notes
        );
    }
    let last = rows.last().unwrap();
    assert!(last.event.pinned.is_some() && last.unsent_tokens > 0);
    let exchange = query.exchange(&last.id).unwrap().unwrap();
    let states: Vec<_> = exchange.received.messages.iter().map(|m| m.state).collect();
    let cut = states.iter().filter(|s| **s == MessageState::Cut).count();
    assert!(
        cut > states.len() / 2 && states.contains(&MessageState::Kept),
        "{states:?}"
    );
    let part = "session_handoff and session_recall added";
    assert_contains(&exchange.legs[0].sent.envelope_changes[0].what, part);
    let all = query.conversations(None, 10).unwrap();
    assert_eq!(
        (all.len(), all[0].handoffs, all[0].title.as_str()),
        (1, 4, "Begin.")
    );
    assert_eq!(run.recorder.dropped(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_streams_is_read_back_byte_for_byte() {
    chain(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_whole_replies_is_read_back_byte_for_byte() {
    chain(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_drops_copies_and_nothing_else() {
    let mut run = Run::start(|config| config.journal.queue_bytes = 1).await;
    run.play(2, true).await;
    let query = run.query().await;
    let rows = oldest_first(&query);
    assert_eq!(rows.len(), run.turns.len());
    assert!(
        rows.iter()
            .all(|row| row.partial && row.event.outcome == ExchangeOutcome::Complete)
    );
    assert!(run.recorder.dropped() >= run.turns.len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_it_is_off_nothing_is_written() {
    let mut run = Run::start(|config| config.journal.enabled = false).await;
    run.play(2, true).await;
    assert_eq!(std::fs::read_dir(run.dir.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_leaves_is_journaled_with_what_it_was_shown() {
    let run = Run::start(|_| ()).await;
    let body: Bytes = Anthropic
        .body(&[json!({"role": "user", "content": "#task 1/2 steps=2"})], true)
        .to_string()
        .into();
    let response = run
        .baton
        .open(Anthropic.path(), Anthropic.headers(), body.clone())
        .await;
    let (seen, rest) = harness::read_until(response, "message_start").await;
    drop(rest);
    let query = run.query_of(1).await;
    let row = oldest_first(&query).remove(0);
    assert_eq!(query.body(&row.id, BodySide::Received).unwrap().unwrap(), body);
    let shown = query.body(&row.id, BodySide::Shown).unwrap().unwrap();
    assert!(shown.starts_with(&seen) || seen.starts_with(&shown));
}

/// An admin listener for the journal of a run.
struct Listener {
    address: std::net::SocketAddr,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Listener {
    async fn start(run: &Run, token: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = harness::config("");
        config.state_dir = run.dir.path().to_owned();
        config.admin.token = token.map(Secret::new);
        let state = AdminState {
            metrics: Arc::new(Metrics::new()),
            ready: Arc::new(|| Box::pin(async { Report::default() })),
            config: Arc::new(config),
            journal: run.recorder.clone(),
            store: Arc::clone(&run.store),
            drafting: Arc::clone(&run.baton.drafting),
            sessions: Arc::clone(&run.baton.sessions),
            prices: prices::table(None).unwrap(),
            data_listener: Some(run.baton.addr),
            instance: "here:1".to_owned(),
            started: Instant::now(),
        };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        tokio::spawn(admin::serve(listener, None, Arc::new(state), Box::pin(stopped)));
        Self { address, _stop: stop }
    }

    async fn open(&self, path: &str, lines: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{lines}\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// Returns status, head and body.
    async fn get(&self, path: &str, lines: &str) -> (u16, String, Vec<u8>) {
        let mut answer = Vec::new();
        self.open(path, lines)
            .await
            .read_to_end(&mut answer)
            .await
            .unwrap();
        let end = memchr::memmem::find(&answer, b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (head[9..12].parse().unwrap(), head, answer[end + 4..].to_vec())
    }

    async fn json(&self, path: &str) -> Value {
        let (status, head, body) = self.get(path, "").await;
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
        assert_contains(&head, "content-type: application/json");
        assert_contains(&head, "nosniff");
        assert_contains(&head, "content-security-policy: default-src 'none'");
        serde_json::from_slice(&body).unwrap()
    }
}

/// Asserts that an object has these fields, in any order.
fn has(value: &Value, names: &str) {
    let members = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for name in names.split_whitespace() {
        assert!(members.contains_key(name), "no {name} in {value}");
    }
}

const ROW: &str = "id conversation at_ms wire route model status outcome streamed tooled untooled pinned lost_sentinel fired legs retries \
    refused_calls escaped_sentinels received_bytes sent_bytes response_bytes received_messages sent_messages tokens first_byte_ms \
    total_ms added_ms changes statuses tokens_sum unsent_tokens";
const HANDOFF: &str = "id conversation at_ms wire model parent origin reason prompt_bytes first_line archived resume_line document";
const CONVERSATION: &str =
    "key title wire model exchanges handoffs first_ms last_ms received_bytes sent_bytes unsent_tokens";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_in_its_shape() {
    let mut run = Run::start(|_| ()).await;
    run.play(3, true).await;
    run.query().await;
    let api = Listener::start(&run, None).await;
    let status = api.json("/api/status").await;
    has(
        &status,
        "version uptime_s store journal data_listener conversations handoffs",
    );
    has(&status["journal"], "enabled exchanges bytes dropped");
    assert_eq!(status["journal"]["exchanges"], run.turns.len());
    let all = api.json("/api/conversations?limit=5").await;
    has(&all["conversations"][0], CONVERSATION);
    let key = all["conversations"][0]["key"].as_str().unwrap().to_owned();
    let one = api.json(&format!("/api/conversations/{key}")).await;
    has(&one, "conversation exchanges handoffs");
    has(&one["exchanges"][0], ROW);
    assert!(one["exchanges"][0]["at_ms"].as_u64() <= one["exchanges"][1]["at_ms"].as_u64());
    has(&one["handoffs"][0], HANDOFF);
    let rows = api
        .json(&format!("/api/exchanges?conversation={key}&limit=2"))
        .await;
    let newest = rows["exchanges"][0]["id"].as_str().unwrap().to_owned();
    let before = api.json(&format!("/api/exchanges?before={newest}&limit=1")).await;
    assert_eq!(before["exchanges"][0]["id"], rows["exchanges"][1]["id"]);
    exchange_routes(&run, &api, &newest).await;
    handoff_routes(&api).await;
    let hits = api.json("/api/search?q=%23task+1%2F3&limit=3").await;
    has(&hits["hits"][0], "exchange conversation at_ms side snippet");
    for (path, status) in [
        ("/api/exchanges/nope", 404),
        ("/api/conversations/nope", 404),
        ("/api/handoffs/nope", 404),
        ("/api/nope", 404),
        ("/api/search", 400),
        ("/api/exchanges?limit=x", 400),
        (&format!("/api/exchanges/{newest}/message?side=up&i=0"), 400),
        (&format!("/api/exchanges/{newest}/sent?leg=9"), 404),
    ] {
        let (found, _, body) = api.get(path, "").await;
        assert_eq!(found, status, "{path}");
        has(
            &serde_json::from_slice::<Value>(&body).unwrap()["error"],
            "code message",
        );
    }
}

async fn exchange_routes(run: &Run, api: &Listener, id: &str) {
    let one = api.json(&format!("/api/exchanges/{id}")).await;
    has(&one, "exchange headers received legs shown handoffs notes");
    has(&one["exchange"], ROW);
    has(&one["headers"], "received response");
    has(&one["shown"], "bytes truncated");
    has(&one["legs"][0], "n at_ms sent response");
    has(&one["legs"][0]["sent"], "messages envelope_changes");
    has(&one["legs"][0]["response"], "bytes stop usage truncated");
    has(
        &one["received"]["messages"][0],
        "i role kind bytes first_line state why",
    );
    let headers = one["headers"]["received"].to_string();
    assert_contains(&headers, "[\"authorization\",\"[redacted:credential]\"]");
    let message = api
        .json(&format!("/api/exchanges/{id}/message?side=received&i=1"))
        .await;
    has(&message, "role parts");
    api.json(&format!("/api/exchanges/{id}/message?side=sent&leg=0&i=0"))
        .await;
    let (body, response, legs) = run.turns.last().unwrap();
    for (path, wanted) in [
        ("received", body.to_vec()),
        ("sent?leg=0", legs[0].to_vec()),
        ("shown", response.raw.clone()),
    ] {
        let (status, head, found) = api.get(&format!("/api/exchanges/{id}/{path}"), "").await;
        assert_eq!((status, found), (200, wanted), "{path}");
        assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
    }
    assert_eq!(
        api.get(&format!("/api/exchanges/{id}/response?leg=0"), "")
            .await
            .0,
        200
    );
    let har = api.json(&format!("/api/exchanges/{id}/har")).await;
    assert_eq!(har["log"]["version"], "1.2");
    has(
        &har["log"]["entries"][0],
        "startedDateTime time request response cache timings",
    );
    assert!(!har.to_string().contains("sk-ant-api03-agent"));
}

async fn handoff_routes(api: &Listener) {
    let all = api.json("/api/handoffs?limit=9").await;
    has(&all["handoffs"][0], HANDOFF);
    let id = all["handoffs"][0]["id"].as_str().unwrap();
    let one = api.json(&format!("/api/handoffs/{id}")).await;
    has(&one["handoff"], &format!("{HANDOFF} prompt lineage children map"));
    assert_eq!(one["handoff"]["lineage"].as_array().unwrap().len(), 2);
    assert_eq!(one["handoff"]["lineage"][1], id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_as_they_happen() {
    let mut run = Run::start(|_| ()).await;
    let api = Listener::start(&run, None).await;
    let mut live = api.open("/api/events", "").await;
    let mut seen = String::new();
    while !seen.contains(": hello") {
        read_some(&mut live, &mut seen).await;
    }
    run.play(1, true).await;
    while !seen.contains("event: exchange\n") {
        read_some(&mut live, &mut seen).await;
    }
    assert!(seen.contains("text/event-stream") && seen.contains("event: begun\n"));
    let data = seen
        .split("event: exchange\ndata: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    has(&serde_json::from_str(data).unwrap(), ROW);
}

async fn read_some(stream: &mut TcpStream, seen: &mut String) {
    let mut some = [0; 16 << 10];
    let n = tokio::time::timeout(LONG, stream.read(&mut some))
        .await
        .unwrap()
        .unwrap();
    assert!(n > 0, "closed behind {seen}");
    seen.push_str(&String::from_utf8_lossy(&some[..n]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_origins_and_missing_tokens_are_refused() {
    let run = Run::start(|_| ()).await;
    let api = Listener::start(&run, None).await;
    assert_eq!(
        api.get("/api/status", "origin: https://evil.example\r\n").await.0,
        403
    );
    assert_eq!(
        api.get("/api/status", &format!("origin: http://{}\r\n", api.address))
            .await
            .0,
        200
    );
    let guarded = Listener::start(&run, Some("0123456789abcdef")).await;
    for path in ["/", "/api/status", "/api/events", "/api/search?q=a"] {
        assert_eq!(guarded.get(path, "").await.0, 401, "{path}");
    }
    let token = "authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(guarded.get("/api/status", token).await.0, 200);
}

fn said(dir: &Path, line: &str) -> String {
    program::printed(program::baton_in(dir, line))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_proxy_leaves_a_file_that_commands_read() {
    let provider = Strict::start(Autopilot, Options::default()).await.unwrap();
    let dir = harness::temp();
    let upstream = ("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", provider.url());
    let mut program = Program::launch(program::serve(dir.path()).env(upstream.0, upstream.1));
    let prompt = "Begin \u{1b}[2J with care\n#task 1/2 steps=1";
    let body = Anthropic.body(&[user(prompt)], true);
    let response = program.posts(Anthropic.headers(), &body).await;
    let body = body.to_string();
    let id = response.header("x-baton-exchange").unwrap().to_owned();
    // The journal writes it soon, even without a flush.
    let began = Instant::now();
    while !said(dir.path(), "log --jsonl").contains("\"outcome\":\"complete\"") {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    program.child.kill().unwrap();
    drop(program);
    let query = JournalReader::open(dir.path()).unwrap().unwrap();
    assert_eq!(
        query.body(&id, BodySide::Received).unwrap().unwrap(),
        body.as_bytes()
    );
    let row: Value = serde_json::from_str(&said(dir.path(), "log --jsonl")).unwrap();
    has(&row, ROW);
    let log = said(dir.path(), "log");
    assert!(
        log.contains(&id) && log.lines().next().unwrap().starts_with("TIME"),
        "{log}"
    );
    let short = &id[..20];
    let show = |how: &str| said(dir.path(), &format!("show {short} {how}"));
    assert_eq!(show("--received"), body);
    assert_eq!(show("--response").as_bytes(), response.raw);
    let diff = show("");
    assert_contains(&diff, "Begin \\u{1b}[2J with care");
    assert_contains(&diff, "~ tools: session_handoff added");
    assert!(
        !diff.contains('\u{1b}') && !diff.contains('{') || diff.contains("\\u{1b}"),
        "{diff}"
    );
    let json = serde_json::from_str(&show("--json")).unwrap();
    has(&json, "exchange received legs shown");
    for what in ["--leg 9", "--leg 9 --sent"] {
        let done = program::baton_in(dir.path(), &format!("show {short} {what}"));
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success(), "{message}");
        assert_contains(&message, "there is no leg 9: the exchange has 1 leg");
    }
    assert_contains(&show("--har"), "\"startedDateTime\"");
    assert!(said(dir.path(), "doctor --line").starts_with("baton off, 0 handoffs"));
}
