//! Two replicas over one store behind nginx and HAProxy, with the configurations of `examples/compose`.
//!
//! Streams arrive without delay. A session stays on one replica, and continues on the other when that one
//! stops. Nothing is sent twice, and replicas can be replaced one by one.
//!
//! `.ci/full balancers` runs these tests. They need the balancers' programs and a server for the store.

use std::collections::HashSet;
use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use baton_strict::{Options, Queue, Reply, Strict};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, history, texts, then, user};
use crate::harness::program::{Program, config_for};
use crate::harness::redis::{RedisServer, free_port};
use crate::harness::texts::{assert_begins, assert_contains};
use crate::harness::{AgentWire, Message, client, open, post, read, temp};

const TOKEN: &str = "0123456789abcdef-of-the-team";

/// Headers with which agents identify their sessions: the first of each row in `session::key`.
const SESSION_HEADERS: [&str; 5] = [
    "x-claude-code-session-id",
    "session-id",
    "x-session-id",
    "agent-session-id",
    "session_id",
];

/// Sessions per header, enough for both replicas to have some.
const SESSIONS: usize = 16;

/// A balancer: its program, the file in `examples/compose`, and the arguments before the file's path.
struct Kind {
    program: &'static str,
    file: &'static str,
    args: &'static [&'static str],
}

const NGINX: Kind = Kind {
    program: "nginx",
    file: "nginx.conf",
    args: &["-g", "daemon off;", "-c"],
};

const HAPROXY: Kind = Kind {
    program: "haproxy",
    file: "haproxy.cfg",
    args: &["-db", "-f"],
};

/// Finds the program. Debian installs servers outside of a user's `PATH`.
fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{program} is not installed: apt-get install {program}"))
}

struct Team {
    provider: Strict,
    script: Queue,
    replicas: [Option<Program>; 2],
    ports: [[u16; 2]; 2],
    store: RedisServer,
    balancer: Option<Child>,
    url: String,
    tls_port: u16,
    dir: tempfile::TempDir,
}

impl Drop for Team {
    fn drop(&mut self) {
        if let Some(balancer) = &mut self.balancer {
            // A killed balancer would leave its workers running.
            let _ = Command::new("kill").arg(balancer.id().to_string()).status();
            let _ = balancer.wait();
        }
    }
}

impl Team {
    async fn start(kind: &Kind) -> Self {
        let program = find(kind.program);
        let store = RedisServer::durable();
        let script = Queue::new([]);
        let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
        let dir = temp();
        let ports = [[free_port(), free_port()], [free_port(), free_port()]];
        let port = free_port();
        let tls_port = free_port();
        let config = own_config(kind, dir.path(), [port, tls_port], ports);
        let mut team = Self {
            provider,
            script,
            replicas: [None, None],
            ports,
            store,
            balancer: None,
            url: format!("http://127.0.0.1:{port}"),
            tls_port,
            dir,
        };
        for which in [0, 1] {
            team.run(which);
        }
        let log = team.dir.path().join("balancer.log");
        let balancer = Command::new(program)
            .args(kind.args)
            .arg(&config)
            .current_dir(team.dir.path())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let balancer = team.balancer.insert(balancer);
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = balancer.try_wait().unwrap();
            assert!(
                ended.is_none() && began.elapsed() < Duration::from_secs(20),
                "{} does not start: {}",
                kind.program,
                std::fs::read_to_string(&log).unwrap()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        team
    }

    /// Starts a replica like a service manager.
    fn run(&mut self, which: usize) {
        let name = ["baton-1", "baton-2"][which];
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let [data, admin] = self.ports[which];
        let config = config_for(&self.provider, &dir, "");
        let text = std::fs::read_to_string(&config).unwrap();
        let text = text
            .replace(
                "server.listen = '127.0.0.1:0'",
                &format!("server.listen = '127.0.0.1:{data}'"),
            )
            .replace(
                "admin.listen = '127.0.0.1:0'",
                &format!("admin.listen = '127.0.0.1:{admin}'\nadmin.token = '{TOKEN}'"),
            );
        let more = format!(
            "store.kind = 'redis'\nstore.url = '{}'\nhandoff.seal_key = 'the-key-that-both-replicas-of-the-test-share'\n",
            self.store.url()
        );
        std::fs::write(&config, text + &more).unwrap();
        self.replicas[which] = Some(Program::start(&config, &dir.join("state")));
    }

    async fn ask(&self, history: &[Value]) -> Message {
        self.ask_in(SESSION_HEADERS[0], "s", history).await
    }

    /// Sends a request of an agent that identifies its session with this header.
    async fn ask_in(&self, header: &str, session: &str, history: &[Value]) -> Message {
        let body = Anthropic.body(history, true).to_string().into();
        let headers = [Anthropic.headers(), &[(header, session)]].concat();
        let response = post(&self.path(), &headers, body).await;
        assert_eq!(
            (response.status, response.broken),
            (200, false),
            "{}",
            response.text()
        );
        Anthropic.parse(&response.raw, true, false).unwrap()
    }

    fn path(&self) -> String {
        format!("{}/v1/messages", self.url)
    }

    /// Exchanges of one replica.
    async fn exchanges(&self, which: usize) -> Vec<Value> {
        let url = format!("http://127.0.0.1:{}/api/exchanges?limit=0", self.ports[which][1]);
        let request = http::Request::get(url).header("authorization", format!("Bearer {TOKEN}"));
        let request = request.body(http_body_util::Full::default()).unwrap();
        let said = read(client().request(request).await.unwrap()).await.json();
        said["exchanges"].as_array().unwrap().clone()
    }
}

/// The example with the addresses of this test.
fn own_config(kind: &Kind, dir: &Path, [port, tls_port]: [u16; 2], ports: [[u16; 2]; 2]) -> PathBuf {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let both = [chain.as_str(), key.as_str()].concat();
    for (name, text) in [("cert.pem", &chain), ("key.pem", &key), ("both.pem", &both)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/compose")
        .join(kind.file);
    let mut text = std::fs::read_to_string(file).unwrap();
    for (name, [data, admin]) in ["baton-1", "baton-2"].into_iter().zip(ports) {
        text = text
            .replace(
                &format!("{name}:8787 port 8788"),
                &format!("127.0.0.1:{data} port {admin}"),
            )
            .replace(&format!("{name}:8787"), &format!("127.0.0.1:{data}"));
    }
    let dir_text = dir.display();
    let text = text
        // Plain HTTP as well, on which the tests speak.
        .replace(
            "listen 8443 ssl;",
            &format!("listen 127.0.0.1:{port};\n    listen 127.0.0.1:{} ssl;", tls_port),
        )
        .replace(
            "bind :8443",
            &format!("bind 127.0.0.1:{port}\n  bind 127.0.0.1:{tls_port}"),
        )
        .replace("tls/", &format!("{dir_text}/"))
        .replace(
            "http {\n",
            &format!(
                "pid {dir_text}/nginx.pid;\nerror_log {dir_text}/nginx.log;\nhttp {{\n  access_log off;\n"
            ),
        );
    let own = dir.join(kind.file);
    std::fs::write(&own, text).unwrap();
    own
}

/// Whatever the header, a whole session is in one replica's journal, and both replicas have sessions.
async fn a_session_stays_on_one_replica(team: &Team) {
    for header in SESSION_HEADERS {
        let before = [team.exchanges(0).await.len(), team.exchanges(1).await.len()];
        for session in 0..SESSIONS {
            for turn in 0..2 {
                team.script.push(Reply::text("Well."));
                let text = format!("{header} {session} {turn}");
                team.ask_in(header, &session.to_string(), &[user(&text)]).await;
            }
        }
        let began = Instant::now();
        let after = loop {
            let after = [team.exchanges(0).await, team.exchanges(1).await];
            let rows = after.iter().flatten();
            if rows.filter(|row| row["open"] != json!(true)).count() == before[0] + before[1] + 2 * SESSIONS {
                break after;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{header}: {after:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let sessions = [0, 1].map(|which| {
            let new = &after[which][..after[which].len() - before[which]];
            new.iter()
                .map(|row| row["conversation"].as_str().unwrap())
                .collect::<HashSet<_>>()
        });
        assert_eq!(
            sessions[0].len() + sessions[1].len(),
            SESSIONS,
            "{header}: {sessions:?}"
        );
        assert!(sessions.iter().all(|on| !on.is_empty()), "{header}: {sessions:?}");
    }
    // A session of several megabytes must not be refused.
    team.script.push(Reply::text("Read."));
    team.ask(&[user(&"Long. ".repeat(500_000))]).await;
}

/// The first words of a response arrive while the model is still writing.
async fn a_stream_flows(team: &Team) {
    team.script.push(
        Reply::text("word ".repeat(12))
            .deltas(5)
            .delay(Duration::from_millis(60)),
    );
    let body = Anthropic.body(&history(), true).to_string().into();
    let mut body = open(&client(), &team.path(), Anthropic.headers(), body)
        .await
        .into_body();
    let (mut first, mut raw) = (None, Vec::new());
    while let Some(frame) = body.frame().await {
        raw.extend(frame.unwrap().into_data().unwrap_or_default());
        if first.is_none() && memchr::memmem::find(&raw, b"word").is_some() {
            first = Some(Instant::now());
        }
    }
    assert!(
        first.unwrap().elapsed() > Duration::from_millis(250),
        "it came in one piece"
    );
    assert!(Anthropic.parse(&raw, true, false).unwrap().ended);
}

/// A replica that stops finishes its requests, and no request fails meanwhile.
async fn a_replica_is_replaced(team: &mut Team) {
    team.script.push(handoff());
    team.script.push(Reply::text("Fresh."));
    let mut talk = history();
    let message = team.ask(&talk).await;
    talk = then(&talk, &message, "Are you there?");
    for which in [0, 1] {
        // Streams on both replicas, some of them on the one that stops.
        let streams: Vec<_> = (0..8)
            .map(|session| {
                team.script.push(
                    Reply::text("word ".repeat(20))
                        .deltas(5)
                        .delay(Duration::from_millis(60)),
                );
                let (path, body) = (team.path(), Anthropic.body(&history(), true).to_string());
                let session = session.to_string();
                tokio::spawn(async move {
                    let headers = [Anthropic.headers(), &[(SESSION_HEADERS[0], &*session)]].concat();
                    post(&path, &headers, body.into()).await
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let old = team.replicas[which].take().unwrap();
        old.signal("-TERM");
        tokio::time::sleep(Duration::from_millis(100)).await;
        // The session continues on the same replica or on the other one, which learns of the handoff from the
        // store.
        for _ in 0..4 {
            team.script.push(Reply::text("Still here."));
            let message = team.ask(&talk).await;
            talk = then(&talk, &message, "And now?");
            let sent = texts(team.provider.requests().last().unwrap().messages());
            assert_eq!(sent[0], format!("u: {PROMPT}"), "{sent:?}");
        }
        for stream in streams {
            let response = stream.await.unwrap();
            assert_eq!(
                (response.status, response.broken),
                (200, false),
                "{}",
                response.text()
            );
            assert!(response.text().contains("message_stop"), "{}", response.text());
        }
        let mut old = old;
        assert!(old.child.wait().unwrap().success());
        team.run(which);
        // Wait until the balancer has noticed the new replica.
        tokio::time::sleep(Duration::from_millis(2500)).await;
    }
}

/// If a replica dies after it has sent a request, the agent gets an error, and the request is not sent again.
async fn nothing_is_sent_twice(team: &mut Team) {
    let before = team.provider.generations().len();
    team.script
        .push(Reply::text("Late.").head_delay(Duration::from_secs(8)));
    let (path, body) = (team.path(), Anthropic.body(&[user("Once.")], true).to_string());
    let asked = tokio::spawn(async move {
        let headers = [Anthropic.headers(), &[(SESSION_HEADERS[0], "s")]].concat();
        post(&path, &headers, body.into()).await
    });
    let began = Instant::now();
    let which = loop {
        let open = |rows: Vec<Value>| rows.iter().any(|row| row["open"] == json!(true));
        let on = [open(team.exchanges(0).await), open(team.exchanges(1).await)];
        if let Some(which) = on.iter().position(|it| *it) {
            break which;
        }
        assert!(began.elapsed() < Duration::from_secs(7), "no replica has it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut dead = team.replicas[which].take().unwrap();
    dead.child.kill().unwrap();
    let response = asked.await.unwrap();
    let answered = response.status == 200 && response.text().contains("message_stop");
    assert!(!answered, "{}", response.text());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(team.provider.generations().len(), before + 1);
    // The other one continues.
    for turn in 0..4 {
        team.script.push(Reply::text("Well."));
        team.ask(&[user(&format!("And now? {turn}"))]).await;
    }
}

/// Without the store, conversations that need nothing of it are served, and the replicas report why.
async fn the_store_is_lost(team: &mut Team) {
    team.store.kill();
    // Longer than a balancer needs to take a replica out.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for session in ["a", "b", "c", "d"] {
        team.script.push(Reply::text("Without it."));
        team.ask_in(SESSION_HEADERS[0], session, &[user("Nothing was handed over.")])
            .await;
    }
    for which in [0, 1] {
        let url = |query| format!("http://127.0.0.1:{}/readyz{query}", team.ports[which][1]);
        let ready = read(client().get(url("").parse().unwrap()).await.unwrap()).await;
        assert_eq!((ready.status, &*ready.text()), (200, "degraded: store_read\n"));
        let strict = read(client().get(url("?strict=1").parse().unwrap()).await.unwrap()).await;
        assert_eq!(strict.status, 503);
    }
    team.store.start_again();
}

/// Requests over TLS reach a replica.
async fn it_speaks_tls(team: &Team) {
    let certificate = team.dir.path().join("cert.pem");
    let address = format!("127.0.0.1:{}", team.tls_port);
    let answer = crate::team_secrets::get_over_tls(&address, &certificate, "/", "none").await;
    assert_begins(&answer, "HTTP/1.1 200 ");
    assert_contains(&answer, "baton, a proxy");
}

async fn behind(kind: &Kind) {
    let mut team = Team::start(kind).await;
    it_speaks_tls(&team).await;
    a_session_stays_on_one_replica(&team).await;
    a_stream_flows(&team).await;
    a_replica_is_replaced(&mut team).await;
    the_store_is_lost(&mut team).await;
    nothing_is_sent_twice(&mut team).await;
    assert_eq!(team.provider.complaints(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nginx and Redis: .ci/full balancers"]
async fn behind_nginx() {
    behind(&NGINX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs HAProxy and Redis: .ci/full balancers"]
async fn behind_haproxy() {
    behind(&HAPROXY).await;
}
