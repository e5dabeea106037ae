//! The proxies as processes: started on a core of their own where there are two, watched through `/proc`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What stands between client and upstream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing.
    Direct,
    /// hyper, streaming.
    Pass,
    /// hyper, collecting the request.
    Collect,
    /// baton, as it is shipped.
    Baton,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Pass, Self::Collect, Self::Baton];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "no proxy",
            Self::Pass => "hyper, streaming",
            Self::Collect => "hyper, collecting",
            Self::Baton => "baton",
        }
    }
}

/// A proxy that runs, or the upstream itself.
pub(crate) struct Proxy {
    pub(crate) addr: SocketAddr,
    child: Option<Child>,
    state: Option<tempfile::TempDir>,
}

impl Proxy {
    pub(crate) fn start(kind: Kind, upstream: SocketAddr) -> Self {
        Self::start_with(kind, upstream, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_with(kind: Kind, upstream: SocketAddr, env: &[(&str, &str)]) -> Self {
        let state = (kind == Kind::Baton).then(|| tempfile::tempdir().unwrap());
        Self::start_on(kind, upstream, state, env)
    }

    /// The same once more, on the state that it left.
    pub(crate) fn restart(mut self, kind: Kind, upstream: SocketAddr) -> Self {
        let state = self.state.take();
        drop(self);
        Self::start_on(kind, upstream, state, &[])
    }

    fn start_on(
        kind: Kind,
        upstream: SocketAddr,
        state: Option<tempfile::TempDir>,
        env: &[(&str, &str)],
    ) -> Self {
        let mut command = match (kind, &state) {
            (Kind::Pass, _) => pass("stream", upstream),
            (Kind::Collect, _) => pass("collect", upstream),
            (Kind::Baton, Some(state)) => baton(state.path(), upstream),
            _ => {
                return Self {
                    addr: upstream,
                    child: None,
                    state: None,
                };
            }
        };
        command.envs(env.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = on_last_core(move || command.spawn().unwrap());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let addr = line.rsplit('/').next().unwrap().parse().unwrap();
        // The pipe stays open, so that later lines hurt nobody.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            addr,
            child: Some(child),
            state,
        }
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        let Some(child) = &self.child else {
            return Duration::ZERO;
        };
        let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
        let nanos = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// Resident memory in KiB.
    pub(crate) fn resident(&self) -> u64 {
        let Some(child) = &self.child else { return 0 };
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
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

fn pass(how: &str, upstream: SocketAddr) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--pass", how, &upstream.to_string()]);
    command
}

fn baton(state: &Path, upstream: SocketAddr) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
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
        );
    command
}

/// Cores that this process may use.
pub(crate) fn cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).unwrap();
}

/// Client and upstream share the first core.
pub(crate) fn pin_to_first_core(cores: &[usize]) {
    if cores.len() > 1 {
        pin(cores[0]);
    }
    let _ = LAST.set(cores.last().copied().filter(|_| cores.len() > 1));
}

static LAST: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();

/// A child inherits the cores of the thread that starts it.
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
