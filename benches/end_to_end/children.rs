//! The proxies as processes, observed through `/proc`. If there are two cores, they run on a separate one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

/// The proxy between client and upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No proxy.
    Direct,
    /// hyper, streaming.
    Streaming,
    /// hyper, collecting the request.
    Collecting,
    /// A second process of the collecting proxy. The deviation of its ratio from 1 is the error of the other
    /// ratios.
    Twin,
    /// baton with its journal off.
    Baton,
    /// baton as shipped.
    Journal,
    /// baton with neither journal nor documents.
    NoDocuments,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Direct,
        Self::Streaming,
        Self::Collecting,
        Self::Twin,
        Self::Baton,
        Self::Journal,
    ];

    /// The kinds that streams are measured for. The collecting proxy streams responses like the streaming
    /// one.
    pub(crate) const STREAMS: [Self; 4] = [Self::Direct, Self::Streaming, Self::Baton, Self::Journal];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "no proxy",
            Self::Streaming => "hyper, streaming",
            Self::Collecting => "hyper, collecting",
            Self::Twin => "hyper, collecting, twin",
            Self::Baton => "baton, journal off",
            Self::Journal => "baton, journal on",
            Self::NoDocuments => "baton, journal and documents off",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Streaming => "streaming",
            Self::Collecting => "collecting",
            Self::Twin => "twin",
            Self::Baton => "baton",
            Self::Journal => "journal",
            Self::NoDocuments => "no-documents",
        }
    }

    pub(crate) fn is_baton(self) -> bool {
        matches!(self, Self::Baton | Self::Journal | Self::NoDocuments)
    }
}

/// A running proxy, or the upstream itself.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    child: Option<Child>,
    state: Option<TempDir>,
    /// CPU time of each thread at the last reading. Includes ended threads.
    threads: RefCell<HashMap<PathBuf, u64>>,
}

impl Proxy {
    pub(crate) fn start(kind: Kind, upstream: SocketAddr) -> Self {
        Self::start_on(kind, upstream, state(kind))
    }

    /// Starts a proxy on the state that another one left.
    pub(crate) fn start_on(kind: Kind, upstream: SocketAddr, state: Option<TempDir>) -> Self {
        Self::start_under(kind, upstream, state, |program| Command::new(program))
    }

    /// Starts a proxy with additional environment variables.
    pub(crate) fn start_with(
        kind: Kind,
        upstream: SocketAddr,
        state: Option<TempDir>,
        environment: &[(&str, String)],
    ) -> Self {
        Self::start_under(kind, upstream, state, |program| {
            let mut command = Command::new(program);
            command.envs(environment.iter().map(|(name, value)| (name, value)));
            command
        })
    }

    /// Starts a proxy inside another program. `under` gets the path of the executable.
    pub(crate) fn start_counted(kind: Kind, upstream: SocketAddr, under: impl Fn(&Path) -> Command) -> Self {
        Self::start_under(kind, upstream, state(kind), under)
    }

    fn start_under(
        kind: Kind,
        upstream: SocketAddr,
        state: Option<TempDir>,
        under: impl Fn(&Path) -> Command,
    ) -> Self {
        let mut command = match (kind, &state) {
            (Kind::Streaming, _) => pass(under, "stream", upstream),
            (Kind::Collecting | Kind::Twin, _) => pass(under, "collect", upstream),
            (_, Some(state)) => baton(under, kind, state.path(), upstream),
            _ => {
                return Self {
                    addr: upstream,
                    child: None,
                    state: None,
                    threads: RefCell::default(),
                };
            }
        };
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = on_last_core(move || command.spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let addr = line.rsplit('/').next().unwrap().parse().unwrap();
        // The pipe stays open, so that later lines cause no error.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            addr,
            child: Some(child),
            state,
            threads: RefCell::default(),
        }
    }

    /// Returns the process id, if it is a process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn tasks(&self) -> Vec<PathBuf> {
        let Some(pid) = self.pid() else {
            return Vec::new();
        };
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.filter_map(|task| Some(task.ok()?.path())).collect()
    }

    /// Returns the CPU time of all threads so far, including those that have ended.
    pub(crate) fn cpu(&self) -> Duration {
        let mut threads = self.threads.borrow_mut();
        for task in self.tasks() {
            let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
            if let Some(nanos) = nanos {
                threads.insert(task, nanos);
            }
        }
        Duration::from_nanos(threads.values().sum())
    }

    /// Returns the CPU time of all threads once they have nothing left to do.
    ///
    /// Deferred work (the journal's thread) then counts with its cause, and does not disturb the next turn.
    pub(crate) async fn cpu_at_rest(&self) -> Duration {
        let mut last = self.cpu();
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let now = self.cpu();
            if now == last && !self.waits_for_disk() {
                break;
            }
            last = now;
        }
        last
    }

    fn waits_for_disk(&self) -> bool {
        self.tasks().into_iter().any(|task| {
            let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
        })
    }

    /// Returns the resident memory in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let Some(pid) = self.pid() else { return 0 };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Kills the process. Its state stays.
    pub(crate) fn kill(mut self) -> Option<TempDir> {
        self.state.take()
    }

    /// Stops the process and waits for its end.
    pub(crate) fn end(mut self) {
        if let Some(mut child) = self.child.take() {
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn state(kind: Kind) -> Option<TempDir> {
    kind.is_baton().then(|| tempfile::tempdir().unwrap())
}

fn pass(under: impl Fn(&Path) -> Command, how: &str, upstream: SocketAddr) -> Command {
    let mut command = under(&std::env::current_exe().unwrap());
    command.args(["--pass", how, &upstream.to_string()]);
    command
}

fn baton(under: impl Fn(&Path) -> Command, kind: Kind, state: &Path, upstream: SocketAddr) -> Command {
    let built = Path::new(env!("CARGO_BIN_EXE_baton"));
    let mut command = under(BATON.get().map_or(built, PathBuf::as_path));
    command
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--state-dir",
        ])
        .arg(state)
        .env(
            "BATON_UPSTREAMS__ANTHROPIC__BASE_URL",
            format!("http://{upstream}"),
        )
        .env("BATON_JOURNAL__ENABLED", (kind == Kind::Journal).to_string())
        .env(
            "BATON_HANDOFF__DOCUMENTS",
            (kind != Kind::NoDocuments).to_string(),
        );
    command
}

/// An executable that replaces the one built with this bench.
static BATON: OnceLock<PathBuf> = OnceLock::new();

pub(crate) fn use_baton(executable: &str) {
    let _ = BATON.set(PathBuf::from(executable));
}

/// Returns the cores that this process may use.
pub(crate) fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).unwrap();
}

/// Pins this process to the first core, which client and upstream share.
pub(crate) fn pin_to_first_core(cores: &[usize]) {
    if cores.len() > 1 {
        pin(cores[0]);
    }
    let _ = LAST.set(cores.last().copied().filter(|_| cores.len() > 1));
}

static LAST: OnceLock<Option<usize>> = OnceLock::new();

/// Starts a child on the last core. A child inherits the cores of the thread that starts it.
fn on_last_core<T: Send>(start: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Some(Some(core)) = LAST.get() {
                pin(*core);
            }
            start()
        });
        thread.join().unwrap()
    })
}
