//! `baton store forget` with the built program: nothing of the client stays, and everything of the other does.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use baton_strict::{Options, Queue, Reply, Strict};
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::handoff_to;
use crate::harness::program::{Program, baton_over, config_for, printed};
use crate::harness::redis::RedisServer;
use crate::harness::{AgentWire, Message, temp};

const CLIENTS: [&str; 2] = ["ada", "grace"];

fn key(client: &str) -> String {
    format!("key-of-{client}-0123456789")
}

/// Words that only this client's session contains: in its request, and in its carry-over prompt.
fn words(client: &str) -> [String; 2] {
    [
        format!("The {client} importer is slow."),
        format!("Goal: profile what {client} measured."),
    ]
}

fn history(client: &str) -> Vec<Value> {
    let user = |text: &str| json!({"role": "user", "content": text});
    vec![
        user(&words(client)[0]),
        json!({"role": "assistant", "content": "Looking."}),
        user("Go on."),
    ]
}

async fn ask(program: &Program, client: &str, history: &[Value]) -> Message {
    let key = key(client);
    let headers = [("x-api-key", key.as_str()), ("anthropic-version", "2023-06-01")];
    let response = program.sends_with(&headers, history).await;
    assert_eq!(response.status, 200, "{}", response.text());
    Anthropic.parse(&response.raw, true, false).unwrap()
}

/// All bytes of the files below a directory, and all paths.
fn bytes(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.extend_from_slice(path.as_os_str().as_encoded_bytes());
        match path.is_dir() {
            true => all.extend(bytes(&path)),
            false => all.extend(fs::read(&path).unwrap()),
        }
    }
    all
}

/// Whether the files of a directory contain each of a client's words.
fn kept(dir: &Path, client: &str) -> [bool; 2] {
    let all = bytes(dir);
    words(client).map(|words| memchr::memmem::find(&all, words.as_bytes()).is_some())
}

fn forget(config: &Path, state: &Path, args: &[&str]) -> Value {
    let words = [&["store", "forget", "--json"], args].concat();
    serde_json::from_str(&printed(baton_over(config, state, &words))).unwrap()
}

/// A proxy with two clients; each of them has handed over.
async fn served(dir: &Path, state: &Path, more: &str) -> (std::path::PathBuf, Strict, Vec<Message>) {
    let script = CLIENTS
        .map(|client| [handoff_to(&words(client)[1]), Reply::text("Fresh.")])
        .concat();
    let script = Queue::new(script);
    // For a request after the handoffs.
    script.push(Reply::text("Still here."));
    let provider = Strict::start(script, Options::default()).await.unwrap();
    let tables = CLIENTS.map(|name| format!("[[clients]]\nname = '{name}'\nkey = '{}'\n", key(name)));
    let more = format!(
        "{more}upstreams.anthropic.api_key = 'sk-of-the-team'\n{}",
        tables.concat()
    );
    let config = config_for(&provider, dir, &more);
    let mut program = Program::start(&config, state);
    let mut messages = Vec::new();
    for client in CLIENTS {
        messages.push(ask(&program, client, &history(client)).await);
    }
    let began = Instant::now();
    let yaml = |client: &str| memchr::memmem::find(&bytes(state), format!("{client}--").as_bytes()).is_some();
    while !CLIENTS.iter().all(|client| yaml(client)) {
        assert!(began.elapsed() < Duration::from_secs(20), "no handoff files");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    program.signal("-TERM");
    assert!(program.child.wait().unwrap().success());
    (config, provider, messages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_forgotten_everywhere_and_the_other_is_not() {
    let dir = temp();
    let state = dir.path().join("state");
    let (config, provider, messages) = served(dir.path(), &state, "").await;
    assert_eq!(CLIENTS.map(|client| kept(&state, client)), [[true; 2]; 2]);

    // A new client of this name would have her handoffs, until they are deleted.
    let text = fs::read_to_string(&config).unwrap();
    let (settings, _) = text.split_once("[[clients]]").unwrap();
    let without = dir.path().join("without.toml");
    let clients = format!(
        "server.clients_dir = '{}'\n",
        dir.path().join("clients").display()
    );
    fs::write(&without, clients + settings).unwrap();
    let said_to_forget = || {
        let added = baton_over(&without, &state, &["client", "add", "ada"]);
        fs::remove_file(dir.path().join("clients/ada.toml")).unwrap();
        String::from_utf8(added.stderr)
            .unwrap()
            .contains("--client ada\n")
    };
    assert!(said_to_forget());

    let listed = forget(&config, &state, &["--client", "ada", "--dry-run"]);
    assert_eq!(
        CLIENTS.map(|client| kept(&state, client)),
        [[true; 2]; 2],
        "a dry run"
    );
    let done = forget(&config, &state, &["--client", "ada"]);
    for member in ["records", "files", "exchanges"] {
        assert_eq!(done[member], listed[member], "{member}");
    }
    assert_eq!(done["records"]["handoffs"], 1, "{done}");
    assert_eq!(done["exchanges"], 1, "{done}");
    assert_eq!(
        CLIENTS.map(|client| kept(&state, client)),
        [[false; 2], [true; 2]]
    );
    let names = bytes(&state);
    assert!(
        memchr::memmem::find(&names, b"ada--").is_none(),
        "no directory or ledger of hers"
    );
    assert!(!said_to_forget());
    let again = forget(&config, &state, &["--client", "ada"]);
    assert_eq!((&again["records"], &again["exchanges"]), (&json!({}), &json!(0)));

    // The other client's handoff is still active.
    let program = Program::start(&config, &state);
    let later = crate::harness::fixture::then(&history("grace"), &messages[1], "More.");
    ask(&program, "grace", &later).await;
    let sent = provider.requests().last().unwrap().messages().to_vec();
    assert!(sent[0].to_string().contains(&words("grace")[1]), "{sent:?}");
    assert_eq!(provider.complaints(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_and_a_handoff_are_forgotten() {
    let dir = temp();
    let state = dir.path().join("state");
    let (config, _provider, _) = served(dir.path(), &state, "").await;
    let list = |client: &str| {
        let listed = printed(baton_over(&config, &state, &["handoffs", "list", "--json"]));
        let all: Vec<Value> = serde_json::from_str(&listed).unwrap();
        all.into_iter().find(|one| one["principal"] == client).unwrap()
    };
    let (ada, grace) = (list("ada"), list("grace"));
    let document = state
        .join("handoffs")
        .join(ada["id"].as_str().unwrap())
        .join("handoff.json");
    let document: Value = serde_json::from_slice(&fs::read(document).unwrap()).unwrap();
    assert_eq!(document["client"], "ada");
    // The first digits of the key, as `baton log` shows it.
    let key = &ada["conversation"].as_str().unwrap()[..8];
    forget(&config, &state, &["--conversation", key]);
    assert_eq!(kept(&state, "ada"), [false; 2]);
    let done = forget(&config, &state, &["--handoff", grace["id"].as_str().unwrap()]);
    assert_eq!(done["records"]["handoffs"], 1, "{done}");
    assert!(!kept(&state, "grace")[1], "the carry-over prompt");
    printed(baton_over(&config, &state, &["store", "check"]));
}

mod redis {
    use super::*;

    /// Two replicas with their own files and journals over one server.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn a_client_is_forgotten_on_the_server_and_on_each_replica() {
        let server = RedisServer::durable();
        let dir = temp();
        let more = format!("store = {{ kind = 'redis', url = '{}' }}\n", server.url());
        let states = ["one", "two"].map(|name| dir.path().join(name));
        let mut config = None;
        for state in &states {
            config = Some(served(dir.path(), state, &more).await.0);
        }
        let config = config.unwrap();
        for state in &states {
            assert_eq!(kept(state, "ada"), [true; 2]);
            forget(&config, state, &["--client", "ada"]);
            assert_eq!(CLIENTS.map(|client| kept(state, client)), [[false; 2], [true; 2]]);
        }
        let keys = server.cli(&["KEYS", "*"]);
        let all: String = keys.lines().map(|key| server.cli(&["DUMP", key])).collect();
        for words in words("ada") {
            assert!(!all.contains(&words), "{words}");
        }
        let owners: Vec<_> = keys.lines().map(|key| server.cli(&["HGET", key, "o"])).collect();
        assert!(owners.iter().any(|owner| owner == "grace"), "{owners:?}");
        assert!(!owners.iter().any(|owner| owner == "ada"), "{owners:?}");
    }
}
