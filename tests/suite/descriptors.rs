//! The real program with few file descriptors runs as many concurrent exchanges as they permit. It delays the
//! others, and none fails.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::harness::program::Program;
use crate::harness::temp;
use crate::harness::texts::{assert_contains, assert_lacks};

/// Concurrent agents.
const AGENTS: usize = 900;

struct Limited {
    program: Program,
    addr: String,
    state: tempfile::TempDir,
}

impl Limited {
    /// Starts the program in a shell with these limits.
    fn start(limits: &str, upstream: &str) -> Self {
        let state = temp();
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limits}; exec \"$0\" \"$@\" 2>\"$LOG\"")])
            .args([env!("CARGO_BIN_EXE_baton"), "serve", "--log-level", "info"])
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state-dir"])
            .arg(state.path())
            .env("LOG", state.path().join("log"))
            .env("BATON_UPSTREAMS__OPENAI__BASE_URL", upstream);
        let program = Program::launch(&mut command);
        Self {
            addr: program.data.trim_start_matches("http://").to_owned(),
            program,
            state,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.state.path().join("log")).unwrap()
    }

    /// Sends a request on a connection of its own and returns the status.
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

/// A slow upstream.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while matches!(stream.read(&mut piece), Ok(1..)) {
                    thread::sleep(Duration::from_millis(20));
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
                }
            });
        }
    });
    url
}

#[test]
fn with_few_descriptors_fewer_exchanges_run_at_once_and_none_fails() {
    // The agents and the upstream run in this process.
    baton_llm::serve::proxy::descriptors::raise();
    let limited = Limited::start("ulimit -n 256", &upstream());
    let log = limited.log();
    assert_contains(&log, "limits.max_concurrent_requests");
    assert_contains(&log, "43");
    let answers: Vec<String> = thread::scope(|scope| {
        let agents: Vec<_> = (0..AGENTS)
            .map(|_| {
                let agent = thread::Builder::new().stack_size(256 << 10);
                agent.spawn_scoped(scope, || Limited::ask(&limited.addr)).unwrap()
            })
            .collect();
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    let failed: Vec<_> = answers.iter().filter(|status| *status != "200").collect();
    assert!(failed.is_empty(), "{failed:?}\n{}", limited.log());
}

#[cfg(target_os = "linux")]
#[test]
fn a_soft_limit_is_raised() {
    let limited = Limited::start("ulimit -Sn 100; ulimit -Hn 8192", &upstream());
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", limited.program.child.id())).unwrap();
    let line = limits.lines().find(|l| l.starts_with("Max open files")).unwrap();
    assert_eq!(
        line.split_whitespace().skip(3).take(2).collect::<Vec<_>>(),
        ["8192", "8192"]
    );
    assert_lacks(&limited.log(), "limits.max_concurrent_requests");
    assert_eq!(Limited::ask(&limited.addr), "200");
}
