//! Stores that an older version has written, as `tests/golden/older` has them: their conversations continue, with the
//! pending hidden call in them.
//!
//! Written by the version before recall and documents: `BATON_OLDER=FILE cargo test --test suite older_versions -- --ignored`
//! writes them anew with that `baton`. [`conversations::replicas`](crate::conversations) has both versions side by side.

use std::path::{Path, PathBuf};
use std::process::Command;

use baton_llm::state::store::sqlite;
use baton_strict::{Options, Queue, Reply, Strict};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::fixture::{PROMPT, assistant, handoff, history, texts, then};
use crate::harness::program::{Program, ask, config_for};
use crate::harness::redis::RedisServer;
use crate::harness::temp;

/// The prompt of the hidden call that waits.
const QUEUED: &str = "Goal: the writer.\nNext: writer.rs.";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/older")
        .join(name)
}

fn over(server: &RedisServer) -> String {
    format!(
        "store = {{ kind = 'redis', url = '{}', durability = 'memory' }}\n",
        server.url()
    )
}

/// A conversation after a handoff whose model has called a tool of the agent's and, hidden in the same turn, ours.
async fn until_a_call_waits(program: &Program, script: &Queue) -> Vec<Value> {
    script.push(handoff());
    script.push(Reply::text("Fresh."));
    let message = ask(program, &history()).await;
    let transcript = then(&history(), &message, "Go on.");
    let both = Reply::text("Reading.").call_as("toolu_read", "read_file", json!({"path": "a"}));
    script.push(both.call("session_handoff", json!({"prompt": QUEUED})));
    let message = ask(program, &transcript).await;
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_read", "content": "ok"});
    let result = json!({"role": "user", "content": [result]});
    [transcript, vec![assistant(&message.content), result]].concat()
}

/// It continues: pinned, with the hidden call in its place, and hands over when the model's turn ends.
async fn goes_on(provider: &Strict, script: &Queue, program: &Program, transcript: &[Value]) {
    script.push(Reply::text("Read."));
    script.push(Reply::text("Fresh again."));
    let message = ask(program, transcript).await;
    let requests = provider.requests();
    let [first, second] = requests.as_slice() else {
        panic!("{} requests", requests.len())
    };
    let sent = texts(first.messages());
    assert_eq!(sent[0], format!("u: {PROMPT}"), "{sent:?}");
    let calls = json!(first.messages()).to_string();
    assert!(
        calls.contains(r#""name":"session_handoff""#) && calls.contains("Handoff queued"),
        "{calls}"
    );
    assert_eq!(texts(second.messages()), [format!("u: {QUEUED}")]);
    assert!(json!(message.content).to_string().contains("Fresh again."));
    assert_eq!(provider.complaints(), []);
}

async fn provider() -> (Strict, Queue) {
    let script = Queue::new([]);
    (
        Strict::start(script.clone(), Options::default()).await.unwrap(),
        script,
    )
}

fn read(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(golden(name)).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_an_older_version_goes_on() {
    let dir = temp();
    let state = dir.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let conn = Connection::open(state.join(sqlite::FILE)).unwrap();
    conn.execute_batch(&std::fs::read_to_string(golden("sqlite.sql")).unwrap())
        .unwrap();
    drop(conn);
    let (provider, script) = provider().await;
    let program = Program::start(&config_for(&provider, dir.path(), ""), &state);
    let transcript = read("sqlite.json");
    goes_on(&provider, &script, &program, transcript.as_array().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(not(has_redis), ignore = "needs redis-server or valkey-server on the PATH")]
async fn a_server_of_an_older_version_goes_on() {
    let server = RedisServer::start(&[]);
    let stored = read("redis.json");
    for command in stored["commands"].as_array().unwrap() {
        let words: Vec<&str> = command
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap())
            .collect();
        server.cli(&words);
    }
    let dir = temp();
    let (provider, script) = provider().await;
    let program = Program::start(
        &config_for(&provider, dir.path(), &over(&server)),
        &dir.path().join("state"),
    );
    goes_on(
        &provider,
        &script,
        &program,
        stored["transcript"].as_array().unwrap(),
    )
    .await;
    let checked = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["store", "check", "--json", &server.url()])
        .env_remove("BATON_CONFIG")
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes the fixtures, by an older program"]
async fn write() {
    let older = std::env::var_os("BATON_OLDER").expect("BATON_OLDER names an older baton");
    let start = |config: &Path, state: &Path| {
        let mut command = Command::new(&older);
        command
            .args(["serve", "--log-level", "error", "--config"])
            .arg(config);
        Program::launch(command.arg("--state-dir").arg(state))
    };
    std::fs::create_dir_all(golden("")).unwrap();
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap() + "\n";
    let dir = temp();
    let (provider, script) = provider().await;
    let state = dir.path().join("state");
    let program = start(&config_for(&provider, dir.path(), ""), &state);
    let transcript = until_a_call_waits(&program, &script).await;
    drop(program);
    std::fs::write(golden("sqlite.json"), pretty(&json!(transcript))).unwrap();
    std::fs::write(
        golden("sqlite.sql"),
        dumped(&Connection::open(state.join(sqlite::FILE)).unwrap()),
    )
    .unwrap();

    let server = RedisServer::start(&[]);
    let program = start(
        &config_for(&provider, dir.path(), &over(&server)),
        &dir.path().join("other"),
    );
    let transcript = until_a_call_waits(&program, &script).await;
    drop(program);
    let commands = written(&server);
    let both = json!({"transcript": transcript, "commands": commands});
    std::fs::write(golden("redis.json"), pretty(&both)).unwrap();
}

/// A database as SQL.
fn dumped(conn: &Connection) -> String {
    let version: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    let mut sql = format!("PRAGMA user_version = {version};\n");
    let all = |sql: &str| -> Vec<String> {
        let mut statement = conn.prepare(sql).unwrap();
        statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    for made in all("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid") {
        sql.push_str(&format!("{made};\n"));
    }
    for table in all("SELECT name FROM sqlite_schema WHERE type = 'table'") {
        let columns = all(&format!(
            "SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')"
        ));
        let row = columns.join(" || ', ' || ");
        for row in all(&format!("SELECT {row} FROM {table}")) {
            sql.push_str(&format!("INSERT INTO {table} VALUES ({row});\n"));
        }
    }
    sql
}

/// A server's records as commands.
fn written(server: &RedisServer) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let keys = server.cli(&["KEYS", "{baton}:*"]);
    let mut keys: Vec<&str> = keys.lines().collect();
    keys.sort_unstable();
    for key in keys {
        let of = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match server.cli(&["TYPE", key]).as_str() {
            "hash" => {
                for field in server.cli(&["HKEYS", key]).lines() {
                    commands.push(of(&["HSET", key, field, &server.cli(&["HGET", key, field])]));
                }
            }
            "zset" => {
                let listed = server.cli(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
                let listed: Vec<&str> = listed.lines().collect();
                for pair in listed.chunks(2) {
                    commands.push(of(&["ZADD", key, pair[1], pair[0]]));
                }
            }
            other => panic!("{key} is a {other}"),
        }
    }
    commands
}
