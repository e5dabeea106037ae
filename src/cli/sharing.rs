//! A proxy that several `baton run`s share. The first run starts it, and it stops after the last one.
//!
//! Three lock files in the state directory coordinate them. The kernel releases a lock when its process ends,
//! for whatever reason.
//!
//! * `serving.lock` is held by the proxy (see `running`).
//! * `agents.lock` is held shared by each `baton run` while its agent runs. A proxy that a run has started
//!   waits to lock it exclusively, which succeeds once no run holds it. The proxy then keeps the lock and
//!   stops. So a run that holds the shared lock can rely on the proxy. A run that arrives while the proxy
//!   stops waits, and then starts a new one.
//! * `starting.lock` is held while a run looks for a proxy and starts it, so that runs that begin together
//!   start only one.

use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use tokio::sync::oneshot;

use super::exit::{CliResult, CommandFailure, Exit};
use super::output::visible;
use super::running::{self, Process, RunState};
use baton_state::disk::private_file;
use baton_state::files::runs::{self, STARTED};
use baton_state::store::make_dir;

/// Limits the memory that glibc keeps after parallel handoffs: one arena for each of two threads, and not eight for each
/// processor.
const ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

const AGENTS: &str = "agents.lock";
const STARTING: &str = "starting.lock";

/// The directory of the config files that are made for one run.
const RUNS: &str = "run-configs";

/// Beginning of the name of each run's directory in it.
const RUN: &str = "run-";

/// The log of a proxy in the background, and the log of the previous one.
const LOG: &str = "serve.log";
const LOG_BEFORE: &str = "serve.log.old";

/// Time for a proxy to become ready. Opening a database after a crash takes longest.
const READY_TIME: Duration = Duration::from_secs(20);

/// Time for a stopping proxy to end: open streams get [`DRAIN`], then the journal is written.
const GONE_TIME: Duration = Duration::from_secs(12);

/// Time for open streams to end when no agent is left to read them.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(15);

/// Lines of the log that a failed start shows.
const LAST_LINES: usize = 12;

/// Shared lock of one run. The proxy keeps running while it is held.
pub(super) struct ProxyLease {
    dir: PathBuf,
    lock: File,
}

impl ProxyLease {
    /// Takes the shared lock. Waits until a proxy that is stopping has ended.
    pub(super) fn begin(dir: &Path) -> CliResult<Self> {
        make_dir(dir).map_err(|error| Exit::CANNOT_CREATE.failure(error.to_string()))?;
        let lock = open(dir, AGENTS)?;
        let began = Instant::now();
        loop {
            // The lock is free, so neither a run nor a proxy started by one is left. Files that killed runs have left can
            // be removed.
            if lock.try_lock().is_ok() {
                remove_made(&dir.join(RUNS), |name| name.starts_with(RUN));
                remove_made(&dir.join(STARTED), runs::is_note);
                lock.unlock().map_err(|error| unlockable(dir, &error))?;
            }
            match lock.try_lock_shared() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if began.elapsed() < GONE_TIME => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let message = "the last proxy is still stopping";
                    return Err(Exit::UNAVAILABLE.with_help(message, "try again in a moment"));
                }
                Err(TryLockError::Error(error)) => return Err(unlockable(dir, &error)),
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            lock,
        })
    }

    /// Creates a directory for the files of this run. Dropping it deletes them.
    pub(super) fn directory(&self) -> io::Result<tempfile::TempDir> {
        let runs = self.dir.join(RUNS);
        make_dir(&runs).map_err(io::Error::other)?;
        tempfile::Builder::new().prefix(RUN).tempdir_in(runs)
    }

    /// Records the working directory of a run at its start.
    pub(super) fn note(&self, run: uuid::Uuid) -> io::Result<()> {
        make_dir(&self.dir.join(STARTED)).map_err(io::Error::other)?;
        runs::note(&self.dir, run, &std::env::current_dir()?)
    }

    /// Releases the lock. Returns whether the journal is complete.
    ///
    /// The last run waits until the proxy that a run started has ended, so that the journal is complete when
    /// the command returns. A proxy that continues may still have something to write.
    pub(super) fn leave(self, proxy: &Process) -> bool {
        // Succeeds only if no other run holds the lock.
        let last = self.lock.try_lock().is_ok();
        drop(self.lock);
        let began = Instant::now();
        while last && proxy.started_by_run && began.elapsed() < GONE_TIME {
            match running::find(&self.dir) {
                RunState::Running(Some(found)) if found.pid == proxy.pid => {}
                // The proxy writes its journal before it releases the lock, which it keeps to its end.
                _ if is_unlocked(&self.dir) => return true,
                _ => {}
            }
            thread::sleep(PAUSE);
        }
        false
    }
}

/// Removes the entries of a directory that baton has made, then the directory if it is empty.
///
/// The state directory may be one that other programs use.
fn remove_made(dir: &Path, is_made: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().to_str().is_some_and(&is_made) {
            let path = entry.path();
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
    let _ = fs::remove_dir(dir);
}

/// Whether no proxy that is stopping holds the lock of the runs.
fn is_unlocked(dir: &Path) -> bool {
    lock_file(dir, AGENTS).is_ok_and(|lock| lock.try_lock_shared().is_ok())
}

/// Finds the proxy that serves from the state directory, or starts one in the background. Waits until it is
/// ready.
///
/// `config` is the config file, if there is one. A new proxy listens at `listen`, else at the configured address,
/// or at a free port. Call it while a [`ProxyLease`] is alive.
pub(super) fn proxy(dir: &Path, config: Option<&Path>, listen: Option<SocketAddr>) -> CliResult<Process> {
    let starting = open(dir, STARTING)?;
    // Held until this function returns, so that runs that begin together start one proxy.
    starting.lock().map_err(|error| unlockable(dir, &error))?;
    let (began, mut started, mut why) = (Instant::now(), None, "it does not report its address".to_owned());
    while began.elapsed() < READY_TIME {
        match running::find(dir) {
            RunState::Running(Some(process)) => match running::check_ready(&process) {
                Ok(()) => return Ok(process),
                Err(reason) => why = reason,
            },
            // The addresses are not written yet.
            RunState::Running(None) => {}
            RunState::Stale(_) | RunState::Nobody => match &mut started {
                None => started = Some(in_background(dir, config, listen)?),
                // If another `baton serve` was faster, this one ends and the other is found.
                Some(child) => ended(child, dir)?,
            },
        }
        thread::sleep(PAUSE);
    }
    if let Some(mut child) = started {
        // A proxy that no run can use must not keep running.
        let _ = child.kill();
        let _ = child.wait();
    }
    let message = format!("the proxy is not ready after {} s: {why}", READY_TIME.as_secs());
    Err(Exit::UNAVAILABLE.with_help(
        format!("{message}{}", last_lines(dir)),
        "`baton doctor` shows which process serves; stop it, or find out why it is not ready",
    ))
}

fn in_background(dir: &Path, config: Option<&Path>, listen: Option<SocketAddr>) -> CliResult<Child> {
    let failed = |error: io::Error| {
        Exit::UNAVAILABLE.with_help(
            format!("failed to start the proxy: {error}"),
            "start `baton serve` in another terminal, and run this again",
        )
    };
    let log = dir.join(LOG);
    // Ignored: before the first start there is no log to rename.
    let _ = fs::rename(&log, dir.join(LOG_BEFORE));
    let log = private_file().create(true).truncate(true).open(log);
    let log = log.map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["serve", "--for-agents", "--state-dir"]).arg(dir);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    if let Some(listen) = listen {
        command.arg("--listen").arg(listen.to_string());
    }
    if std::env::var_os(ARENAS.0).is_none() {
        command.env(ARENAS.0, ARENAS.1);
    }
    let errors = log.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    command.spawn().map_err(failed)
}

/// Fails with the last lines of the log if the process has ended.
fn ended(child: &mut Child, dir: &Path) -> CliResult {
    let Ok(Some(status)) = child.try_wait() else {
        return Ok(());
    };
    // Another `baton serve` was faster.
    if matches!(running::find(dir), RunState::Running(_)) {
        return Ok(());
    }
    let message = format!("failed to start the proxy: {status}{}", last_lines(dir));
    Err(Exit::UNAVAILABLE.with_help(message, format!("the full log is {}", dir.join(LOG).display())))
}

/// Last lines of the log, each after a line break.
fn last_lines(dir: &Path) -> String {
    let text = fs::read(dir.join(LOG)).unwrap_or_default();
    let text = visible(&String::from_utf8_lossy(&text));
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}

/// Completes when no run holds the lock. New runs then wait until this process has ended.
pub(super) async fn unused(dir: &Path) {
    let (sender, received) = oneshot::channel();
    let file = lock_file(dir, AGENTS);
    // On a thread, because the wait blocks and must not keep the process from ending.
    thread::spawn(move || {
        let locked = file.and_then(|file| file.lock().map(|()| file));
        let _ = sender.send(locked);
    });
    // If files cannot be locked here, the run that started this proxy has failed as well.
    if let Ok(Ok(file)) = received.await {
        // Held until the process ends.
        std::mem::forget(file);
    }
}

/// Detaches from the terminal. Signals from it are for the agent, and other agents continue when it is
/// closed.
pub(super) fn detach() {
    // Fails only for a process that leads a group already. Such a process is not in the terminal's foreground
    // and gets no signals from it.
    let _ = rustix::process::setsid();
}

fn open(dir: &Path, name: &str) -> CliResult<File> {
    lock_file(dir, name).map_err(|error| unlockable(dir, &error))
}

fn lock_file(dir: &Path, name: &str) -> io::Result<File> {
    private_file().create(true).truncate(false).open(dir.join(name))
}

fn unlockable(dir: &Path, error: &io::Error) -> CommandFailure {
    let message = format!("failed to lock a file in {}: {error}", dir.display());
    let help = "choose another directory with --state-dir or `state.dir`";
    Exit::CANNOT_CREATE.with_help(message, help)
}
