//! Promises of `docs/security.md` that the whole program keeps: hosts, redirects, certificates, files, and
//! its end.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use baton_strict::Reply;
use serde_json::json;

use crate::harness::fixture::{handoff, history};
use crate::harness::program::{self, Place, Program, serve};
use crate::harness::{RawResponse, temp};

/// Returns all files and directories below a directory, with their modes.
fn below(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let Ok(about) = fs::symlink_metadata(&path) else {
            continue;
        };
        all.push((path.clone(), about.permissions().mode() & 0o777));
        if about.is_dir() {
            all.extend(below(&path));
        }
    }
    all
}

pub fn ending(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let all = below(dir).into_iter().map(|(path, _)| path);
    all.filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

/// Waits until this many files have the suffix.
async fn written(dir: &Path, name: &str, count: usize) -> Vec<PathBuf> {
    let began = Instant::now();
    loop {
        let found = if dir.is_dir() {
            ending(dir, name)
        } else {
            Vec::new()
        };
        if found.len() >= count {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{name}: {found:?}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

async fn ask(program: &Program, key: &str, history: &[serde_json::Value]) -> RawResponse {
    let headers = [("x-api-key", key), ("anthropic-version", "2023-06-01")];
    program.sends_with(&headers, history).await
}

/// Starts a program before this upstream.
fn before(dir: &Path, upstream: &str) -> Program {
    Program::launch(serve(dir).env("BATON_UPSTREAMS__ANTHROPIC__BASE_URL", upstream))
}

/// Returns how the program ended, if it ends in time.
fn ended(program: &mut Program, limit: Duration) -> Option<ExitStatus> {
    let due = Instant::now() + limit;
    while Instant::now() < due {
        if let Some(status) = program.child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Returns the status line of the response to a GET request with this host.
fn status(url: &str, path: &str, host: &str) -> String {
    let address = url.split("://").nth(1).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn no_spelling_of_a_foreign_host_is_answered() {
    let dir = temp();
    let program = Program::launch(&mut serve(dir.path()));
    for (url, path) in [(&program.data, "/v1/models"), (&program.admin, "/api/status")] {
        let port = url.rsplit(':').next().unwrap();
        for host in [
            "127.1",
            "0x7f000001",
            "0x7f.0.0.1",
            "2130706433",
            "0177.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::2]",
            "evil.example",
            "localhost.evil.example",
            "evil.example#localhost",
            "localhost#evil.example",
            "localhost\\evil.example",
            "evil.example@localhost",
            "localhost@evil.example",
            "localhost, evil.example",
            "localhost:1:2",
            "[::1",
        ] {
            for host in [host.to_owned(), format!("{host}:{port}")] {
                let answer = status(url, path, &host);
                let refused = ["400", "403", "421"].iter().any(|code| answer.contains(code));
                assert!(refused, "{path} {host}: {answer}");
            }
        }
    }
    let own = program.admin.split("://").nth(1).unwrap();
    assert!(status(&program.admin, "/api/status", own).contains("200"));
}

/// Upstream's response is relayed, and nothing is sent to its target.
#[tokio::test]
async fn a_redirect_is_relayed_and_not_followed() {
    let dir = temp();
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let to = format!("http://{}/v1/messages", elsewhere.local_addr().unwrap());
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let cookie = "session=q7Rt2LmX9vB4nK8s";
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\nset-cookie: {cookie}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    thread::spawn(move || {
        for stream in upstream.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 1 << 16];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let mut program = before(dir.path(), &url);
    let answer = ask(&program, "key-of-the-agent", &history()).await;
    assert_eq!(answer.status, 307, "{}", answer.text());
    assert_eq!(answer.header("location"), Some(to.as_str()));
    program.signal("-TERM");
    assert!(ended(&mut program, Duration::from_secs(20)).is_some());
    assert!(elsewhere.accept().is_err(), "nothing is sent there");
    let state: Vec<Vec<u8>> = below(dir.path())
        .iter()
        .filter_map(|(path, _)| fs::read(path).ok())
        .collect();
    assert!(!state.is_empty());
    for secret in ["q7Rt2LmX9vB4nK8s", "key-of-the-agent"] {
        assert!(
            state
                .iter()
                .all(|file| memchr::memmem::find(file, secret.as_bytes()).is_none()),
            "{secret}"
        );
    }
}

/// An upstream that switches to another protocol, which the agent did not ask for.
#[tokio::test]
async fn a_switch_of_protocols_is_an_error() {
    let dir = temp();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    thread::spawn(move || {
        for stream in upstream.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1 << 16]);
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: raw\r\n\r\nraw";
            let _ = stream.write_all(head.as_bytes());
        }
    });
    let program = before(dir.path(), &url);
    let answer = ask(&program, "key-of-the-agent", &history()).await;
    assert_eq!(
        (answer.status, answer.header("x-baton-error")),
        (502, Some("upstream_unreadable"))
    );
}

/// A server with a self-signed certificate, like one that impersonates a provider.
#[tokio::test]
async fn an_upstream_without_a_valid_certificate_gets_nothing() {
    let dir = temp();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
    fs::write(&chain, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut command = serve(&dir.path().join("false"));
    command
        .env("BATON_SERVER__TLS_CERT", &chain)
        .env("BATON_SERVER__TLS_KEY", &key);
    let other = Program::launch(&mut command);
    assert!(other.data.starts_with("https://"), "{}", other.data);
    let program = before(
        &dir.path().join("state"),
        &other.data.replace("127.0.0.1", "localhost"),
    );
    let answer = ask(&program, "key-of-the-agent", &history()).await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    let text = answer.text();
    assert!(
        text.contains("upstreams.NAME.ca_file") && text.contains("SSL_CERT_FILE"),
        "{text}"
    );
}

fn two_handoffs() -> [Reply; 4] {
    [handoff(), Reply::text("Fresh."), handoff(), Reply::text("Fresh.")]
}

/// Two clients with directories of the same name, under the most permissive umask.
#[tokio::test]
async fn two_clients_share_no_directory_and_files_are_their_owners() {
    let handoffs = temp();
    let handoffs = handoffs.path();
    let clients = ["ann", "bob"].map(|name| (name, format!("{name}-0123456789abcdef")));
    let tables = clients
        .each_ref()
        .map(|(name, key)| format!("[[clients]]\nname = '{name}'\nkey = '{key}'\n"));
    let more = format!(
        "upstreams.anthropic.api_key = 'sk-of-the-team'\nhandoff.dir = '{}'\n{}",
        handoffs.display(),
        tables.concat()
    );
    let place = Place::new(two_handoffs(), &more).await;
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_baton")]);
    command
        .args(["serve", "--log-level", "error", "--config"])
        .arg(&place.config);
    let program = Program::launch(command.arg("--state-dir").arg(&place.state));
    for (_, key) in &clients {
        let answer = ask(&program, key, &history()).await;
        assert!(answer.text().contains("Fresh."), "{}", answer.text());
    }
    let files = written(handoffs, ".yaml", 2).await;
    written(handoffs, "handoff.json", 2).await;
    let locks = written(handoffs, ".lock", 2).await;
    assert_ne!(files[0].parent(), files[1].parent(), "{files:?}");
    assert_eq!(
        ending(handoffs, ".md")
            .iter()
            .filter(|path| path.to_string_lossy().contains("CONTINUITY_"))
            .count()
            % 2,
        0
    );
    for (path, mode) in below(&place.state) {
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
    let modes = below(handoffs);
    for (path, mode) in modes.iter().filter(|(path, _)| path.is_file()) {
        assert_eq!(*mode, 0o600, "{}: {mode:o}", path.display());
    }
    assert!(locks.iter().all(|lock| modes.contains(&(lock.clone(), 0o600))));
}

/// Another process holds the lock of a session's directory, so that the next document waits for it.
#[tokio::test]
async fn a_document_that_waits_does_not_hold_up_the_end() {
    let handoffs = temp();
    let handoffs = handoffs.path();
    let more = format!("handoff.dir = '{}'\n", handoffs.display());
    let place = Place::new(two_handoffs(), &more).await;
    let mut program = place.start();
    assert_eq!(ask(&program, "key", &history()).await.status, 200);
    written(handoffs, ".yaml", 1).await;
    let lock = written(handoffs, ".lock", 1).await.remove(0);
    let lock = fs::File::options().write(true).open(lock).unwrap();
    lock.lock().unwrap();
    let mut next = history();
    next[2] = json!({"role": "user", "content": "Go on, please."});
    assert!(ask(&program, "key", &next).await.text().contains("Fresh."));
    tokio::time::sleep(Duration::from_millis(300)).await;
    program.signal("-TERM");
    let status = ended(&mut program, Duration::from_secs(15));
    assert!(status.is_some(), "the program has not ended");
    assert_eq!(ending(handoffs, ".yaml").len(), 1, "{:?}", below(handoffs));
}

/// A FIFO among the prompts, which nobody writes, neither holds a reload nor the end of the program.
#[test]
fn a_fifo_holds_no_reload() {
    let dir = temp();
    let (state, prompts) = (dir.path().join("state"), dir.path().join("prompts"));
    fs::create_dir(&prompts).unwrap();
    let mut command = serve(&state);
    command
        .env("BATON_DRAFT__PROMPTS_DIR", &prompts)
        .env("TOKIO_WORKER_THREADS", "1");
    let mut program = Program::launch(&mut command);
    program::fifo(&prompts.join("document.md"));
    let address = program.admin.split("://").nth(1).unwrap();
    let answers = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        stream.read(&mut [0; 16]).is_ok()
    };
    for _ in 0..5 {
        program.signal("-HUP");
        thread::sleep(Duration::from_millis(100));
        assert!(answers(), "it must answer after the reload");
    }
    program.signal("-TERM");
    let status = ended(&mut program, Duration::from_secs(5)).expect("the program has not ended");
    assert_eq!(status.code(), Some(0));
}
