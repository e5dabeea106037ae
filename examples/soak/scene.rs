//! A phase of the soak: its processes, its store, and its environment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::harness::redis::{self, RedisServer};
use crate::ledger::Ledger;
use crate::places::{Clock, Disk};
use crate::process::{Process, Setup};

/// Processes over one Redis server.
const REPLICAS: usize = 3;

/// The models of the suite's agents, with a window that a conversation fills.
const WINDOWS: &str =
    "{ claude-strict = 9000, gpt-strict = 9000, gemini-strict = 9000, llama-strict = 9000 }";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Phase {
    /// One process over SQLite that is killed.
    Kills,
    /// One process over SQLite whose disk is full at times, and whose clock jumps.
    Disk,
    /// Three replicas over Redis.
    Replicas,
}

impl Phase {
    pub const ALL: [Self; 3] = [Self::Kills, Self::Disk, Self::Replicas];
}

pub struct Scene {
    pub phase: Phase,
    pub config: ConfigFile,
    pub state: PathBuf,
    pub redis: Option<Mutex<RedisServer>>,
    pub clock: Option<Clock>,
    processes: Mutex<Vec<Process>>,
    /// Dropped after the processes.
    pub disk: Option<Disk>,
    _dir: tempfile::TempDir,
}

/// The config of all processes of a scene; each also has a port of its own.
pub struct ConfigFile {
    dir: PathBuf,
    upstream: String,
    store: String,
    ports: Vec<u16>,
}

impl ConfigFile {
    fn file(&self, at: usize) -> PathBuf {
        self.dir.join(format!("{at}.toml"))
    }

    /// Writes it anew with these thresholds; a running process reads it on SIGHUP.
    pub fn write(&self, nudge_at: f64, auto_at: f64) -> std::io::Result<()> {
        for (at, port) in self.ports.iter().enumerate() {
            let mut text = format!(
                "server.listen = '127.0.0.1:{port}'\nserver.drain_secs = 3\nadmin.listen = '127.0.0.1:0'\n\
                 handoff.nudge_at = {nudge_at}\nhandoff.auto_at = {auto_at}\nhandoff.windows = {WINDOWS}\n\
                 handoff.seal_key = 'soak-soak-soak-soak-soak-soak-soak'\nhandoff.keepalive_secs = 2\n\
                 journal.max_bytes = 8388608\nlimits.request_buffer_bytes = 65536\n{}\n",
                self.store
            );
            for name in ["anthropic", "openai", "gemini", "ollama"] {
                text.push_str(&format!("upstreams.{name}.base_url = '{}'\n", self.upstream));
            }
            std::fs::write(self.file(at), text)?;
        }
        Ok(())
    }

    /// Writes one that is wrong.
    pub fn spoil(&self) -> std::io::Result<()> {
        (0..self.ports.len())
            .try_for_each(|at| std::fs::write(self.file(at), "handoff.nudge_at = 'always'\n"))
    }
}

impl Scene {
    /// Starts its processes. `None`: something that it needs is not installed, which is noted.
    pub fn start(
        phase: Phase,
        program: &Path,
        upstream: String,
        ledger: &Arc<Ledger>,
    ) -> Result<Option<Self>, String> {
        let failed = |error: std::io::Error| error.to_string();
        let dir = tempfile::tempdir().map_err(failed)?;
        let (mut disk, mut clock, mut server) = (None, None, None);
        match phase {
            Phase::Kills => {}
            Phase::Disk => {
                disk = Some(Disk::new(dir.path()).map_err(failed)?);
                if let Some(Disk::Limited(_)) = &disk {
                    ledger.skipped("a full file system: nothing can be mounted here, so a limit on the size of files stands for it");
                }
                clock = Clock::new(dir.path());
                if clock.is_none() {
                    ledger.skipped(
                        "clock jumps: libfaketime is not installed (on Debian: apt-get install faketime)",
                    );
                }
            }
            Phase::Replicas if redis::program().is_none() => {
                ledger.skipped("the phase over Redis: no redis-server or valkey-server on the PATH");
                return Ok(None);
            }
            Phase::Replicas => server = Some(RedisServer::durable()),
        }
        let count = if phase == Phase::Replicas { REPLICAS } else { 1 };
        let config = ConfigFile {
            dir: dir.path().to_owned(),
            upstream,
            store: server.as_ref().map_or_else(String::new, |server: &RedisServer| {
                format!("store.kind = 'redis'\nstore.url = '{}'", server.url())
            }),
            ports: (0..count).map(|_| redis::free_port()).collect(),
        };
        config.write(0.3, 0.7).map_err(failed)?;
        let state = disk.as_ref().map_or(dir.path(), |disk| disk.dir()).join("state");
        let mut processes: Vec<Process> = Vec::new();
        for (at, port) in config.ports.iter().enumerate() {
            processes.push(Process::new(Setup {
                name: match phase {
                    Phase::Kills => "SQLite, kills".to_owned(),
                    Phase::Disk => "SQLite, disk".to_owned(),
                    Phase::Replicas => format!("Redis, {}", at + 1),
                },
                program,
                dir: dir.path(),
                state: if count == 1 {
                    state.clone()
                } else {
                    state.join(at.to_string())
                },
                config: config.file(at),
                port: *port,
                environment: clock.as_ref().map(Clock::environment).unwrap_or_default(),
                ledger: Arc::clone(ledger),
            }));
        }
        for process in &mut processes {
            process.start()?;
        }
        Ok(Some(Self {
            phase,
            config,
            state,
            redis: server.map(Mutex::new),
            clock,
            processes: Mutex::new(processes),
            disk,
            _dir: dir,
        }))
    }

    pub fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
