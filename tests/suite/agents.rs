//! `baton run`, `env` and `resume` with shell scripts as agents: their environment, signals and exit codes,
//! and one proxy for all of them.
#![cfg(unix)]

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use baton_strict::{Options, Received, Reply, Strict};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, history, texts};
use crate::harness::program::{baton_over, config_for, printed};
use crate::harness::texts::{assert_begins, assert_contains, assert_ends};
use crate::harness::{AgentWire, post, temp};

/// A provider, a place for agents, and a state directory.
pub(crate) struct Scene {
    _provider: Strict,
    dir: tempfile::TempDir,
    config: PathBuf,
    pub(crate) state: PathBuf,
}

/// A `baton run` in progress. Dropping it kills it, which ends the proxy.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn model(seen: &Received) -> Reply {
    match texts(seen.messages()) == [format!("u: {PROMPT}")] {
        true => Reply::text("Fresh."),
        false => handoff(),
    }
}

impl Scene {
    /// Runs have no id in their base URLs.
    async fn new() -> Self {
        Self::with(model, "handoff.at_exit = false\n").await
    }

    /// Starts a scene with another model and additional configuration.
    pub(crate) async fn with(model: fn(&Received) -> Reply, more: &str) -> Self {
        let provider = Strict::start(model, Options::default()).await.unwrap();
        let dir = temp();
        let config = config_for(&provider, dir.path(), more);
        let state = dir.path().join("state");
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        Self {
            _provider: provider,
            dir,
            config,
            state,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Installs a script on the PATH of programs in this scene. `$T` in the script is the scene's directory.
    pub(crate) fn agent(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn baton(&self, command: &str, words: &[&str]) -> Command {
        let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
        baton.args(command.split(' ')).arg("--config").arg(&self.config);
        baton.arg("--state-dir").arg(&self.state).args(words);
        let path = std::env::var("PATH").unwrap();
        baton.env("PATH", format!("{}:{path}", self.path("bin").display()));
        baton
            .env("T", self.dir.path())
            .env("HOME", self.path("home"))
            .env("SHELL", "/bin/sh");
        for name in [
            "ANTHROPIC_BASE_URL",
            "OPENAI_BASE_URL",
            "OPENAI_API_BASE",
            "GOOGLE_GEMINI_BASE_URL",
            "CODE_ASSIST_ENDPOINT",
        ] {
            baton.env_remove(name);
        }
        baton
    }

    pub(crate) fn output(&self, command: &str, words: &[&str]) -> Output {
        self.baton(command, words).stdin(Stdio::null()).output().unwrap()
    }

    /// Starts a run whose agent waits for its file `go`.
    fn waiting(&self, name: &str) -> Run {
        let script = format!(
            "echo \"$ANTHROPIC_BASE_URL\" > $T/{name}.url; while [ ! -e $T/{name}.go ]; do sleep 0.02; done"
        );
        self.agent(name, &script);
        let run = self.baton("run", &[name]).stdin(Stdio::null()).spawn().unwrap();
        Run(run)
    }

    /// Waits until an agent has written this file, and returns its content.
    pub(crate) fn wrote(&self, name: &str) -> String {
        let file = self.path(name);
        until("the agent writes", || {
            fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(&file).unwrap().trim().to_owned()
    }

    /// Whether a proxy serves from the state directory.
    fn serves(&self) -> bool {
        let lock = File::open(self.state.join("serving.lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.output("doctor", &["--offline", "--json"]).stdout).unwrap()
    }

    /// Makes a handoff and returns its id.
    async fn handoff(&self) -> String {
        let mut run = self.waiting("claude");
        let url = format!("{}{}", self.wrote("claude.url"), Anthropic.path());
        let body = Anthropic.body(&history(), true).to_string();
        let heard = post(&url, Anthropic.headers(), body.into()).await;
        assert!(heard.text().contains("Fresh."), "{}", heard.text());
        fs::write(self.path("claude.go"), "").unwrap();
        assert!(run.0.wait().unwrap().success());
        let latest = baton_over(&self.config, &self.state, &["handoffs", "show", "--json"]);
        let latest: Value = serde_json::from_str(&printed(latest)).unwrap();
        latest["id"].as_str().unwrap().to_owned()
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_run_starts_a_proxy_sets_the_agent_up_and_leaves_nothing() {
    let scene = Scene::new().await;
    scene.agent(
        "claude",
        "echo \"$ANTHROPIC_BASE_URL|$BATON_URL|$*\"; cat; exit 7",
    );
    let mut run = scene.baton("run", &["claude", "-p", "--help", "--", "x y"]);
    let mut child = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"typed").unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(7), "{}", text(&out.stderr));
    let said = text(&out.stdout);
    let url = said.split('|').next().unwrap().to_owned();
    assert!(url.starts_with("http://127.0.0.1:"), "{said}");
    assert_eq!(said, format!("{url}|{url}|-p --help -- x y\ntyped"));
    assert_eq!(text(&out.stderr), "", "nothing in the agent's way");
    assert!(!scene.serves(), "gone when the command ends");
    assert_contains(&fs::read_to_string(scene.state.join("serve.log")).unwrap(), &url);
}

/// Claude Code's summary of an idle session would replace the sentinel.
#[tokio::test]
async fn claude_code_does_not_compact_in_a_pause_where_baton_hands_over() {
    let scene = Scene::new().await;
    scene.agent("claude", "echo \"<$CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS>\"");
    let ran = |free: &str, own: Option<&str>| {
        let mut run = scene.baton("run", &["claude"]);
        run.env("BATON_HANDOFF__WHEN_CACHE_COLD", free)
            .env_remove("CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS");
        run.envs(own.map(|own| ("CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS", own)));
        let out = run.stdin(Stdio::null()).output().unwrap();
        (text(&out.stdout).trim().to_owned(), text(&out.stderr))
    };
    for free in ["on", "ask"] {
        let (given, said) = ran(free, None);
        assert_eq!(given, "<1000000000>");
        assert!(said.contains("does not compact in a pause"), "{said}");
    }
    assert_eq!(ran("off", None), ("<>".to_owned(), String::new()));
    assert_eq!(ran("on", Some("5")), ("<5>".to_owned(), String::new()));
}

#[tokio::test]
async fn agents_share_a_proxy_and_the_last_one_ends_it() {
    let scene = Scene::new().await;
    let mut first = scene.waiting("claude");
    let url = scene.wrote("claude.url");
    let address = url.trim_start_matches("http://");
    let out = scene.baton("serve", &["--listen", address]).output().unwrap();
    let said = text(&out.stderr);
    assert_contains(&said, "in use by the proxy");
    assert_contains(&said, "started by `baton run`");
    let mut second = scene.waiting("opencode");
    assert_eq!(scene.wrote("opencode.url"), format!("{url}/v1"));
    assert_eq!(scene.status()["running"]["started_by_run"], true);
    fs::write(scene.path("claude.go"), "").unwrap();
    assert!(first.0.wait().unwrap().success());
    assert!(scene.serves(), "the one that started it left first");
    let heard = post(
        &format!("{url}{}", Anthropic.path()),
        Anthropic.headers(),
        Anthropic.body(&history(), true).to_string().into(),
    )
    .await;
    assert!(heard.text().contains("Fresh."), "{}", heard.text());
    fs::write(scene.path("opencode.go"), "").unwrap();
    assert!(second.0.wait().unwrap().success());
    assert!(!scene.serves());
}

#[tokio::test]
async fn many_that_start_at_once_start_one_proxy() {
    let scene = Scene::new().await;
    let mut runs: Vec<_> = (0..5).map(|n| scene.waiting(&format!("agent-{n}"))).collect();
    let urls: Vec<_> = (0..5).map(|n| scene.wrote(&format!("agent-{n}.url"))).collect();
    assert!(urls.iter().all(|url| *url == urls[0]), "{urls:?}");
    for n in 0..5 {
        fs::write(scene.path(&format!("agent-{n}.go")), "").unwrap();
    }
    assert!(runs.iter_mut().all(|run| run.0.wait().unwrap().success()));
    until("the proxy ends", || !scene.serves());
    assert!(!scene.state.join("serve.log.old").exists(), "started once");
}

#[tokio::test]
async fn a_killed_run_leaves_no_proxy() {
    let scene = Scene::new().await;
    let mut run = scene.waiting("pi");
    until("the agent runs", || scene.path("pi.url").exists());
    assert!(scene.serves());
    let runs = || fs::read_dir(scene.state.join("run-configs")).unwrap().count();
    assert_eq!(runs(), 1, "pi's extension");
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    until("the proxy ends", || !scene.serves());
    fs::write(scene.path("pi.go"), "").unwrap();
    assert_eq!(runs(), 1);
    // The state directory may be one that other programs use.
    fs::create_dir_all(scene.state.join("run-configs/theirs")).unwrap();
    fs::create_dir_all(scene.state.join("runs/theirs")).unwrap();
    assert!(scene.output("run", &["true"]).status.success());
    assert_eq!(runs(), 1, "the next one takes its files away");
    for theirs in ["run-configs/theirs", "runs/theirs"] {
        assert!(scene.state.join(theirs).exists(), "{theirs}");
    }
}

#[tokio::test]
async fn a_proxy_of_ones_own_is_used_and_stays() {
    let scene = Scene::new().await;
    let program = crate::harness::program::Program::start(&scene.config, &scene.state);
    scene.agent("claude", "echo $ANTHROPIC_BASE_URL");
    let out = scene.output("run", &["claude"]);
    assert_eq!(text(&out.stdout).trim(), program.data);
    assert!(scene.serves());
    assert_eq!(scene.status()["running"]["started_by_run"], false);
}

#[tokio::test]
async fn signals_reach_the_agent_and_its_end_is_the_commands() {
    // In the background of a script, and under nohup, some signals are ignored, and programs inherit that. A
    // handled signal is inherited as the default.
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        signal_hook::flag::register_conditional_default(signal, Arc::new(AtomicBool::new(true))).unwrap();
    }
    let scene = Scene::new().await;
    for (name, trap, signal, code) in [
        ("handles", "trap 'exit 9' TERM", Signal::TERM, 9),
        ("interrupted", "trap 'exit 4' INT", Signal::INT, 4),
        ("hung-up", "", Signal::HUP, 129),
        ("ended", "", Signal::TERM, 143),
        ("quit", "ulimit -c 0", Signal::QUIT, 131),
    ] {
        scene.agent(
            name,
            &format!("{trap}\necho ready > $T/{name}\nwhile :; do sleep 0.02; done"),
        );
        let mut run = Run(scene.baton("run", &[name]).stdin(Stdio::null()).spawn().unwrap());
        scene.wrote(name);
        kill_process(pid(&run.0), signal).unwrap();
        assert_eq!(run.0.wait().unwrap().code(), Some(code), "{name}");
        assert!(!scene.serves());
    }
}

#[tokio::test]
async fn a_resized_window_reaches_the_agent() {
    let scene = Scene::new().await;
    scene.agent("claude", "trap 'echo resized >> $T/seen' WINCH\necho ready > $T/ready\nwhile [ ! -e $T/seen ]; do sleep 0.02; done");
    let mut run = Run(scene
        .baton("run", &["claude"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap());
    scene.wrote("ready");
    kill_process(pid(&run.0), Signal::WINCH).unwrap();
    assert!(run.0.wait().unwrap().success());
}

#[tokio::test]
async fn an_agent_that_stops_stops_the_command_and_both_go_on() {
    let scene = Scene::new().await;
    scene.agent(
        "claude",
        "echo $$ > $T/pid; while [ ! -e $T/go ]; do sleep 0.02; done; exit 3",
    );
    let run = Run(scene
        .baton("run", &["claude"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap());
    let agent = Pid::from_raw(scene.wrote("pid").parse().unwrap()).unwrap();
    // Agents stop only themselves when their own screen receives Ctrl-Z.
    kill_process(agent, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid(&run.0)), WaitOptions::UNTRACED)
        .unwrap()
        .unwrap();
    assert!(status.stopped());
    fs::write(scene.path("go"), "").unwrap();
    // Like `fg`.
    kill_process(pid(&run.0), Signal::CONT).unwrap();
    let (_, status) = waitpid(Some(pid(&run.0)), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.exit_status(), Some(3));
    assert!(!scene.serves());
}

#[tokio::test]
async fn a_taken_port_is_no_reason_not_to_run() {
    let scene = Scene::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    scene.agent("claude", "echo $ANTHROPIC_BASE_URL");
    let mut run = scene.baton("run", &["claude"]);
    let out = run
        .env("BATON_SERVER__LISTEN", address.to_string())
        .output()
        .unwrap();
    let url = text(&out.stdout);
    assert!(
        out.status.success() && !url.contains(&address.to_string()),
        "{url}"
    );
    assert_eq!(
        text(&out.stderr),
        format!("baton: {address} is in use; the proxy is at {url}")
    );
}

#[tokio::test]
async fn a_proxy_that_does_not_start_says_why() {
    let scene = Scene::new().await;
    scene.agent("claude", "echo ran");
    // The state directory has no database.
    fs::create_dir_all(scene.state.join("baton.db")).unwrap();
    let out = scene.output("run", &["claude"]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(69), String::new()));
    let said = text(&out.stderr);
    let begins = "error: failed to start the proxy: exit status: 73\n  error: failed to open the store";
    assert!(said.starts_with(begins) && said.contains("serve.log"), "{said}");
    // An error in the config is reported before anything is started.
    fs::write(&scene.config, "server.lisen = '127.0.0.1:0'").unwrap();
    let out = scene.output("run", &["claude"]);
    assert_eq!(out.status.code(), Some(78));
    assert_contains(&text(&out.stderr), "did you mean `server.listen`?");
}

#[tokio::test]
async fn what_nohup_has_ignored_stays_ignored() {
    let scene = Scene::new().await;
    scene.agent(
        "claude",
        "echo $$ > $T/pid; while [ ! -e $T/go ]; do sleep 0.02; done; exit 3",
    );
    let run = scene.baton("run", &["claude"]);
    let words: Vec<_> = run
        .get_args()
        .map(|word| word.to_str().unwrap().to_owned())
        .collect();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(words);
    shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut run = Run(shell.stdin(Stdio::null()).spawn().unwrap());
    let agent = Pid::from_raw(scene.wrote("pid").parse().unwrap()).unwrap();
    kill_process(pid(&run.0), Signal::HUP).unwrap();
    kill_process(agent, Signal::HUP).unwrap();
    fs::write(scene.path("go"), "").unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(3));
}

#[tokio::test]
async fn what_cannot_be_run_is_told_as_shells_do() {
    let scene = Scene::new().await;
    let out = scene.output("run", &["no-such-agent"]);
    assert_eq!(out.status.code(), Some(127));
    assert!(!scene.state.exists(), "no proxy was started, and no file written");
    assert_contains(&text(&out.stderr), "no-such-agent is not found");
    let file = scene.path("plain");
    fs::write(&file, "no program").unwrap();
    let out = scene.output("run", &[file.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(126), "{}", text(&out.stderr));
    assert_eq!(scene.output("run", &[]).status.code(), Some(64));
    assert!(!scene.serves());
}

#[tokio::test]
async fn an_agent_that_is_not_known_gets_the_general_variables_and_is_told_so() {
    let scene = Scene::new().await;
    scene.agent(
        "my-agent",
        "echo \"$ANTHROPIC_BASE_URL $OPENAI_BASE_URL $OPENAI_API_BASE $GOOGLE_GEMINI_BASE_URL\"",
    );
    let out = scene.output("run", &["my-agent"]);
    let said = text(&out.stdout);
    let url = said.split(' ').next().unwrap();
    assert_eq!(said.trim(), format!("{url} {url}/v1 {url}/v1 {url}"));
    assert_contains(&text(&out.stderr), "my-agent is not a known agent");
}

/// With a Google account, gemini-cli sends its requests to a different address than with an API key.
#[tokio::test]
async fn both_sign_ins_of_gemini_cli_lead_to_the_proxy() {
    let scene = Scene::new().await;
    scene.agent(
        "gemini",
        "echo $BATON_URL $CODE_ASSIST_ENDPOINT $GOOGLE_GEMINI_BASE_URL",
    );
    let out = scene.output("run", &["gemini"]);
    let said = text(&out.stdout);
    let urls: Vec<_> = said.split_whitespace().collect();
    assert!(
        urls.len() == 3 && urls.iter().all(|url| *url == urls[0]),
        "{said}"
    );
    let mut elsewhere = scene.baton("run", &["gemini"]);
    let out = elsewhere
        .env("CODE_ASSIST_ENDPOINT", "https://gateway.example")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(78));
    let said = text(&out.stderr);
    assert!(said.contains("upstreams.codeassist.base_url"), "{said}");
}

#[tokio::test]
async fn a_credential_is_not_sent_elsewhere_than_the_user_said() {
    let scene = Scene::new().await;
    scene.agent("claude", "echo $ANTHROPIC_BASE_URL");
    let run = |value: &str| {
        let mut run = scene.baton("run", &["claude"]);
        run.env("ANTHROPIC_BASE_URL", value).output().unwrap()
    };
    let out = run("https://gateway.example/v1");
    assert_eq!(out.status.code(), Some(78));
    let said = text(&out.stderr);
    assert_contains(&said, "ANTHROPIC_BASE_URL is https://gateway.example/v1");
    assert!(said.contains("upstreams.anthropic.base_url"), "{said}");
    // The addresses of baton and of the upstream lead to the proxy anyway.
    let config = fs::read_to_string(&scene.config).unwrap();
    let upstream = config
        .lines()
        .find_map(|line| line.strip_prefix("upstreams.anthropic.base_url = "))
        .unwrap();
    assert!(run(upstream.trim_matches('\'')).status.success());
    let mut again = scene.baton("run", &["claude"]);
    again
        .env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
        .env("BATON_URL", "http://127.0.0.1:1");
    let out = again.output().unwrap();
    assert!(
        out.status.success() && text(&out.stdout) != "http://127.0.0.1:1\n",
        "{}",
        text(&out.stderr)
    );
}

/// The first run's environment, which a repository may set, would send the requests of the second somewhere else.
#[tokio::test]
async fn a_run_does_not_use_a_proxy_that_another_started_with_other_settings() {
    let scene = Scene::new().await;
    scene.agent("claude", "exit 3");
    scene.agent(
        "waits",
        "echo > $T/waits.runs; while [ ! -e $T/waits.go ]; do sleep 0.02; done",
    );
    let hostile = [
        (
            "BATON_UPSTREAMS__ANTHROPIC__BASE_URL",
            "http://127.0.0.1:1/secret",
        ),
        ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ];
    for (name, value) in hostile {
        let _ = fs::remove_file(scene.path("waits.go"));
        let mut first = scene.baton("run", &["waits"]);
        let mut first = Run(first.env(name, value).stdin(Stdio::null()).spawn().unwrap());
        scene.wrote("waits.runs");
        let out = scene.output("run", &["claude"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(78), "{said}");
        assert!(said.contains(&format!("other settings: with {name}")), "{said}");
        assert!(!said.contains(value) && said.contains("--state-dir"), "{said}");
        let same = scene.baton("run", &["claude"]).env(name, value).output().unwrap();
        assert_eq!(same.status.code(), Some(3), "{}", text(&same.stderr));
        let mut other = scene.baton("run", &["claude"]);
        let other = text(&other.env(name, "http://127.0.0.1:2").output().unwrap().stderr);
        assert_contains(&other, &format!("other settings: another {name}"));
        let shown = scene.status()["running"].to_string();
        assert!(!shown.contains(name), "{shown}");
        fs::write(scene.path("waits.go"), "").unwrap();
        assert!(first.0.wait().unwrap().success());
        fs::remove_file(scene.path("waits.runs")).unwrap();
    }
    let mut waiting = scene.waiting("pi");
    scene.wrote("pi.url");
    let copy = scene.path("other.toml");
    fs::copy(&scene.config, &copy).unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_baton"));
    run.args(["run", "--config"])
        .arg(&copy)
        .arg("--state-dir")
        .arg(&scene.state)
        .arg("true");
    let said = text(&run.output().unwrap().stderr);
    assert_contains(&said, &format!("other settings: with {}", scene.config.display()));
    fs::write(scene.path("pi.go"), "").unwrap();
    assert!(waiting.0.wait().unwrap().success());
    until("the proxy ends", || !scene.serves());
    // A proxy of the user's own has the settings that the user gave it.
    let _own = crate::harness::program::Program::start(&scene.config, &scene.state);
    let mut run = scene.baton("run", &["claude"]);
    assert_eq!(
        run.env("HTTPS_PROXY", "http://127.0.0.1:1")
            .output()
            .unwrap()
            .status
            .code(),
        Some(3)
    );
}

/// A base URL that the user has set in the agent's own file.
#[tokio::test]
async fn a_base_url_in_an_agents_own_file_is_not_replaced_by_another_server() {
    let scene = Scene::new().await;
    let cline =
        |key: &str, url: &str| format!(r#"{{"providers":{{"{key}":{{"settings":{{"baseUrl":"{url}"}}}}}}}}"#);
    let codex = |url: &str| format!("openai_base_url = \"{url}\"\n");
    let elsewhere = "https://gateway.example/v1";
    let files = [
        ("codex", ".codex/config.toml", codex(elsewhere), "openai"),
        (
            "cline",
            ".cline/data/settings/providers.json",
            cline("anthropic", elsewhere),
            "anthropic",
        ),
        (
            "cline",
            ".cline/data/settings/providers.json",
            cline("openai-native", elsewhere),
            "openai",
        ),
    ];
    let write = |name: &str, text: &str| {
        let file = scene.path("home").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    };
    for (agent, file, text_of_it, upstream) in files {
        scene.agent(agent, "touch $T/started");
        write(file, &text_of_it);
        let out = scene.output("run", &[agent]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(78), "{said}");
        assert_contains(&said, &format!("is {elsewhere}, and baton sends to"));
        assert!(said.contains(&format!("upstreams.{upstream}.base_url")), "{said}");
        assert!(!scene.path("started").exists(), "{agent} was started");
    }
    // The upstream's address leads to the proxy anyway, and an address of baton that names an upstream stays.
    scene.agent("codex", "echo \"$@\"");
    write(
        ".codex/config.toml",
        &codex("https://chatgpt.com/backend-api/codex"),
    );
    let out = scene.output("run", &["codex", "own"]);
    assert!(
        text(&out.stdout).starts_with("-c openai_base_url="),
        "{}",
        text(&out.stderr)
    );
    let program = crate::harness::program::Program::start(&scene.config, &scene.state);
    write(
        ".codex/config.toml",
        &codex(&format!("{}/u/mine/v1", program.data)),
    );
    assert_eq!(text(&scene.output("run", &["codex", "own"]).stdout), "own\n");
}

#[tokio::test]
async fn cline_gets_a_copy_of_the_users_config_and_theirs_stays() {
    let scene = Scene::new().await;
    let theirs = scene.path("home/.cline/data/settings");
    fs::create_dir_all(&theirs).unwrap();
    let config =
        r#"{"lastUsedProvider":"anthropic","providers":{"anthropic":{"settings":{"apiKey":"sk-theirs"}}}}"#;
    fs::write(theirs.join("providers.json"), config).unwrap();
    scene.agent("cline", "cat \"$CLINE_PROVIDER_SETTINGS_PATH\"; ls -l \"$CLINE_PROVIDER_SETTINGS_PATH\" >&2; echo \"$BATON_URL\" > $T/url");
    let out = scene.output("run", &["cline"]);
    let copy: Value = serde_json::from_slice(&out.stdout).unwrap();
    let settings = &copy["providers"]["anthropic"]["settings"];
    assert_eq!(settings["apiKey"], "sk-theirs");
    assert_eq!(settings["baseUrl"], format!("{}/v1", scene.wrote("url")));
    assert_begins(&text(&out.stderr), "-rw-------");
    assert_eq!(fs::read_to_string(theirs.join("providers.json")).unwrap(), config);
    let left = fs::read_dir(scene.state.join("run-configs")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the copy goes with the run");
}

/// Prints everything that baton gave an agent: variables and arguments.
const GIVEN: &str = "env | grep -E '^(BATON_URL|ANTHROPIC_|OPENAI_|GOOGLE_|CLAUDE_)' | grep -v 'API_KEY' | sort; for a in \"$@\"; do echo \"$a\"; done";

#[tokio::test]
async fn env_gives_a_shell_what_run_gives_the_agent() {
    let scene = Scene::new().await;
    let program = crate::harness::program::Program::start(&scene.config, &scene.state);
    for name in [
        "claude", "codex", "opencode", "gemini", "qwen", "goose", "aider", "pi",
    ] {
        scene.agent(name, GIVEN);
        let ran = scene.output("run", &[name, "own"]);
        let lines = text(&scene.output("env", &[name]).stdout);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{lines}\n{name} own")]);
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", scene.path("bin").display()));
        let by_hand = text(&shell.output().unwrap().stdout);
        assert!(
            by_hand.contains(&program.data) && by_hand.ends_with("own\n"),
            "{name}: {by_hand}"
        );
        let files_aside = |text: &str| {
            let lines = text.lines().filter(|line| !line.ends_with("pi.mjs"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(files_aside(&by_hand), files_aside(&text(&ran.stdout)), "{name}");
    }
    let extension = fs::read_to_string(scene.state.join("agents/pi.mjs")).unwrap();
    assert!(extension.contains("registerProvider"));
}

#[tokio::test]
async fn the_windows_that_an_agent_declares_are_in_its_base_url() {
    let scene = Scene::new().await;
    let home = scene.path("home");
    fs::create_dir_all(home.join(".config/opencode")).unwrap();
    fs::create_dir_all(home.join(".codex")).unwrap();
    fs::write(
        home.join(".codex/config.toml"),
        "model_context_window = 400_000\n",
    )
    .unwrap();
    let models =
        r#"{"provider": {"anthropic": {"models": {"claude-opus-5-5": {"limit": {"context": 300000}}}}}}"#;
    fs::write(home.join(".config/opencode/opencode.json"), models).unwrap();
    let rows = [
        ("claude", "echo $ANTHROPIC_BASE_URL", "/w/350000"),
        ("codex", "echo $2", "/w/400000/v1\""),
        (
            "opencode",
            "echo $ANTHROPIC_BASE_URL",
            "/w/claude-opus-5-5=300000/v1",
        ),
        ("goose", "echo $OPENAI_HOST", "/w/150000"),
        ("gemini", "echo $GOOGLE_GEMINI_BASE_URL", ""),
    ];
    for (name, script, end) in rows {
        scene.agent(name, &format!("{script}; echo $BATON_URL"));
        let mut run = scene.baton("run", &[name]);
        run.env("HOME", &home)
            .env_remove("CODEX_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "350000")
            .env("GOOSE_CONTEXT_LIMIT", "150000");
        let out = run.output().unwrap();
        let said = text(&out.stdout);
        let [base, url] = said.lines().collect::<Vec<_>>()[..] else {
            panic!("{name}: {said} {}", text(&out.stderr));
        };
        assert!(base.ends_with(&format!("{url}{end}")), "{name}: {base}");
        assert!(!url.contains("/w/"), "{name}: {url}");
    }
}

#[tokio::test]
async fn env_says_what_it_knows_as_json_and_for_each_shell() {
    let scene = Scene::new().await;
    let json = |words: &[&str]| -> Value {
        let out = scene
            .baton("env", words)
            .env("BATON_SERVER__LISTEN", "127.0.0.1:8787")
            .output()
            .unwrap();
        serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
    };
    let claude = json(&["claude-code", "--json"]);
    let names: Vec<_> = claude.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "agent",
            "known",
            "program",
            "url",
            "running",
            "variables",
            "arguments",
            "file",
            "notes"
        ]
    );
    assert_eq!(
        (&claude["agent"], &claude["running"]),
        (&"claude".into(), &false.into())
    );
    assert_eq!(claude["variables"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8787");
    let other = json(&["my-agent", "--json"]);
    assert_eq!(
        (&other["known"], &other["program"]),
        (&false.into(), &"my-agent".into())
    );
    assert!(
        other["notes"].to_string().contains("not a known agent"),
        "{other}"
    );
    let shell = |shell: &str| {
        let mut env = scene.baton("env", &["codex", "--shell", shell]);
        env.env("BATON_SERVER__LISTEN", "127.0.0.1:8787")
            .output()
            .unwrap()
    };
    let fish = shell("fish");
    assert_eq!(
        text(&fish.stdout),
        "set -gx BATON_URL 'http://127.0.0.1:8787'\nfunction codex; command codex '-c' 'openai_base_url=\"http://127.0.0.1:8787/v1\"' $argv; end\n"
    );
    assert_contains(
        &text(&fish.stderr),
        "no proxy is running; start it with `baton serve --config",
    );
    assert!(text(&shell("powershell").stdout).starts_with("$env:BATON_URL = 'http://127.0.0.1:8787'\n"));
    // A port that is chosen at startup cannot be printed beforehand.
    let out = scene.output("env", &["claude"]);
    assert_eq!(out.status.code(), Some(69), "{}", text(&out.stderr));
    let cline = scene
        .baton("env", &["cline"])
        .env("BATON_SERVER__LISTEN", "127.0.0.1:8787")
        .output()
        .unwrap();
    assert_contains(&text(&cline.stderr), "providers.anthropic.settings.baseUrl");
}

#[tokio::test]
async fn a_handoff_is_resumed_in_any_agent() {
    let scene = Scene::new().await;
    let id = scene.handoff().await;
    let line = format!("[[handoff-resume:{id}]]");
    let state = format!(
        "--config {} --state-dir {}",
        scene.config.display(),
        scene.state.display()
    );
    let resume = |words: &[&str]| scene.output("handoffs resume", words);
    scene.agent("my-agent", "true");
    for (agent, headless, expected) in [
        ("claude", false, format!("claude '{line}'")),
        ("codex", true, format!("codex exec '{line}'")),
        ("opencode", false, format!("opencode --prompt '{line}'")),
        ("gemini", false, format!("gemini -i '{line}'")),
        ("goose", true, format!("goose run --text '{line}'")),
        ("cline", true, format!("cline '{line} '")),
        ("my-agent", false, format!("my-agent '{line}'")),
    ] {
        let flag: &[&str] = if headless { &["--headless"] } else { &[] };
        let out = resume(&[&[&id[..13], "--with", agent], flag].concat());
        assert_eq!(
            text(&out.stdout),
            format!("baton run {state} -- {expected}\n"),
            "{}",
            text(&out.stderr)
        );
    }
    scene.agent("pi", "for a in \"$@\"; do echo \"<$a>\"; done; exit 5");
    let out = resume(&[
        &id,
        "--with",
        "pi",
        "--headless",
        "--prompt",
        "Tests first.",
        "--run",
        "--",
        "--mode",
        "json",
    ]);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(5), "{}", text(&out.stderr));
    assert_begins(&said, "<--extension>\n");
    let part = format!("pi.mjs>\n<-p>\n<{line}\nTests first.>\n<--mode>\n<json>\n");
    assert_ends(&said, &part);
    let json: Value =
        serde_json::from_slice(&resume(&[&line, "--with", "qwen-code", "--json"]).stdout).unwrap();
    let names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "id", "agent", "known", "archived", "drifted", "drift", "prompt", "command"
        ]
    );
    assert_eq!(
        (&json["agent"], &json["prompt"]),
        (&"qwen".into(), &line.clone().into())
    );
    let unknown = resume(&["0000", "--with", "claude"]);
    assert_eq!(unknown.status.code(), Some(66));
    assert_contains(&text(&unknown.stderr), "there is no handoff 0000");
    let archived = baton_over(&scene.config, &scene.state, &["handoffs", "archive", &id]);
    assert!(archived.status.success(), "{archived:?}");
    let out = resume(&[&id, "--with", "claude"]);
    assert!(out.status.success() && text(&out.stdout).contains(&line));
    assert_eq!(
        text(&out.stderr),
        "baton: this handoff is archived; it can still be resumed\n"
    );
}

#[tokio::test]
async fn what_is_resumed_is_compared_with_its_repository() {
    let scene = Scene::new().await;
    let repository = scene.path("repository");
    fs::create_dir_all(&repository).unwrap();
    let git = |words: &[&str]| assert!(crate::harness::git(&repository, words));
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let config = fs::read_to_string(&scene.config).unwrap();
    let own = format!("handoff.git_dir = '{}'\n{config}", repository.display());
    fs::write(&scene.config, own).unwrap();
    let id = scene.handoff().await;
    let resumed = || {
        let out = scene.output("handoffs resume", &[&id, "--with", "claude", "--json"]);
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    let json = resumed();
    let drift = json["drift"].as_str().unwrap();
    assert_eq!(drift, "Up to date: written just now");
    assert_eq!(json["drifted"], false);
    // The proxy tells the model. In the prompt it would count as the user's words.
    assert_eq!(
        json["prompt"].as_str().unwrap(),
        format!("[[handoff-resume:{id}]]")
    );
    let out = scene.output("handoffs resume", &[&id, "--with", "claude"]);
    assert_begins(&text(&out.stderr), "baton: Up to date: ");
    git(&["checkout", "-q", "-b", "another"]);
    let json = resumed();
    assert_eq!(json["drifted"], true, "{json}");
    assert!(json["drift"].as_str().unwrap().starts_with("Drift: "), "{json}");
}
