//! Several proxies over one Redis or Valkey server: the cost of a request, outages of the server, and
//! commands over such a store.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton_strict::Reply;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::conversations::shared;
use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{AnthropicFixture, PROMPT, assistant, handoff, history, texts, then, user};
use crate::harness::program::Program;
use crate::harness::redis::RedisServer;
use crate::harness::{self, AgentWire};

/// A wire to the server that counts round trips: times at which a query follows a reply.
///
/// Simultaneous queries count once, since every reply takes a moment.
struct Wire {
    url: String,
    trips: Arc<AtomicU64>,
}

/// Duration of a reply.
const MOMENT: Duration = Duration::from_millis(60);

impl Wire {
    async fn to(server: &RedisServer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let this = Self {
            url: format!("redis://{}", listener.local_addr().unwrap()),
            trips: Arc::default(),
        };
        let (trips, port) = (Arc::clone(&this.trips), server.port);
        let answered = Arc::new(AtomicBool::new(true));
        tokio::spawn(async move {
            while let Ok((agent, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                let (mut from_agent, mut to_agent) = agent.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let (trips, asked) = (Arc::clone(&trips), Arc::clone(&answered));
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(read @ 1..) = from_agent.read(&mut buffer).await {
                        if asked.swap(false, Ordering::SeqCst) {
                            trips.fetch_add(1, Ordering::SeqCst);
                        }
                        let _ = to_server.write_all(&buffer[..read]).await;
                    }
                });
                let answered = Arc::clone(&answered);
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
                        tokio::time::sleep(MOMENT).await;
                        answered.store(true, Ordering::SeqCst);
                        let _ = to_agent.write_all(&buffer[..read]).await;
                    }
                });
            }
        });
        this
    }

    /// Returns the round trips since the last call, once nothing is in progress.
    async fn counted(&self) -> u64 {
        tokio::time::sleep(5 * MOMENT).await;
        self.trips.swap(0, Ordering::SeqCst)
    }
}

fn tool_result(id: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]})
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_pinned_request_costs_one_round_trip_and_a_handoff_two() {
    let server = RedisServer::start(&[]);
    let wire = Wire::to(&server).await;
    let call = |n: u32| {
        let arguments = json!({"path": "a"});
        Reply::text("Reading.").call_as(format!("toolu_{n}"), "read_file", arguments)
    };
    let script = [handoff(), Reply::text("Fresh.")].into_iter();
    let script = script.chain((0..6).map(call));
    let script = script.chain([Reply::text("Read."), handoff(), Reply::text("Fresh again.")]);
    let fixture = AnthropicFixture::with(script, shared(&wire.url, "count"), |_| {}).await;
    // The first request opens the connections and decides that the conversation has the tool.
    let message = fixture.turn(&history()).await;
    wire.counted().await;

    // After the handoff, each request has a call and its result.
    let mut transcript = then(&history(), &message, "Go on.");
    let mut costs = Vec::new();
    for _ in 0..6 {
        let began = Instant::now();
        let message = fixture.turn(&transcript).await;
        assert!(began.elapsed() < 3 * MOMENT, "{:?}", began.elapsed());
        costs.push(wire.counted().await);
        assert!(texts(fixture.last().messages())[0].contains(PROMPT), "pinned");
        let mut ids = message.content.iter().filter_map(|block| block["id"].as_str());
        let id = ids.next().unwrap().to_owned();
        transcript.push(assistant(&message.content));
        transcript.push(tool_result(&id));
    }
    assert_eq!(costs[1..], [1; 5], "{costs:?}");
    let message = fixture.turn(&transcript).await;
    transcript.extend([assistant(&message.content), user("And now?")]);
    wire.counted().await;

    // Reads, and the handoff. The note that its response was shown is written afterwards.
    let began = Instant::now();
    fixture.turn(&transcript).await;
    let took = began.elapsed();
    assert!(took < 4 * MOMENT, "{took:?}");
    let trips = wire.counted().await;
    assert!((2..=3).contains(&trips), "{trips}");
    fixture.assert_clean();
}

/// A script handles a bounded number of records, so a long history needs several at once.
#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_history_of_a_thousand_calls_costs_no_more_round_trips_than_a_short_one() {
    let server = RedisServer::start(&[]);
    let wire = Wire::to(&server).await;
    let replies = (0..2).map(|_| Reply::text("Fine."));
    let fixture = AnthropicFixture::with(replies, shared(&wire.url, "long"), |_| {}).await;
    fixture.turn(&history()).await;
    wire.counted().await;
    let call = |n: u32| {
        let id = format!("toolu_{n}");
        let called = json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": "a"}});
        [assistant(&[called]), tool_result(&id)]
    };
    let long = [history(), (0..1000).flat_map(call).collect()].concat();
    fixture.turn(&long).await;
    let trips = wire.counted().await;
    assert!((1..=2).contains(&trips), "{trips}");
    fixture.assert_clean();
}

/// A request without a transcript, or one that is not parsed, costs no round trip.
#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn what_needs_nothing_of_the_store_asks_it_nothing() {
    let server = RedisServer::start(&[]);
    let wire = Wire::to(&server).await;
    let fixture = AnthropicFixture::with([], shared(&wire.url, "none"), |_| {}).await;
    wire.counted().await;
    let headers = Anthropic.headers();
    fixture
        .baton
        .post("/v1/messages", headers, "not JSON".into())
        .await;
    fixture.baton.post("/v1/other", headers, "{}".into()).await;
    assert_eq!(wire.counted().await, 0);
}

#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn while_the_server_is_away_pinned_requests_are_told_to_come_back_and_others_go_on() {
    let mut server = RedisServer::durable();
    let replies = (0..40).map(|_| Reply::text("Fine."));
    let fixture = AnthropicFixture::with(
        [handoff(), Reply::text("Fresh.")].into_iter().chain(replies),
        shared(&server.url(), "away"),
        |_| {},
    )
    .await;
    let message = fixture.turn(&history()).await;
    let pinned = then(&history(), &message, "Go on.");
    fixture.turn(&pinned).await;
    server.kill();
    let began = Instant::now();
    for _ in 0..3 {
        let refused = fixture.ask(&pinned).await;
        assert_eq!(
            (refused.status, refused.header("x-baton-error")),
            (503, Some("store_unavailable"))
        );
        assert_eq!(refused.json()["type"], "error");
        // Other conversations continue, without the tool.
        let other = fixture.ask(&[user("Another one.")]).await;
        assert_eq!(other.status, 200, "{}", other.text());
        let tools = fixture.last().body["tools"].to_string();
        assert!(!tools.contains("session_handoff"));
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    server.start_again();
    let began = Instant::now();
    loop {
        let response = fixture.ask(&pinned).await;
        if response.status == 200 {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(1),
            "not back: {}",
            response.text()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        texts(fixture.last().messages())[0].contains(PROMPT),
        "nothing is lost"
    );
}

/// The real program: two processes, one of which is killed between two requests.
#[tokio::test]
#[ignore = "needs Redis: .ci/full redis"]
async fn a_killed_proxy_leaves_its_conversations_to_the_others() {
    let server = RedisServer::durable();
    let replies = [
        handoff(),
        Reply::text("Fresh."),
        Reply::text("On."),
        Reply::text("On and on."),
    ];
    let script = baton_strict::Queue::new(replies);
    let provider = baton_strict::Strict::start(script, Default::default())
        .await
        .unwrap();
    let dir = harness::temp();
    let config = dir.path().join("baton.toml");
    let text = format!(
        "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\nhandoff.transcript = \"sentinel\"\n\
         handoff.seal_key = \"{}\"\nstore.kind = \"redis\"\nstore.url = \"{}\"\n[upstreams.anthropic]\nbase_url = \"{}\"\n",
        "k".repeat(64),
        server.url(),
        provider.url()
    );
    std::fs::write(&config, text).unwrap();
    let mut one = Program::start(&config, &dir.path().join("one"));
    let two = Program::start(&config, &dir.path().join("two"));
    let ask = async |program: &Program, history: &[Value]| {
        let url = format!("{}{}", program.data, Anthropic.path());
        let body = Anthropic.body(history, true).to_string();
        harness::post(&url, Anthropic.headers(), body.into()).await
    };
    let first = ask(&one, &history()).await;
    let message = Anthropic.parse(&first.raw, true, false).unwrap();
    one.child.kill().unwrap();
    one.child.wait().unwrap();
    let pinned = then(&history(), &message, "Go on.");
    let second = ask(&two, &pinned).await;
    assert_eq!(second.status, 200, "{}", second.text());
    assert!(second.header("x-baton-handoff").is_some());
    let last = provider.requests().last().unwrap().clone();
    assert!(texts(last.messages())[0].contains(PROMPT));
    assert_eq!(provider.complaints(), []);

    // The store on the server passes the same checks as any other.
    let run = |args: &[&str]| baton(&[args, &["--config", &config.display().to_string()]].concat());
    let checked = run(&["store", "check", "--json"]);
    assert!(checked.status.success(), "{checked:?}");
    let backup = format!("sqlite:{}", dir.path().join("backup").display());
    let copied = run(&["store", "copy", "--to", &backup, "--json"]);
    assert!(copied.status.success(), "{copied:?}");
    let report: Value = serde_json::from_slice(&copied.stdout).unwrap();
    assert_eq!(
        (report["ok"].as_bool(), report["kinds"][0]["copied"].as_u64()),
        (Some(true), Some(1))
    );
    let real = dir.path().canonicalize().unwrap().join("backup");
    assert_eq!(
        report["config"],
        json!({"store.kind": "sqlite", "state.dir": real})
    );
    // Lost and restored while the proxy runs.
    server.cli(&["FLUSHALL"]);
    let gone = ask(&two, &pinned).await;
    assert!(gone.status == 200 || gone.status == 503, "{}", gone.text());
    let restored = run(&["store", "copy", "--from", &backup]);
    assert!(restored.status.success(), "{restored:?}");
    assert!(run(&["store", "check", &backup]).status.success());
    let listed = run(&["handoffs", "list", "--json"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains(PROMPT.lines().next().unwrap()));
}

fn baton(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(args).env_remove("BATON_CONFIG").output().unwrap()
}

#[test]
#[ignore = "needs Redis: .ci/full redis"]
fn a_server_that_cannot_hold_handoffs_is_refused_at_the_start_and_named_by_check() {
    let server = RedisServer::start(&[]);
    let dir = harness::temp();
    let config = dir.path().join("baton.toml");
    let text = format!("[store]\nkind = \"redis\"\nurl = \"{}\"\n", server.url());
    std::fs::write(&config, text).unwrap();
    let (file, state) = (
        config.display().to_string(),
        dir.path().join("state").display().to_string(),
    );
    let check = || baton(&["check", "--config", &file]);
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let refused = check();
    assert_eq!(refused.status.code(), Some(78));
    assert!(
        said(&refused).contains("store.durability") && said(&refused).contains("appendonly"),
        "{refused:?}"
    );
    let started = baton(&[
        "serve",
        "--config",
        &file,
        "--state-dir",
        &state,
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(started.status.code(), Some(78));
    assert!(
        String::from_utf8_lossy(&started.stderr).contains("appendonly"),
        "{started:?}"
    );
    server.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    server.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    assert!(check().status.success(), "{}", said(&check()));
    drop(server);
    let away = check();
    assert_eq!(away.status.code(), Some(78));
    assert!(said(&away).contains("store.url"), "{away:?}");
}
