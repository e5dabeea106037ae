//! The real `baton serve` in a process of its own, which is killed, stopped and started again on the same ports and state.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::ledger::{Disturbance, Ledger};

/// Until it listens, or has ended after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Process {
    pub name: String,
    pub url: String,
    program: PathBuf,
    config: PathBuf,
    state: PathBuf,
    log: PathBuf,
    environment: Vec<(String, String)>,
    ledger: Arc<Ledger>,
    child: Option<Child>,
}

/// Where and what to start.
pub struct Setup<'a> {
    pub name: String,
    pub program: &'a Path,
    pub dir: &'a Path,
    pub state: PathBuf,
    pub config: PathBuf,
    pub port: u16,
    pub environment: Vec<(String, String)>,
    pub ledger: Arc<Ledger>,
}

impl Process {
    pub fn new(setup: Setup<'_>) -> Self {
        Self {
            url: format!("http://127.0.0.1:{}", setup.port),
            log: setup.dir.join(format!("{}.log", setup.name)),
            name: setup.name,
            program: setup.program.to_owned(),
            config: setup.config,
            state: setup.state,
            environment: setup.environment,
            ledger: setup.ledger,
            child: None,
        }
    }

    /// Starts it and waits until it listens. SIGXFSZ is ignored, so that a limit on files is an error and no signal.
    pub fn start(&mut self) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| format!("{}: {error}", self.log.display()))?;
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(&self.program)
            .args(["serve", "--log-level", "warn", "--config"])
            .arg(&self.config)
            .arg("--state-dir")
            .arg(&self.state)
            .env("HOME", &self.state)
            .env_remove("BATON_CONFIG")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("no output")?;
        self.child = Some(child);
        let (ready, listens) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.starts_with("admin on ") {
                    let _ = ready.send(());
                }
            }
        });
        match listens.recv_timeout(PATIENCE) {
            Ok(()) => Ok(()),
            Err(_) => Err(format!(
                "{} does not start; see {}",
                self.name,
                self.log.display()
            )),
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.as_ref().map(Pid::from_child) {
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGKILL, and the next start.
    pub fn kill_and_restart(&mut self) -> Result<(), String> {
        self.ledger.disturb(Disturbance::Process);
        self.kill();
        let started = self.start();
        self.ledger.calm(Disturbance::Process);
        started
    }

    /// SIGTERM, its end within the drain, and the next start.
    pub fn stop_and_restart(&mut self) -> Result<(), String> {
        self.ledger.disturb(Disturbance::Process);
        self.stop();
        let started = self.start();
        self.ledger.calm(Disturbance::Process);
        started
    }

    /// SIGTERM; one that does not end, or ends badly, is a violation.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let began = Instant::now();
        while let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => self.child = None,
                Ok(Some(status)) => {
                    self.ledger.violation(
                        "bad end",
                        format!("{} ended with {status} after SIGTERM", self.name),
                    );
                    self.child = None;
                }
                _ if began.elapsed() > PATIENCE => {
                    self.ledger
                        .violation("bad end", format!("{} does not end after SIGTERM", self.name));
                    self.kill();
                }
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Its end at the end of the soak.
    pub fn finish(&mut self) {
        self.stop();
        self.read_log();
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// One that has ended by itself is a violation, and is started again.
    pub fn revive(&mut self) -> Result<(), String> {
        let ended = self
            .child
            .as_mut()
            .and_then(|child| child.try_wait().ok().flatten());
        let Some(status) = ended else { return Ok(()) };
        self.ledger
            .violation("died", format!("{} ended by itself: {status}", self.name));
        self.child = None;
        self.kill_and_restart()
    }

    /// Looks for panics.
    fn read_log(&self) {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        for line in text.lines().filter(|line| line.contains("panicked")) {
            self.ledger.violation("panic", format!("{}: {line}", self.name));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
