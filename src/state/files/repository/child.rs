//! Runs programs in a directory, with a time limit and only the environment variables that they need.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Interval between two polls of a child.
const LOOK: Duration = Duration::from_millis(10);

/// Maximum bytes read of a child's output.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// Time limit for reading the output after a child has ended. A process that it left running may keep the
/// pipe open.
const MAX_REST: Duration = Duration::from_secs(2);

/// Variables passed to children. All others are withheld, because they include keys of providers and clients.
const PASSED: &[&str] = &["PATH", "HOME", "LANG"];

/// Returns a command with a cleared environment, in its own process group.
pub(crate) fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env_clear().stdin(Stdio::null());
    for name in PASSED {
        let value = match *name {
            "PATH" => absolute_paths(),
            name => std::env::var_os(name),
        };
        command.envs(value.map(|value| (*name, value)));
    }
    // With its own group, everything that the program started can be killed with it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// Runs a command and returns its output if it succeeds in time. Long output is truncated.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Option<String> {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, received) = mpsc::channel();
    // A separate thread reads, since a full pipe would stop the child. The thread ends when the pipe closes.
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.by_ref().take(MAX_OUTPUT_BYTES).read_to_end(&mut text);
        // The rest is read and discarded: a closed pipe would make the child fail.
        let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        let _ = sender.send(text);
    });
    let until = Instant::now() + limit;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            _ => break None,
        }
    };
    let succeeded = ended.filter(|status| status.success());
    let text = succeeded.and_then(|_| received.recv_timeout(MAX_REST).ok());
    kill(&mut child, ended.is_none());
    Some(String::from_utf8_lossy(&text?).into_owned())
}

/// Kills a child and everything that it started.
///
/// After the child has ended, its process group exists only if one of the processes that it started is left.
fn kill(child: &mut Child, is_running: bool) {
    if let Some(group) = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if is_running {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns the search path without relative entries.
///
/// A relative entry would let the directory supply the program that runs in it.
fn absolute_paths() -> Option<OsString> {
    let path = std::env::var_os("PATH")?;
    let absolute = std::env::split_paths(&path).filter(|entry| entry.is_absolute());
    std::env::join_paths(absolute).ok()
}
