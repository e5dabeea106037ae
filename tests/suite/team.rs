//! Several users of one proxy: who owns a session, which ids resume one, what the team's key reaches.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use baton_strict::{Options, Queue, Received, Reply, Strict};
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{handoff, user};
use crate::harness::program::{Place, Program, baton_over, printed};
use crate::harness::texts::{assert_contains, assert_lacks};
use crate::harness::{AgentWire, Message, RawResponse, client as client_of_tests, post, read, temp};

/// A transcript with an answer of the model between two messages.
fn talk(first: &str, answer: &str, second: &str) -> [Value; 3] {
    let answer = json!({"role": "assistant", "content": answer});
    [user(first), answer, user(second)]
}

/// Sends a transcript with this credential.
async fn ask(program: &Program, (header, value): (&'static str, &str), history: &[Value]) -> Message {
    let headers = [(header, value), ("anthropic-version", "2023-06-01")];
    let response = program.sends_with(&headers, history).await;
    assert_eq!(response.status, 200, "{}", response.text());
    Anthropic.parse(&response.raw, true, false).unwrap()
}

/// Text of a response.
fn text(message: &Message) -> String {
    Value::from(message.content.clone()).to_string()
}

/// The id of the handoff that a response shows.
fn id(message: &Message) -> String {
    let text = text(message);
    let (_, line) = text.split_once("[[handoff-resume:").unwrap();
    line[..36].to_owned()
}

const UNKNOWN: &str = "this handoff is not known here";

/// Without clients, on a proxy that others reach, each API key is a principal of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_api_keys_are_two_principals_without_clients() {
    let replies = vec![handoff(), Reply::text("Fresh.")];
    let place = Place::new(replies, "server.hosts = ['baton.test']\n").await;
    let program = place.start();
    let (ada, grace) = (("x-api-key", "key-of-ada"), ("x-api-key", "key-of-grace"));
    let history = talk("Mend it.", "Looking.", "Go on.");
    let made = id(&ask(&program, ada, &history).await);
    let resume = async |who, given: &str| {
        let asked = talk("Another session.", "Here.", &format!("::handoff resume {given}"));
        text(&ask(&program, who, &asked).await)
    };
    assert!(resume(grace, &made).await.contains(UNKNOWN), "another key");
    assert!(resume(ada, &made[..13]).await.contains(UNKNOWN), "a time");
    assert!(resume(ada, &made[..23]).await.contains(&made), "with random bits");
    assert!(resume(ada, &made).await.contains(&made));
}

/// A client that fills the disk with handoffs is stopped alone, and its work continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_stores_in_a_day_is_limited() {
    let keys =
        ["ada", "grace"].map(|name| format!("{{ name = '{name}', key = 'key-of-{name}-0123456789' }}"));
    let more = format!(
        "clients = [{}]\nlimits.client_bytes_per_day = 1048576\n",
        keys.join(", ")
    );
    let place = Place::of(|_: &Received| Reply::text("On it."), &more).await;
    let program = place.start();
    let [ada, grace] = ["ada", "grace"].map(|name| ("x-api-key", format!("key-of-{name}-0123456789")));
    let (ada, grace) = ((ada.0, &*ada.1), (grace.0, &*grace.1));
    let history = |n: usize| {
        let goal = format!(
            "::handoff --method local {}",
            format!("Goal number {n} ").repeat(30_000)
        );
        let asked = json!({"role": "assistant", "content": "Looking."});
        [user(&format!("Task {n}.")), asked, user(&goal)]
    };
    let mut shown = Vec::new();
    for n in 0..4 {
        shown.push(text(&ask(&program, ada, &history(n)).await).contains("[[handoff-resume:"));
    }
    assert!(shown[0] && !shown[3], "{shown:?}");
    assert!(text(&ask(&program, grace, &history(9)).await).contains("[[handoff-resume:"));
    let works = ask(&program, ada, &[user("Another task.")]).await;
    assert!(text(&works).contains("On it."), "{works:?}");
}

/// Users of subscriptions have no lasting key and are one principal. Nobody finds the id of another's handoff.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_cannot_be_enumerated() {
    let replies = vec![handoff(), Reply::text("Fresh.")];
    let place = Place::new(replies, "server.hosts = ['baton.test']\n").await;
    let program = place.start();
    let bearer = ("authorization", "Bearer sk-ant-oat01-one");
    let renewed = ("authorization", "Bearer sk-ant-oat01-two");
    let history = talk("Mend it.", "Looking.", "Go on.");
    let made = id(&ask(&program, bearer, &history).await);
    let resume = async |given: &str| {
        let line = format!("[[handoff-resume:{given}]]\nGo on.");
        let asked = talk("Another session.", "Here.", &line);
        text(&ask(&program, renewed, &asked).await)
    };
    for last in "0123456789".chars() {
        let guess = format!("{}{last}", &made[..12]);
        assert!(resume(&guess).await.contains(UNKNOWN), "{guess}");
    }
    // Refused for a minute.
    assert_contains(&resume(&made[..23]).await, UNKNOWN);
    place.script.push(Reply::text("On it."));
    assert!(resume(&made).await.contains("On it."), "the whole id");
}

/// A provider that notes the first line of each request and answers all of them with a stored response.
fn noting_provider() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&lines);
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some(given) = line.to_lowercase().strip_prefix("content-length:") {
                    length = given.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let first = first.trim_end_matches(" HTTP/1.1\r\n").to_owned();
            noted.lock().unwrap().push(first);
            let body = json!({"id": format!("resp_{n}"), "object": "response", "status": "completed",
                "created_at": 1, "model": "m", "output": [{"type": "message", "id": "msg_1", "role": "assistant",
                "status": "completed", "content": [{"type": "output_text", "text": "Well.", "annotations": []}]}],
                "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}});
            let body = body.to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    (url, lines)
}

/// A proxy with two clients and a key for both providers, with its log in a file.
struct Team {
    program: Program,
    dir: tempfile::TempDir,
}

impl Team {
    fn new(url: &str) -> Self {
        Self::with(url, "", |config| config)
    }

    fn with(url: &str, server: &str, change: fn(String) -> String) -> Self {
        let clients = ["ada", "grace"]
            .map(|name| format!("[[clients]]\nname = '{name}'\nkey = '{name}-0123456789abcdef'\n"));
        let upstreams = ["anthropic", "openai"]
            .map(|name| format!("{name} = {{ base_url = '{url}', api_key = 'sk-team' }}\n"));
        let text = format!(
            "[server]\nlisten = '127.0.0.1:0'\n{server}[admin]\nlisten = '127.0.0.1:0'\n[upstreams]\n{}{}",
            upstreams.concat(),
            clients.concat()
        );
        let dir = temp();
        let config = dir.path().join("baton.toml");
        std::fs::write(&config, change(text)).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let program = Program::start_logging_to(&config, &dir.path().join("state"), log.into());
        Self { program, dir }
    }

    fn said(&self, words: &[&str]) -> String {
        let (config, state) = ["baton.toml", "state"]
            .map(|name| self.dir.path().join(name))
            .into();
        printed(baton_over(&config, &state, words))
    }

    /// Sends a request as this client, and returns the response.
    async fn call(&self, client: &str, method: &str, target: &str, body: Value) -> RawResponse {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("{}{target}", self.program.data))
            .header("authorization", format!("Bearer {client}-0123456789abcdef"))
            .header("content-type", "application/json");
        // A header that names an API must not open another one's paths.
        let request = match target.starts_with("/u/openai/v1/threads/") {
            true => request.header("anthropic-version", "2023-06-01"),
            false => request,
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = request.body(http_body_util::Full::from(body)).unwrap();
        read(client_of_tests().request(request).await.unwrap()).await
    }

    async fn refuses(&self, client: &str, method: &str, target: &str, body: Value) {
        let answer = self.call(client, method, target, body).await;
        let refused = (answer.status, answer.header("x-baton-error"));
        assert_eq!(refused, (403, Some("path_not_allowed")), "{method} {target}");
    }
}

/// The key of the team reaches the organization's files, batches and keys. A client reaches models.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_reaches_models_and_no_other_path() {
    let (url, lines) = noting_provider();
    let team = Team::new(&url);
    for (method, target) in [
        ("GET", "/v1/files"),
        ("DELETE", "/v1/files/file_1"),
        ("GET", "/v1/organizations/api_keys"),
        ("GET", "/v1/messages/batches/msgbatch_1/results"),
        ("POST", "/v1/messages/batches"),
        ("DELETE", "/v1/models/ft:mine"),
        ("GET", "/v1/conversations/conv_1/items"),
        ("POST", "/v1/files%3F/v1/messages"),
        ("GET", "/v1/files?x=/responses/resp_1"),
        ("DELETE", "/v1/files/file_1?x=/responses/resp_1"),
        ("POST", "/v1/organization/admin_api_keys?/responses/resp_1"),
        ("GET", "/v1/files/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/responses/resp_2"),
        ("DELETE", "/v1/x/responses/resp_1/y/resp_2"),
        ("DELETE", "/v1/files/responses/resp_1"),
        ("GET", "/v1/models/m?%24httpMethod=DELETE"),
        ("GET", "/v1/models/m?_method=DELETE"),
        ("POST", "/u/openai/v1/embeddings"),
        ("POST", "/u/openai/v1/threads/thread_1/messages"),
    ] {
        team.refuses("grace", method, target, Value::Null).await;
    }
    assert_eq!(*lines.lock().unwrap(), [] as [String; 0]);
    let empty = json!({"model": "m", "messages": []});
    for (method, target, body) in [
        ("GET", "/v1/models", Value::Null),
        ("GET", "/v1/models/m", Value::Null),
        ("POST", "/v1/messages/count_tokens", empty.clone()),
        ("POST", "/v1/chat/completions", empty),
    ] {
        let answer = team.call("grace", method, target, body).await;
        assert_eq!(answer.status, 200, "{method} {target}: {}", answer.text());
    }
    assert_eq!(lines.lock().unwrap().len(), 4);
}

/// A stored response is read, deleted and continued by the client that it was made for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_response_is_its_clients() {
    let (url, lines) = noting_provider();
    let team = Team::new(&url);
    let ask = |previous: Value| json!({"model": "m", "input": "Go on.", "previous_response_id": previous});
    let made = team.call("ada", "POST", "/v1/responses", ask(Value::Null)).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let target = format!("/v1/responses/{id}");
    let before = lines.lock().unwrap().len();
    let talking = json!({"model": "m", "input": "x", "conversation": "conv_1"});
    let azure = format!("/u/openai/openai/responses/{id}?api-version=1");
    let gateway = format!("/u/openai/api/v1/responses/{id}");
    for (method, target, body) in [
        ("GET", target.as_str(), Value::Null),
        ("DELETE", &target, Value::Null),
        ("GET", &azure, Value::Null),
        ("GET", &gateway, Value::Null),
        ("POST", "/v1/responses", ask(id.clone().into())),
        // Servers may take another type for the id.
        ("POST", "/v1/responses", ask(json!([id]))),
        ("POST", "/v1/responses", talking),
    ] {
        team.refuses("grace", method, target, body).await;
    }
    // Only watched: a header that a client sends does not let it through.
    let body = ask(id.clone().into()).to_string();
    let headers = [
        ("authorization", "Bearer grace-0123456789abcdef"),
        ("x-baton-handoff", "shadow"),
        ("content-type", "application/json"),
    ];
    let url = format!("{}/v1/responses", team.program.data);
    let answer = post(&url, &headers, body.clone().into()).await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    // Bodies that baton cannot read, or could read in another way than upstream.
    for unread in [
        body.replacen('{', "{\"model\":\"m\",", 1),
        body.replace("response_id", "response\\u005fid"),
        body.replace("previous_response_id", "Previous_Response_Id"),
    ] {
        assert_ne!(unread, body);
        let answer = post(&url, &headers[..1], unread.into()).await;
        assert_eq!(answer.status, 403, "{}", answer.text());
    }
    let another_method = http::Request::get(format!("{}/v1/models/m", team.program.data))
        .header(headers[0].0, headers[0].1)
        .header("x-http-method-override", "DELETE")
        .body(http_body_util::Full::default())
        .unwrap();
    let answer = read(client_of_tests().request(another_method).await.unwrap()).await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(lines.lock().unwrap().len(), before);
    for (method, target, body) in [
        ("POST", "/v1/responses", ask(id.clone().into())),
        ("GET", target.as_str(), Value::Null),
        ("DELETE", &target, Value::Null),
    ] {
        let answer = team.call("ada", method, target, body).await;
        assert_eq!(answer.status, 200, "{method} {target}: {}", answer.text());
    }
}

/// A gateway's key in a header of any name is the team's, as an `api_key` is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_in_a_header_of_the_config_reaches_models_only() {
    let (url, lines) = noting_provider();
    let team = Team::with(&url, "", |config| {
        config.replace(
            "api_key = 'sk-team'",
            "headers = { x-gateway-key = 'of-the-team' }",
        )
    });
    for (target, status) in [("/v1/files", 403), ("/v1/models", 200)] {
        let answer = team.call("ada", "GET", target, Value::Null).await;
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
    }
    assert_eq!(*lines.lock().unwrap(), ["GET /v1/models"]);
}

/// `upstreams.NAME.paths` adds paths, and `server.upstreams` limits the upstreams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_adds_paths_and_limits_upstreams() {
    let (url, lines) = noting_provider();
    let team = Team::with(&url, "upstreams = ['openai']\n", |config| {
        config.replace(
            "api_key = 'sk-team'",
            "api_key = 'sk-team', paths = ['/v1/files*']",
        )
    });
    for (path, status) in [("/v1/files/f", 200), ("/v1/batches", 403)] {
        let answer = team.call("ada", "GET", path, Value::Null).await;
        assert_eq!(answer.status, status, "{path}");
    }
    let off = team
        .call("ada", "POST", "/v1/messages", json!({"model": "m"}))
        .await;
    let refused = (off.status, off.header("x-baton-error"));
    assert_eq!(refused, (404, Some("unknown_upstream")));
    assert_eq!(*lines.lock().unwrap(), ["GET /v1/files/f"]);
}

/// The client is in the log, the journal's rows, conversations, metrics and the list of handoffs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sent_a_request_is_named() {
    let script = Queue::new([handoff(), Reply::text("Fresh.")]);
    let provider = Strict::start(script, Options::default()).await.unwrap();
    let team = Team::new(&provider.url());
    let program = &team.program;
    let history = talk("Mend it.", "Looking.", "Go on.");
    ask(program, ("x-api-key", "ada-0123456789abcdef"), &history).await;
    team.call("grace", "GET", "/v1/models", Value::Null).await;
    let began = std::time::Instant::now();
    let rows = loop {
        let rows = program.admin("/api/exchanges?filter=client%3Aada").await.json();
        let rows = rows["exchanges"].as_array().unwrap().clone();
        if rows.iter().any(|row| row["open"] == false) {
            break rows;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{rows:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["client"], "ada");
    let talks = program.admin("/api/conversations").await.json();
    assert_eq!(talks["conversations"][0]["client"], "ada", "{talks}");
    let metrics = program.admin("/metrics").await.text();
    let part = "baton_client_exchanges_total{client=\"ada\",outcome=\"complete\"} 1\n";
    assert_contains(&metrics, part);
    let list = team.said(&["handoffs", "list"]);
    assert!(list.contains("CLIENT") && list.contains(" ada "), "{list}");
    let rows: Value = serde_json::from_str(&team.said(&["log", "client:grace", "--json"])).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    assert_eq!(rows[0]["route"], "GET /v1/models");
}

/// A refusal names its sender, and a program that tries keys is slowed down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_keys_are_logged_counted_and_delayed() {
    let (url, lines) = noting_provider();
    let team = Team::with(&url, "trusted = ['127.0.0.0/8']\n", |config| {
        config.replace("[admin]\n", "[admin]\ntoken = 'token-0123456789abcdef'\n")
    });
    let program = &team.program;
    let wrong = async |sender: &str| {
        let headers = [
            ("x-api-key", "wrong-0123456789abcdef"),
            ("x-forwarded-for", sender),
        ];
        let began = std::time::Instant::now();
        let answer = post(&format!("{}/v1/messages", program.data), &headers, "{}".into()).await;
        assert_eq!(answer.status, 401, "{}", answer.text());
        began.elapsed().as_secs()
    };
    for _ in 0..10 {
        assert_eq!(wrong("1.2.3.4, 203.0.113.9").await, 0);
    }
    // The sender's own entries do not count.
    assert!(wrong("5.6.7.8, 203.0.113.9").await >= 2);
    assert_eq!(wrong("203.0.113.10").await, 0, "another address");
    assert_eq!(*lines.lock().unwrap(), [] as [String; 0]);
    let get = async |path: &str, token: &str| {
        let request = http::Request::get(format!("{}{path}", program.admin));
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.header("x-forwarded-for", "198.51.100.7");
        let request = request.body(http_body_util::Full::default()).unwrap();
        read(client_of_tests().request(request).await.unwrap()).await
    };
    let metrics = get("/metrics", "token-0123456789abcdef").await.text();
    assert_contains(&metrics, "baton_refused_keys_total{wire=\"anthropic\"} 12\n");
    let private = get("/api/status?filter=private", "token-0123456789abcdef").await;
    let another = get("/api/exchanges", "another-0123456789").await;
    assert_eq!((private.status, another.status), (200, 401));
    // Without a key nothing enters the journal, whatever is wrong with the request, and a client's long path is cut.
    let long = format!("//{}", "x".repeat(20_000));
    let answer = post(&format!("{}{long}", program.data), &[], "{}".into()).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    let answer = team.call("ada", "POST", &long, Value::Null).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let listed = async || get("/api/exchanges", "token-0123456789abcdef").await.text();
    let began = std::time::Instant::now();
    while !listed().await.contains("xxx") && began.elapsed().as_secs() < 10 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let listed = listed().await;
    assert!(listed.contains("xxx") && listed.len() < 4000, "{listed}");
    assert_eq!(listed.matches("\"refused\"").count(), 1, "{listed}");
    let Team { program, dir } = team;
    drop(program);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let with = |words: &[&str]| -> Vec<&str> {
        let lines = log.lines();
        lines
            .filter(|line| words.iter().all(|words| line.contains(words)))
            .collect()
    };
    assert_eq!(with(&["client_key", "203.0.113.9"]).len(), 11, "{log}");
    let accesses = with(&["admin access"]);
    assert!(accesses.len() >= 2, "{log}");
    assert_contains(accesses[0], "/api/status");
    assert_lacks(accesses[0], "private");
    assert!(
        !with(&["admin access", "401", "198.51.100.7"]).is_empty(),
        "{log}"
    );
    // No key and no token.
    assert_lacks(&log, "0123456789");
}

/// A stream that the end of the drain time cuts ends with an error event, and is not taken for a cancelled one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_outlasts_the_drain_ends_with_an_error() {
    let words = Reply::text("word ".repeat(400)).deltas(5);
    let words = words.delay(std::time::Duration::from_millis(100));
    let place = Place::new([words], "server.drain_secs = 1\n").await;
    let mut program = place.start_logging();
    let url = format!("{}{}", program.data, Anthropic.path());
    let body = Anthropic.body(&[user("Count.")], true).to_string().into();
    let answer = tokio::spawn(async move { post(&url, Anthropic.headers(), body).await });
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    program.signal("-TERM");
    let answer = answer.await.unwrap();
    let text = answer.text();
    assert!(!answer.broken && text.contains("word"), "{text}");
    let (_, error) = text.split_once("event: error\n").expect("an error event");
    assert_contains(error, "the proxy stopped before the response was complete");
    assert!(program.child.wait().unwrap().success());
    let log = place.log();
    assert_contains(&log, "stopped");
    assert_lacks(&log, "cancelled");
}

/// Until the delay is over, `/readyz` reports that the process stops, and connections are accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_proxy_accepts_connections_for_the_delay() {
    let place = Place::new([Reply::text("Still here.")], "server.stop_delay_secs = 3\n").await;
    let mut program = place.start();
    program.signal("-TERM");
    let ready = loop {
        let ready = program.admin("/readyz").await;
        if ready.status != 200 {
            break ready;
        }
    };
    assert_eq!((ready.status, &*ready.text()), (503, "not ready: stopping\n"));
    let ada = ("x-api-key", "sk-ant-api03-ada");
    let answer = ask(&program, ada, &[user("Are you there?")]).await;
    assert_contains(&text(&answer), "Still here.");
    assert!(program.child.wait().unwrap().success());
}

/// The trace context of a request stays in the house.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_context_is_not_sent_to_the_provider() {
    for (more, sent) in [("", false), ("upstreams.anthropic.trace_context = true\n", true)] {
        let place = Place::new([Reply::text("Well.")], more).await;
        let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let headers = [("traceparent", context), ("baggage", "team=a")];
        let headers = [Anthropic.headers(), &headers].concat();
        let answer = place.start().sends_with(&headers, &[user("Go.")]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        for name in ["traceparent", "baggage"] {
            let received = &place.provider.requests()[0].headers;
            assert_eq!(received.contains_key(name), sent, "{name}");
        }
    }
}
