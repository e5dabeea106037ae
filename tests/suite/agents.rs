//! `baton run`, `env` and `resume` with shell scripts as agents: their environment, signals and exit codes,
//! and one proxy for all of them.
#![cfg(unix)]

use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use baton_strict::{Options, Received, Reply, Strict};
use pretty_assertions::assert_eq;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT};

use crate::harness::anthropic::Anthropic;
use crate::harness::fixture::{PROMPT, handoff, history, texts, user};
use crate::harness::program::{Program, baton, baton_over, config_for, printed};
use crate::harness::texts::{assert_begins, assert_contains, assert_ends, assert_members};
use crate::harness::{AgentWire, post, temp};

/// A provider, a place for agents, and a state directory.
pub(crate) struct Scene {
    provider: Strict,
    dir: tempfile::TempDir,
    config: PathBuf,
    pub(crate) state: PathBuf,
}

/// What a command has printed, and its exit code.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err))
    }

    /// Checks the exit code, and that standard error has these parts.
    #[track_caller]
    pub(crate) fn said(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        for part in parts {
            assert_contains(&self.err, part);
        }
    }
}

/// A `baton run` in progress. Dropping it kills it, which ends the proxy.
pub(crate) struct Run {
    child: Child,
    /// Its agent may end when this file exists.
    go: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }

    /// Returns what the run says, line by line.
    pub(crate) fn stderr(&mut self) -> std::process::ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// Lets the agent end, and waits for the run.
    pub(crate) fn goes(self) -> Ran {
        fs::write(&self.go, "").unwrap();
        self.ends()
    }

    pub(crate) fn ends(mut self) -> Ran {
        let (mut out, mut err) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut err).unwrap();
        }
        let code = self.child.wait().unwrap().code();
        Ran { code, out, err }
    }
}

fn model(seen: &Received) -> Reply {
    match texts(seen.messages()) == [format!("u: {PROMPT}")] {
        true => Reply::text("Fresh."),
        false => handoff(),
    }
}

const ENDS_ON_ITS_FILE: &str = "while [ ! -e $T/$(basename $0).go ]; do sleep 0.02; done";

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
            provider,
            dir,
            config,
            state,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file, and its directory.
    fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Installs a script on the PATH of programs in this scene. `$T` in the script is the scene's directory.
    pub(crate) fn agent(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Installs an agent that runs this script, and waits until it may end.
    fn agent_that_waits(&self, name: &str, script: &str) {
        self.agent(name, &format!("{script}; {ENDS_ON_ITS_FILE}; exit 3"));
    }

    /// Adds this scene's agents and baton to the PATH.
    fn with_agents(&self, command: &mut Command) {
        let path = std::env::var("PATH").unwrap();
        let baton = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
        command.env(
            "PATH",
            format!("{}:{}:{path}", self.path("bin").display(), baton.display()),
        );
    }

    /// Runs a printed command in the user's shell.
    pub(crate) fn shell(&self, command: &str) -> Ran {
        let mut shell = self.isolated(Command::new("/bin/sh"));
        let ran = Ran::from(shell.args(["-c", command]).output().unwrap());
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.err);
        ran
    }

    pub(crate) fn baton(&self, command: &str, words: &[&str]) -> Command {
        let mut baton = Command::new(env!("CARGO_BIN_EXE_baton"));
        baton.args(command.split(' ')).arg("--config").arg(&self.config);
        baton.arg("--state-dir").arg(&self.state).args(words);
        self.isolated(baton)
    }

    /// Gives a command the agents and the home of this scene, and none of this process's settings.
    fn isolated(&self, mut command: Command) -> Command {
        self.with_agents(&mut command);
        command
            .env("T", self.dir.path())
            .env("HOME", self.path("home"))
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::null());
        for name in [
            "ANTHROPIC_BASE_URL",
            "OPENAI_BASE_URL",
            "OPENAI_API_BASE",
            "GOOGLE_GEMINI_BASE_URL",
            "CODE_ASSIST_ENDPOINT",
            "CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS",
            "CODEX_HOME",
            "XDG_CONFIG_HOME",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn ran(&self, command: &str, words: &[&str]) -> Ran {
        self.ran_with(command, words, &[])
    }

    fn ran_with(&self, command: &str, words: &[&str], variables: &[(&str, &str)]) -> Ran {
        let mut baton = self.baton(command, words);
        baton.envs(variables.iter().copied()).output().unwrap().into()
    }

    /// Starts a run of this agent. `go` lets it end.
    fn spawn(&self, run: &mut Command, name: &str) -> Run {
        run.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Run {
            child: run.spawn().unwrap(),
            go: self.path(&format!("{name}.go")),
        }
    }

    fn spawned(&self, name: &str, variables: &[(&str, &str)]) -> Run {
        self.spawn(self.baton("run", &[name]).envs(variables.iter().copied()), name)
    }

    /// Starts a run whose agent writes its URL to a file, and waits until it may end. Returns both.
    pub(crate) fn waiting(&self, name: &str, options: &[&str]) -> (Run, String) {
        // Sessions work below the start directory of their run.
        self.waiting_in(self.dir.path(), name, options)
    }

    pub(crate) fn waiting_in(&self, dir: &Path, name: &str, options: &[&str]) -> (Run, String) {
        let run = self.begun(dir, name, options);
        (run, self.wrote(&format!("{name}.url")))
    }

    fn begun(&self, dir: &Path, name: &str, options: &[&str]) -> Run {
        let script = format!("echo \"$ANTHROPIC_BASE_URL\" > $T/{name}.url");
        self.agent(name, &format!("{script}; {ENDS_ON_ITS_FILE}"));
        let mut run = self.baton("run", &[options, &[name]].concat());
        self.spawn(run.current_dir(dir), name)
    }

    /// Waits until an agent has written this file, and returns its content.
    pub(crate) fn wrote(&self, name: &str) -> String {
        let file = self.path(name);
        until("the agent writes", || {
            fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(&file).unwrap().trim().to_owned()
    }

    /// Starts a proxy of the user's own.
    fn serve(&self) -> Program {
        Program::start(&self.config, &self.state)
    }

    /// Whether a proxy serves from the state directory.
    fn serves(&self) -> bool {
        let lock = File::open(self.state.join("serving.lock"));
        lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// What `baton doctor` knows of the running proxy.
    fn running(&self) -> Value {
        self.ran("doctor", &["--offline", "--json"]).json()["running"].clone()
    }

    /// Makes a handoff and returns its id.
    async fn handoff(&self) -> String {
        let (run, url) = self.waiting("claude", &[]);
        hands_over(&url).await;
        run.goes().said(0, &[]);
        let latest = baton_over(&self.config, &self.state, &["handoffs", "show", "--json"]);
        let latest: Value = serde_json::from_str(&printed(latest)).unwrap();
        latest["id"].as_str().unwrap().to_owned()
    }
}

/// Sends a conversation to an agent's URL. The model hands it over.
async fn hands_over(url: &str) {
    let body = Anthropic.body(&history(), true).to_string();
    let heard = post(
        &format!("{url}{}", Anthropic.path()),
        Anthropic.headers(),
        body.into(),
    )
    .await;
    assert_contains(&heard.text(), "Fresh.");
}

/// The messages of a session of Claude Code that works in this directory, and has done something.
pub(crate) fn work(directory: &Path, last: &str) -> Vec<Value> {
    let says = format!(
        "<system-reminder>\n# Environment\n - Primary working directory: {}\n</system-reminder>",
        directory.display()
    );
    vec![
        json!({"role": "user", "content": [{"type": "text", "text": says}, {"type": "text", "text": "Mend the importer."}]}),
        json!({"role": "assistant", "content": "Looking."}),
        user(last),
    ]
}

pub(crate) const CLAUDE_CODE: &str = "You are Claude Code, Anthropic's official CLI for Claude.";

/// A request with this system prompt and these tools.
pub(crate) fn request(system: &str, tools: &[&str], messages: &[Value]) -> Value {
    let mut body = Anthropic.body(messages, true);
    body["system"] = json!(system);
    for name in tools {
        let tool = json!({"name": name, "description": "A tool.", "input_schema": {"type": "object"}});
        body["tools"].as_array_mut().unwrap().push(tool);
    }
    body
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

#[tokio::test]
async fn a_run_starts_a_proxy_sets_the_agent_up_and_leaves_nothing() {
    let scene = Scene::new().await;
    scene.agent(
        "claude",
        "echo \"$ANTHROPIC_BASE_URL|$BATON_URL|$*\"; cat; exit 7",
    );
    let mut run = scene.baton("run", &["claude", "-p", "--help", "--", "x y"]);
    run.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = run.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed").unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.said(7, &[]);
    let url = ran.out.split('|').next().unwrap();
    assert_begins(url, "http://127.0.0.1:");
    assert_eq!(ran.out, format!("{url}|{url}|-p --help -- x y\ntyped"));
    assert_eq!(ran.err, "", "nothing in the agent's way");
    assert!(!scene.serves(), "gone when the command ends");
    assert_contains(&fs::read_to_string(scene.state.join("serve.log")).unwrap(), url);
}

/// Claude Code's summary of an idle session would replace the sentinel.
#[tokio::test]
async fn claude_code_does_not_compact_in_a_pause_where_baton_hands_over() {
    let scene = Scene::new().await;
    scene.agent("claude", "echo \"<$CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS>\"");
    let own = Some(("CLAUDE_CODE_IDLE_COMPACT_MIN_TOKENS", "5"));
    for (free, own, given, told) in [
        ("on", None, "<1000000000>\n", "does not compact in a pause"),
        ("ask", None, "<1000000000>\n", "does not compact in a pause"),
        ("off", None, "<>\n", ""),
        ("on", own, "<5>\n", ""),
    ] {
        let cold = ("BATON_HANDOFF__WHEN_CACHE_COLD", free);
        let variables: Vec<_> = own.into_iter().chain([cold]).collect();
        let ran = scene.ran_with("run", &["claude"], &variables);
        assert_eq!(ran.out, given, "{free} {own:?}");
        assert_contains(&ran.err, told);
        assert_eq!(ran.err.is_empty(), told.is_empty(), "{}", ran.err);
    }
}

#[tokio::test]
async fn agents_share_a_proxy_and_the_last_one_ends_it() {
    let scene = Scene::new().await;
    let (first, url) = scene.waiting("claude", &[]);
    let address = url.trim_start_matches("http://");
    let served = scene.ran("serve", &["--listen", address]);
    assert_contains(&served.err, "in use by the proxy");
    assert_contains(&served.err, "started by `baton run`");
    let (second, its) = scene.waiting("opencode", &[]);
    assert_eq!(its, format!("{url}/v1"));
    assert_eq!(scene.running()["started_by_run"], true);
    first.goes().said(0, &[]);
    assert!(scene.serves(), "the one that started it left first");
    hands_over(&url).await;
    second.goes().said(0, &[]);
    assert!(!scene.serves());
}

#[tokio::test]
async fn many_that_start_at_once_start_one_proxy() {
    let scene = Scene::new().await;
    let names = ["a", "b", "c", "d", "e"];
    let runs = names.map(|name| scene.begun(scene.dir.path(), name, &[]));
    let urls = names.map(|name| scene.wrote(&format!("{name}.url")));
    assert!(urls.iter().all(|url| *url == urls[0]), "{urls:?}");
    for run in runs {
        run.goes().said(0, &[]);
    }
    until("the proxy ends", || !scene.serves());
    assert!(!scene.state.join("serve.log.old").exists(), "started once");
}

#[tokio::test]
async fn a_killed_run_leaves_no_proxy() {
    let scene = Scene::new().await;
    let (mut run, _) = scene.waiting("pi", &[]);
    assert!(scene.serves());
    let runs = || fs::read_dir(scene.state.join("run-configs")).unwrap().count();
    assert_eq!(runs(), 1, "pi's extension");
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    until("the proxy ends", || !scene.serves());
    scene.write("pi.go", "");
    assert_eq!(runs(), 1);
    // The state directory may be one that other programs use.
    let theirs = ["run-configs/theirs", "runs/theirs"].map(|name| scene.state.join(name));
    for directory in &theirs {
        fs::create_dir_all(directory).unwrap();
    }
    scene.ran("run", &["true"]).said(0, &[]);
    assert_eq!(runs(), 1, "the next one takes its files away");
    assert!(theirs.iter().all(|directory| directory.exists()));
}

#[tokio::test]
async fn a_killed_proxy_is_started_again_at_the_same_address() {
    let scene = Scene::new().await;
    let (run, url) = scene.waiting("claude", &[]);
    let (other, _) = scene.waiting("codex", &[]);
    let pid = || scene.running()["pid"].as_i64();
    let first = pid().unwrap();
    let killed = Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    kill_process(killed, Signal::KILL).unwrap();
    until("another proxy serves", || pid().is_some_and(|pid| pid != first));
    until("it is ready", || {
        scene.ran("doctor", &["--ready"]).code == Some(0)
    });
    hands_over(&url).await;
    let ran = run.goes();
    let others = other.goes();
    for ran in [ran, others] {
        ran.said(0, &["the proxy was killed, and was started again"]);
    }
    assert!(!scene.serves(), "it stops with the last run");
}

#[tokio::test]
async fn a_proxy_that_was_told_to_stop_is_not_started_again() {
    let scene = Scene::new().await;
    let (mut run, _) = scene.waiting("claude", &[]);
    let pid = scene.running()["pid"].as_i64().unwrap();
    let stopped = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(stopped, Signal::TERM).unwrap();
    let mut said = BufReader::new(run.stderr());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_contains(&line, "the proxy was stopped");
    run.goes().said(0, &[]);
}

#[tokio::test]
async fn a_proxy_of_ones_own_is_used_and_stays() {
    let scene = Scene::new().await;
    let program = scene.serve();
    scene.agent("claude", "echo $ANTHROPIC_BASE_URL");
    assert_eq!(scene.ran("run", &["claude"]).out.trim(), program.data);
    assert!(scene.serves());
    assert_eq!(scene.running()["started_by_run"], false);
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
        // A resized window only reaches the agent.
        ("resized", "trap 'exit 5' WINCH", Signal::WINCH, 5),
    ] {
        scene.agent_that_waits(name, &format!("{trap}\necho ready > $T/{name}"));
        let run = scene.spawned(name, &[]);
        scene.wrote(name);
        run.signal(signal);
        assert_eq!(run.ends().code, Some(code), "{name}");
        assert!(!scene.serves());
    }
}

#[tokio::test]
async fn an_agent_that_stops_stops_the_command_and_both_go_on() {
    let scene = Scene::new().await;
    scene.agent_that_waits("claude", "echo $$ > $T/pid");
    let run = scene.spawned("claude", &[]);
    let agent = Pid::from_raw(scene.wrote("pid").parse().unwrap()).unwrap();
    // Agents stop only themselves when their own screen receives Ctrl-Z.
    kill_process(agent, Signal::STOP).unwrap();
    let stopped = waitpid(Some(run.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(stopped.1.stopped());
    // Like `fg`.
    run.signal(Signal::CONT);
    run.goes().said(3, &[]);
    assert!(!scene.serves());
}

#[tokio::test]
async fn a_taken_port_is_no_reason_not_to_run() {
    let scene = Scene::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    scene.agent("claude", "echo $ANTHROPIC_BASE_URL");
    let ran = scene.ran_with("run", &["claude"], &[("BATON_SERVER__LISTEN", &address)]);
    assert!(ran.code == Some(0) && !ran.out.contains(&address), "{}", ran.out);
    assert_eq!(
        ran.err,
        format!("baton: {address} is in use; the proxy is at {}", ran.out)
    );
}

#[tokio::test]
async fn a_proxy_that_does_not_start_says_why() {
    let scene = Scene::new().await;
    scene.agent("claude", "echo ran");
    // The state directory has no database.
    fs::create_dir_all(scene.state.join("baton.db")).unwrap();
    let ran = scene.ran("run", &["claude"]);
    assert_begins(&ran.err, "error: failed to start the proxy: exit status: 73\n");
    ran.said(69, &["\n  error: failed to open the store", "serve.log"]);
    assert_eq!(ran.out, "");
    // An error in the config is reported before anything is started.
    fs::write(&scene.config, "server.lisen = '127.0.0.1:0'").unwrap();
    scene
        .ran("run", &["claude"])
        .said(78, &["did you mean `server.listen`?"]);
}

#[tokio::test]
async fn what_nohup_has_ignored_stays_ignored() {
    let scene = Scene::new().await;
    scene.agent_that_waits("claude", "echo $$ > $T/pid");
    let run = scene.baton("run", &["claude"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args());
    shell.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let run = scene.spawn(&mut shell, "claude");
    let agent = Pid::from_raw(scene.wrote("pid").parse().unwrap()).unwrap();
    run.signal(Signal::HUP);
    kill_process(agent, Signal::HUP).unwrap();
    run.goes().said(3, &[]);
}

#[tokio::test]
async fn what_cannot_be_run_is_told_as_shells_do() {
    let scene = Scene::new().await;
    scene
        .ran("run", &["no-such-agent"])
        .said(127, &["no-such-agent is not found"]);
    assert!(!scene.state.exists(), "no proxy was started, and no file written");
    scene.write("plain", "no program");
    scene
        .ran("run", &[scene.path("plain").to_str().unwrap()])
        .said(126, &[]);
    scene.ran("run", &[]).said(64, &[]);
    assert!(!scene.serves());
}

#[tokio::test]
async fn an_agent_that_is_not_known_gets_the_general_variables_and_is_told_so() {
    let scene = Scene::new().await;
    scene.agent(
        "my-agent",
        "echo \"$ANTHROPIC_BASE_URL $OPENAI_BASE_URL $OPENAI_API_BASE $GOOGLE_GEMINI_BASE_URL\"",
    );
    let ran = scene.ran("run", &["my-agent"]);
    let url = ran.out.split(' ').next().unwrap();
    assert_eq!(ran.out.trim(), format!("{url} {url}/v1 {url}/v1 {url}"));
    ran.said(0, &["my-agent is not a known agent"]);
}

/// With a Google account, gemini-cli sends its requests to a different address than with an API key.
#[tokio::test]
async fn both_sign_ins_of_gemini_cli_lead_to_the_proxy() {
    let scene = Scene::new().await;
    scene.agent(
        "gemini",
        "echo $BATON_URL $CODE_ASSIST_ENDPOINT $GOOGLE_GEMINI_BASE_URL",
    );
    let said = scene.ran("run", &["gemini"]).out;
    let [baton, account, key] = said.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert_eq!([account, key], [baton; 2]);
    let elsewhere = [("CODE_ASSIST_ENDPOINT", "https://gateway.example")];
    let ran = scene.ran_with("run", &["gemini"], &elsewhere);
    ran.said(78, &["upstreams.codeassist.base_url"]);
}

#[tokio::test]
async fn a_credential_is_not_sent_elsewhere_than_the_user_said() {
    let scene = Scene::new().await;
    scene.agent("claude", "echo $ANTHROPIC_BASE_URL");
    let run = |value: &str, more: &[(&str, &str)]| {
        let variables = [&[("ANTHROPIC_BASE_URL", value)], more].concat();
        scene.ran_with("run", &["claude"], &variables)
    };
    run("https://gateway.example/v1", &[]).said(
        78,
        &[
            "ANTHROPIC_BASE_URL is https://gateway.example/v1",
            "upstreams.anthropic.base_url",
        ],
    );
    // The addresses of baton and of the upstream lead to the proxy anyway.
    run(&scene.provider.url(), &[]).said(0, &[]);
    let again = run("http://127.0.0.1:1", &[("BATON_URL", "http://127.0.0.1:1")]);
    again.said(0, &[]);
    assert_ne!(again.out, "http://127.0.0.1:1\n");
}

/// The first run's environment, which a repository may set, would send the requests of the second somewhere else.
#[tokio::test]
async fn a_run_does_not_use_a_proxy_that_another_started_with_other_settings() {
    let scene = Scene::new().await;
    scene.agent("claude", "exit 3");
    scene.agent_that_waits("waits", "echo > $T/waits.runs");
    for (name, value) in [
        (
            "BATON_UPSTREAMS__ANTHROPIC__BASE_URL",
            "http://127.0.0.1:1/secret",
        ),
        ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ] {
        let first = scene.spawned("waits", &[(name, value)]);
        scene.wrote("waits.runs");
        let ran = scene.ran("run", &["claude"]);
        ran.said(78, &[&format!("other settings: with {name}"), "--state-dir"]);
        assert!(!ran.err.contains(value), "{}", ran.err);
        scene.ran_with("run", &["claude"], &[(name, value)]).said(3, &[]);
        let other = scene.ran_with("run", &["claude"], &[(name, "http://127.0.0.1:2")]);
        assert_contains(&other.err, &format!("other settings: another {name}"));
        let shown = scene.running().to_string();
        assert!(!shown.contains(name), "{shown}");
        first.goes().said(3, &[]);
        for file in ["waits.go", "waits.runs"] {
            fs::remove_file(scene.path(file)).unwrap();
        }
    }
    let (waiting, _) = scene.waiting("pi", &[]);
    let copy = scene.path("other.toml");
    fs::copy(&scene.config, &copy).unwrap();
    let state = scene.state.to_str().unwrap();
    let words = [
        "run",
        "--config",
        copy.to_str().unwrap(),
        "--state-dir",
        state,
        "true",
    ];
    let done = Ran::from(baton(&scene.path("home"), &words).output().unwrap());
    assert_contains(&done.err, "other settings: with ");
    assert_contains(&done.err, &format!("with {}", scene.config.display()));
    waiting.goes().said(0, &[]);
    until("the proxy ends", || !scene.serves());
    // A proxy of the user's own has the settings that the user gave it.
    let _own = scene.serve();
    scene
        .ran_with("run", &["claude"], &[("HTTPS_PROXY", "http://127.0.0.1:1")])
        .said(3, &[]);
}

/// A base URL that the user has set in the agent's own file.
#[tokio::test]
async fn a_base_url_in_an_agents_own_file_is_not_replaced_by_another_server() {
    let scene = Scene::new().await;
    let cline =
        |key: &str, url: &str| format!(r#"{{"providers":{{"{key}":{{"settings":{{"baseUrl":"{url}"}}}}}}}}"#);
    let codex = |url: &str| format!("openai_base_url = \"{url}\"\n");
    let elsewhere = "https://gateway.example/v1";
    let (toml, providers) = (
        "home/.codex/config.toml",
        "home/.cline/data/settings/providers.json",
    );
    for (agent, file, own, upstream) in [
        ("codex", toml, codex(elsewhere), "openai"),
        ("cline", providers, cline("anthropic", elsewhere), "anthropic"),
        ("cline", providers, cline("openai-native", elsewhere), "openai"),
    ] {
        scene.agent(agent, "touch $T/started");
        scene.write(file, &own);
        let sends = format!("is {elsewhere}, and baton sends to");
        scene
            .ran("run", &[agent])
            .said(78, &[&sends, &format!("upstreams.{upstream}.base_url")]);
        assert!(!scene.path("started").exists(), "{agent} was started");
    }
    // The upstream's address leads to the proxy anyway, and an address of baton that names an upstream stays.
    scene.agent("codex", "echo \"$@\"");
    scene.write(toml, &codex("https://chatgpt.com/backend-api/codex"));
    assert_begins(&scene.ran("run", &["codex", "own"]).out, "-c openai_base_url=");
    let program = scene.serve();
    scene.write(toml, &codex(&format!("{}/u/mine/v1", program.data)));
    assert_eq!(scene.ran("run", &["codex", "own"]).out, "own\n");
}

#[tokio::test]
async fn cline_gets_a_copy_of_the_users_config_and_theirs_stays() {
    let scene = Scene::new().await;
    let theirs = "home/.cline/data/settings/providers.json";
    let config =
        r#"{"lastUsedProvider":"anthropic","providers":{"anthropic":{"settings":{"apiKey":"sk-theirs"}}}}"#;
    scene.write(theirs, config);
    scene.agent("cline", "cat \"$CLINE_PROVIDER_SETTINGS_PATH\"; ls -l \"$CLINE_PROVIDER_SETTINGS_PATH\" >&2; echo \"$BATON_URL\" > $T/url");
    let ran = scene.ran("run", &["cline"]);
    let settings = &ran.json()["providers"]["anthropic"]["settings"];
    assert_eq!(settings["apiKey"], "sk-theirs");
    assert_eq!(settings["baseUrl"], format!("{}/v1", scene.wrote("url")));
    assert_begins(&ran.err, "-rw-------");
    assert_eq!(fs::read_to_string(scene.path(theirs)).unwrap(), config);
    let left = fs::read_dir(scene.state.join("run-configs")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "the copy goes with the run");
}

/// Prints everything that baton gave an agent: variables and arguments.
const GIVEN: &str = "env | grep -E '^(BATON_URL|ANTHROPIC_|OPENAI_|GOOGLE_|CLAUDE_)' | grep -v 'API_KEY' | sort; for a in \"$@\"; do echo \"$a\"; done";

#[tokio::test]
async fn env_gives_a_shell_what_run_gives_the_agent() {
    let scene = Scene::new().await;
    let program = scene.serve();
    for name in [
        "claude", "codex", "opencode", "gemini", "qwen", "goose", "aider", "pi",
    ] {
        scene.agent(name, GIVEN);
        let ran = scene.ran("run", &[name, "own"]).out;
        let lines = scene.ran("env", &[name]).out;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{lines}\n{name} own")]);
        scene.with_agents(&mut shell);
        let by_hand = text(&shell.output().unwrap().stdout);
        assert_contains(&by_hand, &program.data);
        assert_ends(&by_hand, "own\n");
        let files_aside = |text: &str| {
            let lines = text.lines().filter(|line| !line.ends_with("pi.mjs"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(files_aside(&by_hand), files_aside(&ran), "{name}");
    }
    let extension = fs::read_to_string(scene.state.join("agents/pi.mjs")).unwrap();
    assert_contains(&extension, "registerProvider");
}

#[tokio::test]
async fn the_windows_that_an_agent_declares_are_in_its_base_url() {
    let scene = Scene::new().await;
    scene.write("home/.codex/config.toml", "model_context_window = 400_000\n");
    let models =
        r#"{"provider": {"anthropic": {"models": {"claude-opus-5-5": {"limit": {"context": 300000}}}}}}"#;
    scene.write("home/.config/opencode/opencode.json", models);
    let windows = [
        ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "350000"),
        ("GOOSE_CONTEXT_LIMIT", "150000"),
    ];
    for (name, shown, end) in [
        ("claude", "$ANTHROPIC_BASE_URL", "/w/350000"),
        ("codex", "$2", "/w/400000/v1\""),
        ("opencode", "$ANTHROPIC_BASE_URL", "/w/claude-opus-5-5=300000/v1"),
        ("goose", "$OPENAI_HOST", "/w/150000"),
        ("gemini", "$GOOGLE_GEMINI_BASE_URL", ""),
    ] {
        scene.agent(name, &format!("echo {shown}; echo $BATON_URL"));
        let ran = scene.ran_with("run", &[name], &windows);
        let [base, url] = ran.out.lines().collect::<Vec<_>>()[..] else {
            panic!("{name}: {} {}", ran.out, ran.err);
        };
        assert_ends(base, &format!("{url}{end}"));
        assert!(!url.contains("/w/"), "{name}: {url}");
    }
}

#[tokio::test]
async fn env_says_what_it_knows_as_json_and_for_each_shell() {
    let scene = Scene::new().await;
    let env = |words: &[&str]| scene.ran_with("env", words, &[("BATON_SERVER__LISTEN", "127.0.0.1:8787")]);
    let claude = env(&["claude-code", "--json"]).json();
    assert_eq!(
        names(&claude),
        "agent known program url running variables arguments file notes"
    );
    assert_members(&claude, &json!({"agent": "claude", "running": false}));
    assert_eq!(claude["variables"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8787");
    let other = env(&["my-agent", "--json"]).json();
    assert_members(&other, &json!({"known": false, "program": "my-agent"}));
    assert_contains(&other["notes"].to_string(), "not a known agent");
    let fish = env(&["codex", "--shell", "fish"]);
    assert_eq!(
        fish.out,
        "set -gx BATON_URL 'http://127.0.0.1:8787'\nfunction codex; command codex '-c' 'openai_base_url=\"http://127.0.0.1:8787/v1\"' $argv; end\n"
    );
    fish.said(0, &["no proxy is running; start it with `baton serve --config"]);
    assert_begins(
        &env(&["codex", "--shell", "powershell"]).out,
        "$env:BATON_URL = 'http://127.0.0.1:8787'\n",
    );
    // A port that is chosen at startup cannot be printed beforehand.
    scene.ran("env", &["claude"]).said(69, &[]);
    assert_contains(&env(&["cline"]).err, "providers.anthropic.settings.baseUrl");
}

/// The names of an object's members, in order.
fn names(object: &Value) -> String {
    let names: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.join(" ")
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
    let resume = |words: &[&str]| scene.ran("handoffs resume", words);
    scene.agent("my-agent", "true");
    for (agent, expected) in [
        ("claude", format!("claude '{line}'")),
        ("codex --headless", format!("codex exec '{line}'")),
        ("opencode", format!("opencode --prompt '{line}'")),
        ("gemini", format!("gemini -i '{line}'")),
        ("goose --headless", format!("goose run --text '{line}'")),
        ("cline --headless", format!("cline '{line} '")),
        ("my-agent", format!("my-agent '{line}'")),
    ] {
        let words: Vec<_> = [&id[..13], "--with"]
            .into_iter()
            .chain(agent.split(' '))
            .collect();
        let ran = resume(&words);
        let run = format!("baton run {state} -- {expected}\n");
        assert_eq!(ran.out, run, "{}", ran.err);
    }
    scene.agent("pi", "for a in \"$@\"; do echo \"<$a>\"; done; exit 5");
    let own = "--with pi --headless --prompt Tests. --run -- --mode json";
    let ran = resume(&[&[&*id], &own.split(' ').collect::<Vec<_>>()[..]].concat());
    ran.said(5, &[]);
    assert_begins(&ran.out, "<--extension>\n");
    assert_ends(
        &ran.out,
        &format!("pi.mjs>\n<-p>\n<{line}\nTests.>\n<--mode>\n<json>\n"),
    );
    let json = resume(&[&line, "--with", "qwen-code", "--json"]).json();
    assert_eq!(
        names(&json),
        "id agent known archived drifted drift prompt command"
    );
    assert_members(&json, &json!({"agent": "qwen", "prompt": line}));
    resume(&["0000", "--with", "claude"]).said(66, &["there is no handoff 0000"]);
    resume(&["0000", "--with", "no-such-agent", "--run"]).said(127, &["no-such-agent is not found"]);
    let archived = baton_over(&scene.config, &scene.state, &["handoffs", "archive", &id]);
    assert!(archived.status.success(), "{archived:?}");
    let ran = resume(&[&id, "--with", "claude"]);
    ran.said(0, &[]);
    assert_contains(&ran.out, &line);
    assert_eq!(
        ran.err,
        "baton: this handoff is archived; it can still be resumed\n"
    );
    // Starting an agent makes the handoff active again, which is reported.
    let ran = resume(&[&id, "--with", "pi", "--run"]);
    assert_contains(&ran.err, "the handoff was archived; it is active again");
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
        scene
            .ran("handoffs resume", &[&id, "--with", "claude", "--json"])
            .json()
    };
    // The proxy tells the model. In the prompt it would count as the user's words.
    let prompt = format!("[[handoff-resume:{id}]]");
    assert_members(
        &resumed(),
        &json!({"drift": "Up to date: written just now", "drifted": false, "prompt": prompt}),
    );
    assert_begins(
        &scene.ran("handoffs resume", &[&id, "--with", "claude"]).err,
        "baton: Up to date: ",
    );
    git(&["checkout", "-q", "-b", "another"]);
    let json = resumed();
    assert_eq!(json["drifted"], true, "{json}");
    assert_begins(json["drift"].as_str().unwrap(), "Drift: ");
}
