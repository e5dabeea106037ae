//! The real program in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use baton_strict::{Model, Options, Queue, Reply, Strict};
use serde_json::Value;

use super::anthropic::Anthropic;
use super::{AgentWire, Message, RawResponse, post, read};

/// A provider, and a directory with the config and the state of programs before it.
pub struct Place {
    pub provider: Strict,
    pub script: Queue,
    pub dir: tempfile::TempDir,
    pub config: PathBuf,
    pub state: PathBuf,
}

impl Place {
    /// Returns a provider that gives these replies, and a config of it with further lines.
    pub async fn new(replies: impl IntoIterator<Item = Reply>, more: &str) -> Self {
        let script = Queue::new(replies);
        Self::playing(script.clone(), script, more).await
    }

    pub async fn of(model: impl Model + 'static, more: &str) -> Self {
        Self::playing(model, Queue::new([]), more).await
    }

    async fn playing(model: impl Model + 'static, script: Queue, more: &str) -> Self {
        let provider = Strict::start(model, Options::default()).await.unwrap();
        let dir = super::temp();
        Self {
            config: config_for(&provider, dir.path(), more),
            state: dir.path().join("state"),
            provider,
            script,
            dir,
        }
    }

    pub fn start(&self) -> Program {
        Program::start(&self.config, &self.state)
    }

    /// Starts `baton serve` with its log in a file.
    pub fn start_logging(&self) -> Program {
        let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
        Program::start_logging_to(&self.config, &self.state, log.into())
    }

    /// Returns the log of that program.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub fn baton(&self, words: &[&str]) -> Output {
        baton_over(&self.config, &self.state, words)
    }

    /// Returns what a command prints, which must succeed.
    pub fn said(&self, words: &[&str]) -> String {
        printed(self.baton(words))
    }

    pub fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.said(words)).unwrap()
    }
}

/// A running `baton serve`. Dropping it kills it.
pub struct Program {
    pub child: Child,
    /// URL for agents.
    pub data: String,
    /// URL of the admin listener.
    pub admin: String,
    /// Kept open while the program runs, because it prints more than two lines.
    pub said: BufReader<ChildStdout>,
}

impl Program {
    /// Starts `baton serve`.
    pub fn start(config: &Path, state: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        Self::launch(with_config(&mut command, config, state, "error"))
    }

    /// Starts `baton serve` with the text log on its standard error.
    pub fn start_logging(config: &Path, state: &Path) -> Self {
        Self::start_logging_to(config, state, Stdio::piped())
    }

    /// Starts `baton serve` with the text log sent to `log`.
    pub fn start_logging_to(config: &Path, state: &Path, log: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        Self::launch(with_config(&mut command, config, state, "info").stderr(log))
    }

    /// Starts the program with a limit on the size of each file, to simulate a full disk. The unit is blocks
    /// of 512 bytes (1,024 in some shells).
    #[cfg(unix)]
    pub fn start_on_a_small_disk(config: &Path, state: &Path, blocks: u32) -> Self {
        let mut command = Command::new("sh");
        let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_baton")]);
        Self::launch(with_config(&mut command, config, state, "error"))
    }

    /// Runs this command, and waits until it reports its addresses.
    pub fn launch(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = |front: &str| {
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            let rest = line.trim().strip_prefix(front);
            rest.unwrap_or_else(|| panic!("{line:?}")).to_owned()
        };
        Self {
            data: line("listening on "),
            admin: line("admin on "),
            child,
            said,
        }
    }

    /// Sends a conversation, as an agent on Anthropic Messages.
    pub async fn sends(&self, history: &[Value]) -> RawResponse {
        self.sends_with(Anthropic.headers(), history).await
    }

    pub async fn sends_with(&self, headers: &[(&str, &str)], history: &[Value]) -> RawResponse {
        self.posts(headers, &Anthropic.body(history, true)).await
    }

    pub async fn posts(&self, headers: &[(&str, &str)], body: &Value) -> RawResponse {
        let url = format!("{}{}", self.data, Anthropic.path());
        post(&url, headers, body.to_string().into()).await
    }

    /// Sends this signal to the process.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Ends the process, and returns what it logged.
    pub fn stopped(&mut self) -> String {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
        let mut log = String::new();
        let mut said = self.child.stderr.take().unwrap();
        said.read_to_string(&mut log).unwrap();
        log
    }

    /// Sends a GET request to the admin listener.
    pub async fn admin(&self, path: &str) -> RawResponse {
        let uri = format!("{}{path}", self.admin).parse().unwrap();
        read(super::client().get(uri).await.unwrap()).await
    }

    /// Sends a GET request for JSON to the admin listener.
    pub async fn admin_json(&self, path: &str) -> RawResponse {
        let request =
            http::Request::get(format!("{}{path}", self.admin)).header("accept", "application/json");
        let request = request.body(http_body_util::Full::default()).unwrap();
        read(super::client().request(request).await.unwrap()).await
    }
}

fn with_config<'a>(command: &'a mut Command, config: &Path, state: &Path, level: &str) -> &'a mut Command {
    command
        .args(["serve", "--log-level", level, "--config"])
        .arg(config)
        .arg("--state-dir")
        .arg(state)
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command `baton` with these words, in an environment of nothing but this home directory.
pub fn baton(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command
        .env_clear()
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .args(words);
    command
}

/// Runs `baton` with the words of a line, in a directory that is both its home and its state.
pub fn baton_in(dir: &Path, line: &str) -> Output {
    let mut command = baton(dir, &words(line));
    command.env("PATH", std::env::var("PATH").unwrap_or_default());
    command
        .current_dir(dir)
        .arg("--state-dir")
        .arg(dir)
        .output()
        .unwrap()
}

/// Runs `baton` over this configuration and this state directory.
pub fn baton_over(config: &Path, state: &Path, words: &[&str]) -> Output {
    let mut command = baton(state, words);
    command.arg("--config").arg(config).arg("--state-dir").arg(state);
    command.output().unwrap()
}

/// Makes a FIFO.
pub fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The words of a command line, where quotes keep words together.
pub fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect::<Vec<_>>().concat()
}

/// Checks the exit code of a command, and that it complains in these words.
#[track_caller]
pub fn refused(done: &Output, code: i32, texts: &[&str]) {
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{complaint}");
    for text in texts {
        assert!(complaint.contains(text), "{text}: {complaint}");
    }
}

/// Returns what a command has printed, which must have succeeded.
pub fn printed(done: Output) -> String {
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// The command `baton serve` on free ports with this state directory, ignoring the configuration of this
/// machine's user.
pub fn serve(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--log-level", "error", "--state-dir"])
        .arg(state)
        .env("HOME", state)
        .env("XDG_CONFIG_HOME", state)
        .env_remove("BATON_CONFIG");
    command
}

/// Writes a configuration with this provider as upstream, and further lines. Only rules are appended to
/// carry-over prompts, because most tests check the prompt itself.
pub fn config_for(provider: &Strict, dir: &Path, more: &str) -> PathBuf {
    let file = dir.join("baton.toml");
    let text = format!(
        "server.listen = '127.0.0.1:0'\nadmin.listen = '127.0.0.1:0'\nhandoff.append_missing = 'rules'\n\
         upstreams.anthropic.base_url = '{}'\n{more}",
        provider.url()
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// Returns the response to a conversation, as parsed by an agent on Anthropic Messages.
pub async fn ask(program: &Program, history: &[Value]) -> Message {
    let response = program.sends(history).await;
    assert_eq!(response.status, 200, "{}", response.text());
    Anthropic.parse(&response.raw, true, false).unwrap()
}
