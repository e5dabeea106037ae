//! Whether a running proxy serves requests: one request to `/readyz` of its admin listener.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use super::exit::{CommandFailure, Exit};
use super::output::{Out, visible};
use super::running::{self, RunState};

/// How long the listener may take to connect, and to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// `baton doctor --ready`.
pub(super) fn report(state_dir: &Path, out: &mut Out) -> Result<(), CommandFailure> {
    let RunState::Running(process) = running::find(state_dir) else {
        let message = format!("no proxy serves from {}", state_dir.display());
        return Err(Exit::UNAVAILABLE.failure(message).help("start one: baton serve"));
    };
    let answer = match &process {
        Some(process) => check(&process.admin),
        None => Err("the proxy is starting".to_owned()),
    };
    answer.map_err(|problem| Exit::UNAVAILABLE.failure(problem))?;
    out.line("ready")?;
    Ok(())
}

/// Succeeds if the proxy with this admin listener is ready; otherwise its own words, or why it cannot be reached.
pub(super) fn check(admin: &str) -> Result<(), String> {
    let address = admin.trim_start_matches("http://");
    let answer = answer(address).map_err(|error| format!("{admin}: {error}"))?;
    match answer.split_once("\r\n") {
        Some((status, _)) if status.contains(" 200") => Ok(()),
        _ => Err(visible(
            answer.lines().last().unwrap_or("it closed the connection"),
        )),
    }
}

fn answer(address: &str) -> io::Result<String> {
    let stream = requested(address, "/readyz", "")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    stream.take(64 * 1024).read_to_string(&mut answer)?;
    Ok(answer)
}

/// A connection to an admin listener on which a path was requested. `more`: header lines, each with its line break.
pub(super) fn requested(address: &str, path: &str, more: &str) -> io::Result<TcpStream> {
    let resolved: Option<SocketAddr> = address.to_socket_addrs()?.next();
    let resolved = resolved.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&resolved, TIMEOUT)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\n{more}connection: close\r\n\r\n"
    )?;
    Ok(stream)
}
