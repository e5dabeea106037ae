//! Several replicas, one view: the inspector of each shows what all of them have, and names one that is away.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton_strict::{Options, Queue, Reply, Strict};
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{handoff, history, then};
use crate::harness::program::{Program, config_for};
use crate::harness::redis::RedisServer;
use crate::harness::{AgentWire, Message, RawResponse, client, post, read, read_until, temp};

const TOKEN: &str = "0123456789abcdef-of-the-replicas";
const KEY: &str = "the-seal-key-that-the-replicas-share-0123";

struct Replicas {
    provider: Strict,
    script: Queue,
    dir: tempfile::TempDir,
    ports: [u16; 2],
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Replicas {
    async fn new() -> Self {
        let script = Queue::new([]);
        Self {
            provider: Strict::start(script.clone(), Options::default()).await.unwrap(),
            script,
            dir: temp(),
            ports: [free_port(), free_port()],
        }
    }

    /// A replica that knows the other one by `token`.
    fn start(&self, which: usize, token: &str) -> Program {
        let name = ["one", "two"][which];
        let dir: PathBuf = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let [own, other] = [self.ports[which], self.ports[1 - which]];
        let config = config_for(&self.provider, &dir, "");
        let text = std::fs::read_to_string(&config).unwrap();
        let text = text.replace("admin.listen = '127.0.0.1:0'\n", "");
        let more = format!(
            "handoff.seal_key = '{KEY}'\n[admin]\nlisten = '127.0.0.1:{own}'\ntoken = '{TOKEN}'\nname = '{name}'\n\
             peers = [{{ url = 'http://127.0.0.1:{own}', name = '{name}' }}, {{ url = 'http://127.0.0.1:{other}', token = '{token}', name = '{}' }}]\n",
            ["one", "two"][1 - which]
        );
        std::fs::write(&config, text + &more).unwrap();
        Program::start(&config, &dir.join("state"))
    }

    async fn ask(
        &self,
        program: &Program,
        history: &[Value],
        replies: impl IntoIterator<Item = Reply>,
    ) -> Message {
        for reply in replies {
            self.script.push(reply);
        }
        let body = Anthropic.body(history, true).to_string().into();
        let response = post(
            &format!("{}/v1/messages", program.data),
            Anthropic.headers(),
            body,
        )
        .await;
        assert_eq!(response.status, 200, "{}", response.text());
        Anthropic.parse(&response.raw, true, false).unwrap()
    }
}

async fn get(program: &Program, path: &str) -> RawResponse {
    let request = http::Request::get(format!("{}{path}", program.admin))
        .header("authorization", format!("Bearer {TOKEN}"));
    let request = request.body(http_body_util::Full::default()).unwrap();
    read(client().request(request).await.unwrap()).await
}

async fn json_of(program: &Program, path: &str) -> Value {
    let response = get(program, path).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.json()
}

/// Waits until a list of this replica's own has so many members.
async fn own(program: &Program, list: &str, count: usize) {
    let began = Instant::now();
    loop {
        let said = json_of(program, &format!("/api/{list}?replica=here")).await;
        let ended = |row: &Value| row["open"] != json!(true);
        if said[list]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| ended(row))
            .count()
            == count
        {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{said}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

fn of<'a>(rows: &'a Value, name: &str) -> Vec<&'a str> {
    let rows = rows.as_array().unwrap_or_else(|| panic!("{rows}")).iter();
    rows.map(|row| row[name].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replica_shows_the_exchanges_of_all() {
    let replicas = Replicas::new().await;
    let (one, two) = (replicas.start(0, TOKEN), replicas.start(1, TOKEN));
    let message = replicas
        .ask(&one, &history(), [handoff(), Reply::text("Fresh.")])
        .await;
    own(&one, "exchanges", 1).await;
    let later = then(&history(), &message, "More of the zebra.");
    replicas.ask(&two, &later, [Reply::text("Well.")]).await;
    own(&two, "exchanges", 1).await;

    for (program, name) in [(&one, "one"), (&two, "two")] {
        let list = json_of(program, "/api/conversations").await;
        assert_eq!(
            (list["conversations"].as_array().map(Vec::len), &list["away"]),
            (Some(1), &json!([])),
            "{list}"
        );
        let talk = &list["conversations"][0];
        assert_eq!((&talk["exchanges"], &talk["handoffs"]), (&json!(2), &json!(1)));
        let mut names = talk["replicas"].as_array().unwrap().clone();
        names.sort_by_key(ToString::to_string);
        assert_eq!(names, [json!("one"), json!("two")]);

        let key = talk["key"].as_str().unwrap();
        let whole = json_of(program, &format!("/api/conversations/{key}")).await;
        assert_eq!(of(&whole["exchanges"], "replica"), ["one", "two"], "oldest first");
        assert_eq!(whole["handoffs"].as_array().map(Vec::len), Some(1));
        let rows = json_of(program, "/api/exchanges?limit=1").await;
        assert_eq!(of(&rows["exchanges"], "replica"), ["two"], "newest first");

        // Every query for one exchange is answered by the replica that has it.
        for row in whole["exchanges"].as_array().unwrap() {
            let (id, replica) = (row["id"].as_str().unwrap(), row["replica"].as_str().unwrap());
            let exchange = get(program, &format!("/api/exchanges/{id}")).await;
            assert_eq!(exchange.json()["exchange"]["replica"], json!(replica));
            assert_eq!(exchange.header("x-baton-replica"), Some(replica));
            let body = get(program, &format!("/api/exchanges/{id}/received")).await;
            assert!(
                body.text().contains("Mend the importer.")
                    && body.header("content-type").unwrap().starts_with("text/plain")
            );
            let part = get(program, &format!("/api/exchanges/{id}/message?side=received&i=0")).await;
            assert_eq!(part.json()["parts"][0]["text"], json!("Mend the importer."));
            let har = get(program, &format!("/api/exchanges/{id}/har")).await;
            assert!(har.header("content-disposition").is_some() && har.json()["log"].is_object());
        }
        let handoff = of(&whole["handoffs"], "id")[0];
        assert_eq!(
            json_of(program, &format!("/api/handoffs/{handoff}")).await["handoff"]["id"],
            json!(handoff)
        );
        assert_eq!(
            of(&json_of(program, "/api/handoffs").await["handoffs"], "id"),
            [handoff]
        );
        let found = json_of(program, "/api/search?q=zebra").await;
        assert_eq!(
            (of(&found["hits"], "replica"), &found["complete"]),
            (vec!["two"], &json!(true)),
            "{found}"
        );

        let status = json_of(program, "/api/status").await;
        let known = status["replicas"].as_array().unwrap();
        assert_eq!(
            known
                .iter()
                .filter(|it| it["here"] == json!(true))
                .map(|it| it["name"].clone())
                .collect::<Vec<_>>(),
            [json!(name)]
        );
        assert!(known.iter().all(|it| it["exchanges"] == json!(1)), "{status}");
        // One replica alone, by name.
        for replica in ["one", "two"] {
            let rows = json_of(program, &format!("/api/exchanges?replica={replica}")).await;
            assert_eq!(rows["exchanges"].as_array().map(Vec::len), Some(1));
        }
        assert_eq!(get(program, "/api/exchanges?replica=three").await.status, 404);
        let missing = get(program, "/api/exchanges/nope").await;
        assert_eq!(
            (missing.status, missing.json()["error"]["code"].as_str()),
            (404, Some("not_found"))
        );
        // Metrics are of the queried process.
        let metrics = get(program, "/metrics").await.text();
        let handoffs: Vec<_> = metrics
            .lines()
            .filter(|line| line.starts_with("baton_handoffs_total{"))
            .collect();
        assert_eq!(
            handoffs.iter().any(|line| line.ends_with(" 1")),
            name == "one",
            "{handoffs:?}"
        );
    }
    assert_eq!(replicas.provider.complaints(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_all_replicas_come_as_they_happen() {
    let replicas = Replicas::new().await;
    let (one, two) = (replicas.start(0, TOKEN), replicas.start(1, TOKEN));
    let request = http::Request::get(format!("{}/api/events", one.admin))
        .header("authorization", format!("Bearer {TOKEN}"));
    let request = request.body(http_body_util::Full::default()).unwrap();
    let events = client().request(request).await.unwrap();
    // Until it listens to the other one as well.
    tokio::time::sleep(Duration::from_millis(500)).await;
    replicas.ask(&two, &history(), [Reply::text("Well.")]).await;
    let reading = read_until(events, "event: exchange");
    let (raw, _) = tokio::time::timeout(Duration::from_secs(20), reading)
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&raw).into_owned();
    assert!(
        text.contains("event: begun\n") && text.contains("\"replica\":\"two\""),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_away_is_named_and_waited_for_no_longer_than_it_may_take() {
    let replicas = Replicas::new().await;
    let (one, mut two) = (
        replicas.start(0, TOKEN),
        replicas.start(1, "another-token-0123456789"),
    );
    replicas.ask(&one, &history(), [Reply::text("Well.")]).await;
    own(&one, "exchanges", 1).await;

    let refused = json_of(&two, "/api/conversations").await;
    assert_eq!(of(&refused["away"], "replica"), ["one"]);
    assert!(
        refused["away"][0]["why"].as_str().unwrap().contains("token"),
        "{refused}"
    );

    // It has stopped answering, but accepts connections.
    let pid = Pid::from_child(&two.child);
    kill_process(pid, Signal::STOP).unwrap();
    // The signal returns before the process has stopped.
    waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
    let began = Instant::now();
    let list = json_of(&one, "/api/conversations").await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(
        (
            of(&list["away"], "replica"),
            list["conversations"].as_array().map(Vec::len)
        ),
        (vec!["two"], Some(1))
    );
    assert!(
        list["away"][0]["why"]
            .as_str()
            .unwrap()
            .contains("no answer within"),
        "{list}"
    );
    kill_process(pid, Signal::CONT).unwrap();

    two.child.kill().unwrap();
    two.child.wait().unwrap();
    for path in [
        "conversations",
        "exchanges",
        "handoffs",
        "status",
        "search?q=importer",
    ] {
        let said = json_of(&one, &format!("/api/{path}")).await;
        assert_eq!(of(&said["away"], "replica"), ["two"], "{path}: {said}");
    }
    assert_eq!(
        json_of(&one, "/api/search?q=importer").await["complete"],
        json!(false)
    );
    let missing = get(&one, "/api/exchanges/nope").await;
    assert!(
        missing.status == 404 && missing.text().contains("away: two ("),
        "{}",
        missing.text()
    );
    assert_eq!(get(&one, "/api/exchanges?replica=two").await.status, 502);
    // It is there again without a restart of the other.
    let _two = replicas.start(1, TOKEN);
    assert_eq!(json_of(&one, "/api/conversations").await["away"], json!([]));
}

/// Over a server.
mod redis {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Three processes that know of each other by the store alone.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs Redis: .ci/full redis"]
    async fn replicas_find_each_other_in_the_store() {
        let server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
        let replicas = Replicas::new().await;
        let start = |name: &str, token: &str| {
            let dir = replicas.dir.path().join(name);
            std::fs::create_dir_all(&dir).unwrap();
            let port = free_port();
            let config = config_for(&replicas.provider, &dir, "");
            let text = std::fs::read_to_string(&config)
                .unwrap()
                .replace("admin.listen = '127.0.0.1:0'\n", "");
            let more = format!(
                "handoff.seal_key = '{KEY}'\nstore = {{ kind = 'redis', url = '{}' }}\n[admin]\nlisten = '127.0.0.1:{port}'\n\
                 token = '{token}'\nname = '{name}'\nurl = 'http://127.0.0.1:{port}'\n",
                server.url()
            );
            std::fs::write(&config, text + &more).unwrap();
            Program::start(&config, &dir.join("state"))
        };
        let (one, two) = (start("one", TOKEN), start("two", TOKEN));
        let mut three = start("three", TOKEN);
        let message = replicas
            .ask(&one, &history(), [handoff(), Reply::text("Fresh.")])
            .await;
        let later = then(&history(), &message, "More of the zebra.");
        replicas.ask(&two, &later, [Reply::text("Well.")]).await;
        let later = [
            &later[..],
            &[
                json!({"role": "assistant", "content": "Well."}),
                json!({"role": "user", "content": "On."}),
            ],
        ]
        .concat();
        replicas.ask(&three, &later, [Reply::text("Well, well.")]).await;
        for program in [&one, &two, &three] {
            own(program, "exchanges", 1).await;
        }
        // Each looks for others every five seconds.
        let names = async |program: &Program| -> (Vec<String>, Vec<String>) {
            let status = json_of(program, "/api/status").await;
            let listed = |list: &Value, name: &str| match list.as_array() {
                Some(_) => of(list, name).into_iter().map(str::to_owned).collect(),
                None => Vec::new(),
            };
            let mut there: Vec<String> = listed(&status["replicas"], "name");
            there.sort_unstable();
            (there, listed(&status["away"], "replica"))
        };
        let until = async |program: &Program, there: &[&str], away: &[&str]| {
            let began = Instant::now();
            loop {
                let found = names(program).await;
                if found.0 == there && found.1 == away {
                    return;
                }
                assert!(
                    began.elapsed() < Duration::from_secs(30),
                    "{found:?}, not {there:?} and {away:?}"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        for program in [&one, &two, &three] {
            until(program, &["one", "three", "two"], &[]).await;
            let list = json_of(program, "/api/conversations").await;
            assert_eq!(list["conversations"][0]["exchanges"], json!(3), "{list}");
            let key = list["conversations"][0]["key"].as_str().unwrap();
            let whole = json_of(program, &format!("/api/conversations/{key}")).await;
            assert_eq!(of(&whole["exchanges"], "replica"), ["one", "two", "three"]);
        }
        // The register has no secret.
        let register = server.cli(&["HGETALL", "{baton}:replicas"]);
        assert!(
            register.contains("http://127.0.0.1:") && !register.contains(TOKEN),
            "{register}"
        );

        // One that is killed is listed as offline; one that ends removes itself.
        three.child.kill().unwrap();
        three.child.wait().unwrap();
        until(&one, &["one", "two"], &["three"]).await;
        let mut three = start("three", "another-token-0123456789");
        until(&one, &["one", "two"], &["three"]).await;
        let began = Instant::now();
        loop {
            // Until its new address is known.
            let why = json_of(&one, "/api/status").await["away"][0]["why"].to_string();
            if why.contains("token") {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{why}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        kill_process(Pid::from_child(&three.child), Signal::TERM).unwrap();
        three.child.wait().unwrap();
        until(&one, &["one", "two"], &[]).await;
        assert_eq!(replicas.provider.complaints(), []);
    }
}
