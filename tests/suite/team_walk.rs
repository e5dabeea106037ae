//! The ten steps of "A team" in docs/operations.md, with the page's own commands, config and scrape job.
//!
//! `.ci/full walk` runs it. It needs OpenSSL, Redis and Prometheus.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use baton_strict::{Options, Queue, Reply, Strict};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::handoff;
use crate::harness::program::Program;
use crate::harness::redis::{RedisServer, free_port};
use crate::harness::texts::assert_contains;
use crate::harness::{AgentWire, RawResponse, client, read, temp};

const HOST: &str = "baton.example.com";

/// Sign-in of a plan, as ada's agent sends it.
const SIGN_IN: &str = "Bearer sign-in-of-ada";

const PASSWORD: &str = "password-of-the-store";

/// The steps of the page, each with its blocks of code as language and text.
fn steps() -> Vec<Vec<(String, String)>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split_once("\n## A team\n").unwrap().1;
    let section = section.split_once("\n## ").unwrap().0;
    let blocks = |step: &str| {
        let mut blocks = Vec::new();
        for block in step.split("\n```").skip(1).step_by(2) {
            let (language, text) = block.split_once('\n').unwrap();
            blocks.push((language.to_owned(), text.to_owned() + "\n"));
        }
        blocks
    };
    section.split("\n### ").skip(1).map(blocks).collect()
}

/// A machine with the page's paths below a directory, and its name on free ports of loopback.
struct Machine {
    dir: tempfile::TempDir,
    data: u16,
    admin: u16,
    provider: String,
}

impl Machine {
    /// Replaces the paths and addresses of the page.
    fn here(&self, text: &str) -> String {
        text.replace("/etc/baton", &self.path("etc").display().to_string())
            .replace("/var/lib/baton", &self.path("state").display().to_string())
            .replace("0.0.0.0:8787", &format!("127.0.0.1:{}", self.data))
            .replace("0.0.0.0:8788", &format!("127.0.0.1:{}", self.admin))
            .replace(&format!("{HOST}:8787"), &format!("{HOST}:{}", self.data))
            .replace(&format!("{HOST}:8788"), &format!("localhost:{}", self.admin))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command of a shell script, in which `baton` is the program under test.
    fn shell(&self, script: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-euc", &self.here(script)])
            .env("PATH", format!("{}:{path}", program.display()))
            .env("HOME", self.dir.path())
            .env("ANTHROPIC_API_KEY", "key-of-the-provider-0123")
            .env("STORE_PASSWORD", PASSWORD)
            .env_remove("BATON_CONFIG");
        command
    }

    fn run(&self, script: &str) -> Output {
        let output = self.shell(script).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script}\n{said}");
        output
    }

    /// Sends a request over TLS to the page's name.
    async fn send(&self, port: u16, request: http::Request<Full<bytes::Bytes>>) -> RawResponse {
        let mut roots = rustls::RootCertStore::empty();
        let certificate = fs::read(self.path("cert.der")).unwrap();
        roots.add(certificate.into()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls));
        let stream = connector
            .connect(ServerName::try_from(HOST).unwrap(), stream)
            .await
            .unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        read(sender.send_request(request).await.unwrap()).await
    }

    /// Sends a conversation with these headers, and returns the response.
    async fn ask(&self, path: &str, headers: &[(&str, &str)], history: &[Value]) -> RawResponse {
        let mut request = http::Request::post(path).header("host", format!("{HOST}:{}", self.data));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("anthropic-version", "2023-06-01");
        let body = Anthropic.body(history, true).to_string();
        self.send(self.data, request.body(Full::from(body)).unwrap())
            .await
    }

    async fn admin(&self, path: &str, token: &str) -> u16 {
        let token = fs::read_to_string(self.path("etc").join(token)).unwrap();
        let request = http::Request::get(path)
            .header("host", HOST)
            .header("authorization", format!("Bearer {}", token.trim()));
        self.send(self.admin, request.body(Full::default()).unwrap())
            .await
            .status
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(block: &(String, String), language: &str) -> String {
    assert_eq!(block.0, language, "{}", block.1);
    block.1.clone()
}

/// Ends a process at the end of a test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn history() -> [Value; 3] {
    [
        json!({"role": "user", "content": "Mend it."}),
        json!({"role": "assistant", "content": "Looking."}),
        json!({"role": "user", "content": "Go on."}),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs OpenSSL, Redis and Prometheus: .ci/full walk"]
async fn each_step_of_the_page_works() {
    let replies = [
        Reply::text("Hello."),
        Reply::text("Hello."),
        handoff(),
        Reply::text("Fresh."),
    ];
    let script = Queue::new(replies);
    let provider = Strict::start(script.clone(), Options::default()).await.unwrap();
    let machine = Machine {
        dir: temp(),
        data: free_port(),
        admin: free_port(),
        provider: provider.url(),
    };
    let steps = steps();
    assert_eq!(steps.len(), 10);

    // 1. Secrets.
    machine.run(&text(&steps[0][0], "sh"));
    let etc = machine.path("etc");

    // 2. Config, with the scripted provider in place of the real one.
    let config = machine.here(&text(&steps[1][0], "toml"));
    let config = config.replace("https://api.anthropic.com", &machine.provider);
    let config = config.replace(
        "[upstreams.anthropic]\n",
        &format!("[upstreams.anthropic]\nbase_url = '{}'\n", machine.provider),
    );
    fs::write(etc.join("baton.toml"), &config).unwrap();

    // 3. TLS.
    let made = rcgen::generate_simple_self_signed([HOST.to_owned(), "localhost".to_owned()]).unwrap();
    fs::write(etc.join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(etc.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(machine.path("cert.der"), made.cert.der()).unwrap();

    // 4. Start.
    let start = text(&steps[3][0], "sh");
    let (check, serve) = start.trim_end().split_once('\n').unwrap();
    machine.run(check);
    let mut program = Program::launch(machine.shell(&format!("exec {serve}")).stderr(Stdio::null()));
    assert!(program.data.starts_with("https://") && program.admin.starts_with("https://"));
    assert_eq!(said(&machine.run(&text(&steps[3][1], "sh"))), "ready\n");

    // 5. A new user types the line that the command has printed.
    let added = said(&machine.run(&text(&steps[4][0], "sh")));
    let shown = machine.here(&text(&steps[4][1], ""));
    let (front, back) = shown.trim().split_once("sk-baton-…").unwrap();
    let line = added
        .lines()
        .find(|line| line.contains("ANTHROPIC_API_KEY") && line.ends_with(" claude"))
        .unwrap();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let of_page = [words(front.trim()), words(back.trim())].concat();
    assert!(of_page.iter().all(|word| line.contains(word.as_str())), "{line}");
    let key = line
        .split("ANTHROPIC_API_KEY=")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let ada = [("x-api-key", key.as_str())];
    let messages = "/v1/messages";
    let began = Instant::now();
    while machine.ask(messages, &ada, &history()[..1]).await.status == 401 {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the key is not admitted"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let nobody = machine
        .ask(messages, &[("x-api-key", "sk-baton-of-nobody-0")], &history())
        .await;
    assert_eq!(nobody.status, 401);

    // 6. A plan beside the key: the sign-in arrives, the key does not.
    let shown = text(&steps[5][0], "");
    assert_contains(&shown, "/u/plan ANTHROPIC_CUSTOM_HEADERS=\"x-api-key: ");
    let both = [("authorization", SIGN_IN), ("x-api-key", key.as_str())];
    let answer = machine.ask("/u/plan/v1/messages", &both, &history()[..1]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = provider.generations();
    let (own, plan) = (&seen[0], &seen[1]);
    assert_eq!(own.header("x-api-key"), Some("key-of-the-provider-0123"));
    assert_eq!(plan.header("authorization"), Some(SIGN_IN));
    assert_eq!(plan.header("x-api-key"), None);

    // 7. Who did what, after a handoff of ada's.
    let answer = machine.ask(messages, &ada, &history()).await;
    assert!(answer.text().contains("Fresh."), "{}", answer.text());
    let commands = text(&steps[6][0], "sh");
    for (command, expected) in commands.lines().zip(["", "ada", "ada"]) {
        // The journal is written a moment after a response.
        let began = Instant::now();
        loop {
            let output = said(&machine.run(command));
            if output.lines().count() > 1 && output.contains(expected) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{command}: {output}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    for (path, token, expected) in [
        ("/api/status", "admin.token", 200),
        ("/api/status", "read.token", 200),
        ("/api/status", "metrics.token", 403),
        ("/metrics", "metrics.token", 200),
    ] {
        assert_eq!(machine.admin(path, token).await, expected, "{path} {token}");
    }

    // 8. Prometheus with the page's job, and the self-made certificate as its root.
    let job = machine.here(&text(&steps[7][0], "yaml"));
    let job = job.replace(
        "    scheme: https\n",
        &format!(
            "    scheme: https\n    scrape_interval: 1s\n    tls_config: {{ ca_file: {}/cert.pem }}\n",
            etc.display()
        ),
    );
    fs::write(machine.path("prometheus.yml"), job).unwrap();
    let port = free_port();
    let mut prometheus = Command::new("prometheus");
    prometheus
        .arg(format!(
            "--config.file={}",
            machine.path("prometheus.yml").display()
        ))
        .arg(format!("--storage.tsdb.path={}", machine.path("tsdb").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stderr(Stdio::null());
    let _prometheus = Started(prometheus.spawn().unwrap());
    let url = format!("http://127.0.0.1:{port}/api/v1/query?query=baton_ready");
    let began = Instant::now();
    loop {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "Prometheus scrapes nothing"
        );
        if let Ok(answer) = client().get(url.parse().unwrap()).await {
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let found: Value = serde_json::from_slice(&body).unwrap();
            if found["data"]["result"][0]["value"][1] == "1" {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    // 9. The same handoffs over Redis, with the page's user, until its memory is full.
    let server = RedisServer::durable();
    let commands = text(&steps[8][0], "sh").replace("redis-cli", &format!("redis-cli -p {}", server.port));
    let output = said(&machine.run(&commands));
    assert_eq!(output, "OK\nOK\nOK\nOK\n");
    let url = format!("redis://baton:{PASSWORD}@127.0.0.1:{}", server.port);
    fs::write(etc.join("store.url"), &url).unwrap();
    let replica = config
        .replace(
            "[state]",
            &format!(
                "[store]\nkind = 'redis'\nurl = {{ file = '{}/store.url' }}\n\n[state]",
                etc.display()
            ),
        )
        .replace("/state\"", "/replica\"");
    fs::write(etc.join("replica.toml"), replica).unwrap();
    let _ = program.child.kill();
    let _ = program.child.wait();
    drop(program);
    let program = Program::launch(
        machine
            .shell(&format!("exec {}", serve.replace("baton.toml", "replica.toml")))
            .stderr(Stdio::null()),
    );
    script.push(handoff());
    script.push(Reply::text("Fresh."));
    let answer = machine.ask(messages, &ada, &history()).await;
    assert!(answer.text().contains("Fresh."), "{}", answer.text());
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    script.push(Reply::text("Without the tool."));
    let other = [json!({"role": "user", "content": "Another session."})];
    let answer = machine.ask(messages, &ada, &other).await;
    assert!(answer.text().contains("Without the tool."), "{}", answer.text());
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);

    // 10. Somebody leaves.
    let leave = text(&steps[9][0], "sh");
    let (remove, forget) = leave.trim_end().split_once('\n').unwrap();
    machine.run(remove);
    let began = Instant::now();
    while machine.ask(messages, &ada, &history()[..1]).await.status != 401 {
        assert!(began.elapsed() < Duration::from_secs(10), "the key still works");
        script.push(Reply::text("Still."));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for config in ["baton.toml", "replica.toml"] {
        let forget = forget.replace("baton.toml", config);
        let output = said(&machine.run(&forget));
        assert!(output.contains(" deleted"), "{output}");
        assert!(said(&machine.run(&format!("{forget} --dry-run"))).contains("nothing of it is kept here"));
    }
    drop(program);
}
