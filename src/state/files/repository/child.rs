//! Programs that are run in a directory: with a time limit, and with nothing of the proxy's environment that they do not need.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Pause between two looks at a child.
const LOOK: Duration = Duration::from_millis(10);

/// Bytes of an output that are read.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// Time for the output of a child that has ended. A process that it left behind may keep the pipe open.
const MAX_REST: Duration = Duration::from_secs(2);

/// Variables that children get. All others stay here: keys of providers and clients are among them.
const PASSED: &[&str] = &["PATH", "HOME", "LANG"];

/// A command with a cleared environment, in a process group of its own.
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
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// The output of a command, if it succeeds in time; a long output is truncated.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Option<String> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take()?;
    let (sender, received) = mpsc::channel();
    // A thread of its own, since a full pipe would stop the child; it ends with the pipe.
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.by_ref().take(MAX_OUTPUT_BYTES).read_to_end(&mut text);
        // A closed pipe would end the child with a failure.
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
    let text = ended
        .filter(|status| status.success())
        .and_then(|_| received.recv_timeout(MAX_REST).ok());
    kill(&mut child, ended.is_none());
    Some(String::from_utf8_lossy(&text?).into_owned())
}

/// Ends a child with all that it started. The group outlives the child only if a process of it is left.
fn kill(child: &mut Child, is_running: bool) {
    if let Some(group) = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if is_running {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The search path without entries that depend on the directory in which a program is run.
fn absolute_paths() -> Option<OsString> {
    let path = std::env::var_os("PATH")?;
    let absolute = std::env::split_paths(&path).filter(|entry| entry.is_absolute());
    std::env::join_paths(absolute).ok()
}
