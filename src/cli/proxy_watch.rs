//! Starts the proxy that `baton run` has started again if it is killed while an agent works.
//!
//! All runs that share the proxy watch it, and one of them starts the next one (see `sharing`). It has to listen at the same
//! address, because the agents have it. A watch starts nothing in place of a proxy that a signal stopped, or that a user
//! started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::output::Out;
use super::running::{self, Process, RunState};
use super::sharing;
use baton_state::config::Config;

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of starts for one run. A proxy that is killed again and again is not saved by another start.
const MAX_STARTS: usize = 5;

/// The watch over the proxy of one run.
pub(super) struct ProxyWatch {
    /// Dropping it ends the watch.
    stop: mpsc::Sender<()>,
    thread: JoinHandle<WatchedProxy>,
}

/// The proxy as the watch knows it.
struct WatchedProxy {
    proxy: Process,
    state_dir: PathBuf,
    config: Option<PathBuf>,
    /// Address of the proxy's data listener.
    listen: Option<SocketAddr>,
    starts: usize,
    /// Whether the agent has no screen that a line on standard error would disturb.
    is_headless: bool,
    /// Lines for the end of a run whose agent has a screen.
    untold: Vec<String>,
}

impl ProxyWatch {
    /// Begins to watch a proxy that a run has started. `file` is the config file.
    pub(super) fn begin(
        proxy: &Process,
        config: &Config,
        file: Option<PathBuf>,
        is_headless: bool,
    ) -> Option<Self> {
        let mut watched = WatchedProxy {
            proxy: proxy.clone(),
            state_dir: config.state_dir.clone(),
            config: file,
            listen: proxy
                .port()
                .map(|port| SocketAddr::new(config.server.at.listen.ip(), port)),
            starts: 0,
            is_headless,
            untold: Vec::new(),
        };
        let (stop, stopped) = mpsc::channel();
        let watch = move || {
            while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) && watched.check() {}
            watched
        };
        proxy.started_by_run.then(|| Self {
            stop,
            thread: thread::spawn(watch),
        })
    }

    /// Ends the watch after the agent, and returns the proxy that it used last.
    pub(super) fn end(self) -> Process {
        drop(self.stop);
        match self.thread.join() {
            Ok(watched) => {
                // Errors are ignored: the terminal may be closed.
                let _ = Out::stderr().lines(watched.untold);
                watched.proxy
            }
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl WatchedProxy {
    /// Checks the proxy, and starts it again if it was killed. Returns whether to continue.
    fn check(&mut self) -> bool {
        match running::find(&self.state_dir) {
            RunState::Running(Some(found)) if found.pid != self.proxy.pid => self.follow(found),
            RunState::Running(_) => true,
            RunState::Nobody => {
                self.tell(
                    "the proxy was stopped, and the agent's requests fail until one listens there again",
                );
                false
            }
            RunState::Stale(_) if self.starts == MAX_STARTS => {
                self.tell("the proxy was killed again, and is not started any more; its log is serve.log");
                false
            }
            RunState::Stale(_) => {
                self.starts += 1;
                match sharing::proxy(&self.state_dir, self.config.as_deref(), self.listen) {
                    Ok(started) => self.follow(started),
                    Err(failure) => {
                        self.tell(&format!("the proxy was killed: {}", failure.message));
                        false
                    }
                }
            }
        }
    }

    /// Follows the proxy that replaces the one before. Returns whether the agent reaches it.
    fn follow(&mut self, found: Process) -> bool {
        let is_reached = found.data == self.proxy.data;
        self.proxy = found;
        self.tell(match is_reached {
            true => "the proxy was killed, and was started again; its last log is serve.log.old",
            false => "the proxy was killed, and another program listens there now: start the agent again",
        });
        is_reached
    }

    fn tell(&mut self, what: &str) {
        let line = format!("baton: {what}");
        match self.is_headless {
            true => {
                let _ = Out::stderr().line(line);
            }
            false => self.untold.push(line),
        }
    }
}
