//! The real program with few file descriptors: it lets in what they are enough for, and whoever it lets in gets
//! through.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::harness::temp;

/// Agents that come at once.
const AGENTS: usize = 80;

struct Program {
    child: Child,
    addr: String,
    state: tempfile::TempDir,
}

impl Program {
    /// Starts it under a shell that has set its limits.
    fn start(limits: &str, upstream: &str) -> Self {
        let state = temp();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\" 2>\"$LOG\"")])
            .args([
                env!("CARGO_BIN_EXE_baton"),
                "serve",
                "--log-level",
                "info",
                "--listen",
                "127.0.0.1:0",
            ])
            .args(["--admin", "127.0.0.1:0", "--state-dir"])
            .arg(state.path())
            .env("LOG", state.path().join("log"))
            .env("BATON_UPSTREAMS__OPENAI__BASE_URL", upstream)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        thread::spawn(move || said.read_to_end(&mut Vec::new()));
        let addr = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap_or_else(|| panic!("{line:?}"));
        Self {
            addr: addr.to_owned(),
            child,
            state,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.state.path().join("log")).unwrap()
    }

    /// The status of an answer to one request, on a connection of its own.
    fn ask(addr: &str) -> String {
        let mut agent = TcpStream::connect(addr).unwrap();
        agent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        agent
            .write_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        let mut line = String::new();
        BufReader::new(agent).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap_or(&line).to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An upstream that thinks for a while.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while matches!(stream.read(&mut piece), Ok(1..)) {
                    thread::sleep(Duration::from_millis(300));
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
                }
            });
        }
    });
    url
}

#[test]
fn with_few_descriptors_fewer_exchanges_are_admitted_and_none_fails() {
    let program = Program::start("ulimit -n 128", &upstream());
    let log = program.log();
    assert!(log.contains("limits.exchanges") && log.contains("12"), "{log}");
    let answers: Vec<String> = thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|_| scope.spawn(|| Program::ask(&program.addr)))
            .collect();
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    let count = |status: &str| answers.iter().filter(|a| *a == status).count();
    assert!(count("200") >= 12, "{answers:?}");
    assert_eq!(
        count("200") + count("503"),
        AGENTS,
        "{answers:?}\n{}",
        program.log()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_soft_limit_is_raised() {
    let program = Program::start("ulimit -Sn 100; ulimit -Hn 8192", &upstream());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.child.id())).unwrap();
    let line = limits.lines().find(|l| l.starts_with("Max open files")).unwrap();
    assert_eq!(
        line.split_whitespace().skip(3).take(2).collect::<Vec<_>>(),
        ["8192", "8192"]
    );
    assert!(!program.log().contains("limits.exchanges"), "{}", program.log());
    assert_eq!(Program::ask(&program.addr), "200");
}
