//! Reports and exit codes of `baton doctor`, with the real program.
#![cfg(unix)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use baton_strict::{Options, Reply, Strict};
use serde_json::Value;

use crate::harness::program::Program;
use crate::harness::temp;
use crate::harness::texts::assert_contains;

/// A machine with one agent on its PATH.
struct Machine {
    dir: tempfile::TempDir,
    config: PathBuf,
}

const UPSTREAMS: [&str; 5] = ["anthropic", "openai", "gemini", "chatgpt", "codeassist"];

impl Machine {
    fn new(url: &str, more: &str) -> Self {
        let dir = temp();
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let agent = bin.join("claude");
        fs::write(&agent, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let config = dir.path().join("baton.toml");
        let upstreams = UPSTREAMS.map(|name| format!("upstreams.{name}.base_url = '{url}'\n"));
        fs::write(&config, format!("{}{more}", upstreams.concat())).unwrap();
        Self { dir, config }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn examine(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", self.dir.path().join("bin"))
            .envs(variables.iter().copied())
            .args(["doctor", "--config"])
            .arg(&self.config)
            .arg("--state-dir")
            .arg(self.state())
            .args(words);
        command.output().unwrap()
    }

    fn findings(&self, code: i32, variables: &[(&str, &str)]) -> Vec<Value> {
        let out = self.examine(&["--json"], variables);
        assert_eq!(out.status.code(), Some(code), "{out:?}");
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(report["ok"], code == 0);
        report["findings"].as_array().unwrap().clone()
    }
}

fn free_ports() -> &'static str {
    "server.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\n"
}

/// Severity and message of the only finding of this check and subject.
fn finding<'a>(findings: &'a [Value], check: &str, subject: &str) -> (&'a str, &'a str) {
    let mut rows = findings
        .iter()
        .filter(|row| row["check"] == check && row["subject"].as_str().unwrap().ends_with(subject));
    let row = rows
        .next()
        .unwrap_or_else(|| panic!("no {check}, {subject}: {findings:#?}"));
    assert!(rows.next().is_none(), "{check}, {subject}");
    assert_eq!(row["help"].is_null(), row["severity"] == "ok", "{row}");
    (
        row["severity"].as_str().unwrap(),
        row["message"].as_str().unwrap(),
    )
}

/// Checks the only finding of this check and subject.
#[track_caller]
fn assert_finding(findings: &[Value], check: &str, subject: &str, severity: &str, part: &str) {
    let (found, message) = finding(findings, check, subject);
    assert!(found == severity && message.contains(part), "{found}: {message}");
}

async fn provider() -> Strict {
    Strict::start(|_: &baton_strict::Received| Reply::text("ok"), Options::default())
        .await
        .unwrap()
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_installation_has_no_error_and_is_not_changed() {
    let provider = provider().await;
    let machine = Machine::new(&provider.url(), free_ports());
    let before = entries(machine.dir.path());
    let findings = machine.findings(0, &[]);
    assert_eq!(entries(machine.dir.path()), before, "nothing is made");
    for name in UPSTREAMS {
        assert_finding(&findings, "upstreams", name, "ok", "answers");
    }
    assert_eq!(finding(&findings, "store", "baton.db").0, "ok");
    assert_finding(&findings, "agents", "Claude Code", "ok", "baton run claude");
    assert_eq!(finding(&findings, "sign-ins", "Claude Code").0, "ok");
    let text = machine.examine(&[], &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert_contains(&text, "\nok       config     all keys: no problems\n");
    assert!(
        text.ends_with("\n0 errors, 0 warnings\n") && !text.contains('\u{1b}'),
        "{text:?}"
    );
    // Requests without credentials.
    assert!(provider.generations().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_proxy_is_recognised_and_a_killed_one_is_reported() {
    let provider = provider().await;
    let machine = Machine::new(&provider.url(), free_ports());
    let mut program = Program::start(&machine.config, &machine.state());
    let data = program.data.clone();
    let port = data.rsplit(':').next().unwrap().to_owned();
    // With the port that the proxy received.
    let text = fs::read_to_string(&machine.config).unwrap();
    let listen = format!("server.listen = '127.0.0.1:{port}'");
    let text = text.replace("server.listen = '127.0.0.1:0'", &listen);
    fs::write(&machine.config, text).unwrap();
    let findings = machine.findings(0, &[("ANTHROPIC_BASE_URL", &data)]);
    assert_contains(finding(&findings, "ports", "server.listen").1, "in use by baton");
    assert_finding(&findings, "agents", "Claude Code", "ok", "by ANTHROPIC_BASE_URL");
    let findings = machine.findings(0, &[("CLAUDE_CODE_USE_BEDROCK", "1")]);
    assert_finding(&findings, "agents", "Claude Code", "warning", "USE_BEDROCK is 1");
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    let findings = machine.findings(0, &[("ANTHROPIC_BASE_URL", &data)]);
    assert_eq!(finding(&findings, "agents", "Claude Code").0, "warning");
    assert_finding(&findings, "proxy", "agents at", "warning", "was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_reported_with_what_to_do() {
    let provider = provider().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let machine = Machine::new(
        &provider.url(),
        &format!("server.listen = '{listen}'\nadmin.listen = '127.0.0.1:0'\n"),
    );
    fs::create_dir(machine.state()).unwrap();
    fs::write(machine.state().join("baton.db"), "no database").unwrap();
    fs::set_permissions(machine.state(), fs::Permissions::from_mode(0o755)).unwrap();
    let settings = machine.dir.path().join(".claude");
    fs::create_dir(&settings).unwrap();
    let env = r#"{"env": {"ANTHROPIC_BASE_URL": "https://gateway.example"}}"#;
    fs::write(settings.join("settings.json"), env).unwrap();
    let findings = machine.findings(69, &[]);
    assert_eq!(finding(&findings, "ports", "server.listen").0, "error");
    let store = findings.iter().filter(|row| row["check"] == "store");
    let severities: Vec<_> = store.map(|row| &row["severity"]).collect();
    assert_eq!(severities[..2], ["error", "warning"]);
    assert_finding(&findings, "agents", "Claude Code", "warning", "gateway.example");
}

#[test]
fn a_config_that_does_not_hold_is_an_error_with_its_line() {
    let machine = Machine::new("http://127.0.0.1:9", "server.drain = 'soon'\n");
    let findings = machine.findings(78, &[]);
    let (severity, _) = finding(&findings, "config", "baton.toml:6:8: server.drain");
    assert_eq!((severity, findings.len()), ("error", 1));
    // Nothing listens there.
    let machine = Machine::new("http://127.0.0.1:9", free_ports());
    let findings = machine.findings(69, &[]);
    assert_eq!(finding(&findings, "upstreams", "network").0, "error");
}

/// On a server, agents and their sign-ins are left out, and the report is never better than the proxy's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_examined_as_one_and_is_no_better_than_its_proxy() {
    let provider = provider().await;
    let clients = "admin.token = '0123456789abcdef0'\n[[clients]]\nname = 'ada'\nkey = '0123456789abcdef'\n";
    let machine = Machine::new(&provider.url(), &format!("{}{clients}", free_ports()));
    let mut program = Program::start(&machine.config, &machine.state());
    let findings = machine.findings(0, &[]);
    for check in ["agents", "sign-ins"] {
        assert!(findings.iter().all(|row| row["check"] != check), "{check}");
    }
    assert_eq!(finding(&findings, "proxy", "readyz").0, "ok");
    // The store of the running proxy fails, and the file looks sound from outside.
    let store = rusqlite::Connection::open(machine.state().join("baton.db")).unwrap();
    let hide = "ALTER TABLE records RENAME TO hidden";
    store.execute_batch(hide).unwrap();
    // An earlier result holds for two seconds.
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    let findings = machine.findings(69, &[]);
    assert_eq!(finding(&findings, "proxy", "store_write").0, "error");
    program.child.kill().unwrap();
    program.child.wait().unwrap();
}
