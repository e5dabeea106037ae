//! Runs a program on the terminal, with its exit code and with signals as if it had been started directly.
//!
//! The program stays in this process's group. Signals from the terminal (Ctrl-C, Ctrl-Z, a new size, a hangup) go to
//! the whole group, so the program gets them anyway. Signals that another process sends only to this process are
//! passed on. The origin of a signal distinguishes the two. When the program stops, this process stops as well, so that the
//! shell takes the terminal back; when this process is continued, it continues the program.

use std::process::Command;
use std::{io, thread};

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use signal_hook::consts::signal::{
    SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// Added to a signal's number for the exit code of a program that the signal ended, as shells do.
const SIGNALLED: i32 = 128;

/// Signals that are passed on to the program.
const PASSED: [i32; 11] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGWINCH,
];

/// Runs the program and returns its exit code; 128 plus the signal's number if a signal ended it.
///
/// # Errors
/// The program cannot be started.
pub(super) fn run(command: &mut Command) -> io::Result<u8> {
    // The handlers are installed before the start, so that no signal ends this process and leaves the program. Ignored
    // signals (`nohup`) get no handler: the program inherits that they are ignored.
    let early = ignored().map(listen).transpose()?;
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the process has no id"))?;
    let mut signals = match early {
        Some(signals) => signals,
        None => listen(0)?,
    };
    thread::spawn(move || {
        for origin in &mut signals {
            if is_for_us_alone(&origin, pid)
                && let Some(signal) = Signal::from_named_raw(origin.signal)
            {
                // Fails only if the program has ended.
                let _ = kill_process(pid, signal);
            }
        }
    });
    wait(pid)
}

/// Signals that this process ignores, one bit each, with signal 1 in the lowest bit; `None` if the system
/// does not tell.
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

fn listen(ignored: u64) -> io::Result<SignalsInfo<WithOrigin>> {
    SignalsInfo::new(
        PASSED
            .into_iter()
            .filter(|signal| ignored >> (signal - 1) & 1 == 0),
    )
}

/// Whether the signal was sent to this process only. The kernel and the program itself send to the group.
fn is_for_us_alone(origin: &Origin, program: Pid) -> bool {
    match origin.process {
        None => false,
        // A sender outside the container has no id here.
        Some(sender) if sender.pid == 0 => matches!(origin.cause, Cause::Sent(_)),
        Some(sender) => sender.pid != program.as_raw_nonzero().get(),
    }
}

fn wait(pid: Pid) -> io::Result<u8> {
    loop {
        let status = match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if status.stopped() {
            // Stopped like the program, so that the shell sees a stopped job. `fg` and SIGCONT continue with
            // the next line.
            let _ = kill_process(getpid(), Signal::STOP);
            let _ = kill_process(pid, Signal::CONT);
        } else if let Some(signal) = status.terminating_signal() {
            return Ok(u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX));
        } else if let Some(code) = status.exit_status() {
            return Ok(u8::try_from(code).unwrap_or(u8::MAX));
        }
    }
}
