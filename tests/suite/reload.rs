//! A changed config or certificate takes effect in the real program while it serves.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_strict::{Options, Received, Reply, Strict};
use pretty_assertions::assert_eq;
use rustls_pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;

use crate::harness::anthropic::Anthropic;
use crate::harness::program::{Program, baton_over};
use crate::harness::texts::{assert_contains, assert_ends, assert_lacks};
use crate::harness::{AgentWire, RawResponse, client, open, post, read_until, temp};

/// A running program whose config file changes.
struct Served {
    program: Program,
    config: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    _dir: tempfile::TempDir,
}

impl Served {
    fn start(config: impl FnOnce(&Path) -> String) -> Self {
        let dir = temp();
        let file = dir.path().join("baton.toml");
        fs::write(&file, config(dir.path())).unwrap();
        let mut program = Program::start_logging(&file, &dir.path().join("state"));
        let stderr = BufReader::new(program.child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Self {
            program,
            config: file,
            log,
            _dir: dir,
        }
    }

    /// Changes the file and sends the reload signal.
    fn reload(&self, text: &str) {
        self.change(text);
        self.program.signal("-HUP");
    }

    fn change(&self, text: &str) {
        // A file of another length or time, replaced in one step like editors do.
        let new = self.config.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &self.config).unwrap();
    }

    fn lines(&self, part: &str) -> Vec<String> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|line| line.contains(part)).cloned().collect()
    }

    /// Waits until this many log lines contain `part`, and returns the last one.
    async fn logged(&self, count: usize, part: &str) -> String {
        let due = Instant::now() + Duration::from_secs(20);
        loop {
            let lines = self.lines(part);
            if lines.len() >= count {
                return lines.last().unwrap().clone();
            }
            assert!(
                Instant::now() < due,
                "no {part:?}: {:#?}",
                self.log.lock().unwrap()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn url(&self) -> String {
        format!("{}{}", self.program.data, Anthropic.path())
    }

    async fn ask(&self, key: &str) -> RawResponse {
        let headers = [("x-api-key", key), ("anthropic-version", "2026-10-21")];
        post(&self.url(), &headers, body(false).into()).await
    }
}

fn body(stream: bool) -> String {
    let history = [json!({"role": "user", "content": "Hello."})];
    Anthropic.body(&history, stream).to_string()
}

fn listeners(upstream: &Strict) -> String {
    format!(
        "server.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\nupstreams.anthropic.base_url = '{}'\n",
        upstream.url()
    )
}

async fn saying(text: &'static str) -> Strict {
    Strict::start(move |_: &Received| Reply::text(text), Options::default())
        .await
        .unwrap()
}

const RELOADED: &str = "config reloaded";

#[tokio::test(flavor = "multi_thread")]
async fn an_open_stream_ends_as_it_began_and_new_requests_use_the_new_config() {
    let words: String = (0..60).map(|n| format!("word{n} ")).collect();
    let text = words.clone();
    let slow = move |_: &Received| {
        let mut reply = Reply::text(text.clone());
        reply.delivery.delay = Duration::from_millis(50);
        reply
    };
    let old = Strict::start(slow, Options::default()).await.unwrap();
    let new = saying("From the new upstream.").await;
    let served = Served::start(|_| listeners(&old));
    let client = client();
    let streaming = open(&client, &served.url(), Anthropic.headers(), body(true).into()).await;
    let (mut raw, rest) = read_until(streaming, "word0").await;
    served.reload(&listeners(&new));
    served.logged(1, RELOADED).await;
    // The change applies even to the same client's open connection.
    let answer = open(&client, &served.url(), Anthropic.headers(), body(false).into()).await;
    let answer = crate::harness::read(answer).await;
    assert_contains(&answer.text(), "From the new upstream.");
    let rest = crate::harness::read(http::Response::new(rest)).await;
    raw.extend(&rest.raw);
    assert!(!rest.broken);
    let message = Anthropic.parse(&raw, true, false).unwrap();
    assert_eq!(message.content[0]["text"], words);
    assert_eq!((old.generations().len(), new.generations().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_with_a_problem_is_reported_and_not_used() {
    let provider = saying("Still here.").await;
    let served = Served::start(|_| listeners(&provider));
    let good = listeners(&provider);
    served.reload(&format!("{good}[clients\n"));
    // Each problem has its own line.
    let line = served.logged(1, "baton.toml:4:9: ").await;
    assert!(line.contains("config not reloaded"), "{line}");
    served.change(&format!("{good}server.drain_secs = 'soon'\n"));
    let line = served.logged(1, "server.drain_secs: ").await;
    assert!(line.contains("baton.toml:4:21: server.drain_secs: "), "{line}");
    assert!(line.contains("key=\"server.drain_secs\""), "{line}");
    assert_eq!(served.ask("k").await.status, 200);
    // Reported once, not at every check.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(served.lines("server.drain_secs: ").len(), 1);
    served.reload(&format!("{good}\n"));
    served.logged(1, RELOADED).await;
}

/// Many programs empty a file before they write it. An empty config is valid, with the providers' default
/// upstreams.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_being_written_is_not_read_as_the_defaults() {
    let provider = saying("Still here.").await;
    let served = Served::start(|_| listeners(&provider));
    fs::write(&served.config, "").unwrap();
    served.program.signal("-HUP");
    let line = served.logged(1, "config not reloaded").await;
    assert!(line.contains("baton.toml is empty"), "{line}");
    assert_eq!(served.ask("k").await.status, 200);
    fs::write(&served.config, format!("{}\n", listeners(&provider))).unwrap();
    served.logged(1, RELOADED).await;
    assert_eq!(served.ask("k").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_added_is_let_in_and_one_that_is_removed_is_not() {
    const ANN: &str = "ann-0123456789abcdef";
    const BOB: &str = "bob-0123456789abcdef";
    let provider = saying("Hello.").await;
    let client = |name: &str, key: &str| format!("[[clients]]\nname = '{name}'\nkey = '{key}'\n");
    let base = format!(
        "{}upstreams.anthropic.api_key = 'sk-of-the-team'\n",
        listeners(&provider)
    );
    let served = Served::start(|_| format!("{base}{}", client("ann", ANN)));
    assert_eq!(
        (served.ask(ANN).await.status, served.ask(BOB).await.status),
        (200, 401)
    );
    served.change(&format!("{base}{}{}", client("ann", ANN), client("bob", BOB)));
    // Without a signal.
    served.logged(1, RELOADED).await;
    assert_eq!(
        (served.ask(ANN).await.status, served.ask(BOB).await.status),
        (200, 200)
    );
    served.reload(&format!("{base}{}", client("bob", BOB)));
    served.logged(2, RELOADED).await;
    assert_eq!(
        (served.ask(ANN).await.status, served.ask(BOB).await.status),
        (401, 200)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_added_is_redacted_in_the_journal() {
    const BOB: &str = "bob-0123456789abcdef";
    let provider = saying("Hello.").await;
    let served = Served::start(|_| listeners(&provider));
    let client = format!("[[clients]]\nname = 'bob'\nkey = '{BOB}'\n");
    served.reload(&format!("{}{client}", listeners(&provider)));
    served.logged(1, RELOADED).await;
    let history = [json!({"role": "user", "content": format!("my word is {BOB}")})];
    let headers = [("x-api-key", BOB), ("anthropic-version", "2023-06-01")];
    let answer = post(
        &served.url(),
        &headers,
        Anthropic.body(&history, false).to_string().into(),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let exchange = answer.header("x-baton-exchange").unwrap();
    let state = served.config.with_file_name("state");
    let due = Instant::now() + Duration::from_secs(20);
    let received = loop {
        let shown = baton_over(&served.config, &state, &["show", exchange, "--received"]);
        if shown.status.success() {
            break String::from_utf8(shown.stdout).unwrap();
        }
        assert!(Instant::now() < due, "{shown:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_contains(&received, "my word is [redacted");
    assert_lacks(&received, BOB);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_restart_is_named() {
    let provider = saying("Hello.").await;
    let served = Served::start(|_| listeners(&provider));
    let changed =
        listeners(&provider).replace("admin.listen", "limits.max_concurrent_requests = 7\nadmin.listen");
    served.reload(&format!(
        "{changed}journal.max_age_days = 3\nhandoff.max_chain = 3\n"
    ));
    let line = served.logged(1, RELOADED).await;
    let part = "needs a restart: journal.max_age_days; limits.max_concurrent_requests";
    assert_ends(&line, part);
    assert_eq!(served.ask("k").await.status, 200);
    // Reported relative to the config of the last reload.
    served.reload(&format!(
        "{changed}journal.max_age_days = 3\nhandoff.max_chain = 4\n"
    ));
    assert!(served.logged(2, RELOADED).await.ends_with(RELOADED));
}

/// Writes a certificate for `localhost` and its key to these files.
fn certify(chain: &Path, key: &Path) -> Vec<u8> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(chain, made.cert.pem()).unwrap();
    fs::write(key, made.signing_key.serialize_pem()).unwrap();
    made.cert.der().to_vec()
}

/// Whether the listener uses the certificate.
async fn serves(served: &Served, certificate: &[u8]) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.to_vec().into()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = served.program.data.strip_prefix("https://").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
    connector.connect(name, stream).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_renewed_in_place_is_used() {
    let provider = saying("Hello.").await;
    let files = temp();
    let (chain, key) = (files.path().join("chain.pem"), files.path().join("key.pem"));
    let first = certify(&chain, &key);
    let tls = format!(
        "server.tls_cert = '{}'\nserver.tls_key = '{}'\n",
        chain.display(),
        key.display()
    );
    let served = Served::start(|_| listeners(&provider) + &tls);
    assert!(serves(&served, &first).await);
    // An invalid certificate file leaves the old certificate in use.
    let good = fs::read(&chain).unwrap();
    fs::write(&chain, "nothing").unwrap();
    served.program.signal("-HUP");
    let line = served.logged(1, "config not reloaded").await;
    assert!(line.contains("chain.pem"), "{line}");
    assert!(serves(&served, &first).await);
    fs::write(&chain, good).unwrap();
    served.program.signal("-HUP");
    served.logged(1, RELOADED).await;
    // Without a signal.
    let second = certify(&chain, &key);
    served.logged(2, RELOADED).await;
    assert!(serves(&served, &second).await && !serves(&served, &first).await);
}
