//! Finds the proxy that serves from a state directory, and its addresses.
//!
//! The proxy holds a file lock for its lifetime and writes its addresses into a second file. The lock ends
//! with the process in any case. Addresses without a lock were therefore left by a killed process, and a
//! reused process id cannot be mistaken for it.

use std::fs::{self, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;

use super::exit::{CliResult, Exit};
use super::output::{Out, shown, visible};
use baton_core::marker::note;
use baton_core::text::units::hex;
use baton_serve::admin::pinned_tls;
use baton_state::config::{Config, Environment, Secret};
use baton_state::disk::{self, private_file};
use baton_state::store::make_dir;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the lock file, which is empty.
const LOCK: &str = "serving.lock";

/// Name of the file with the addresses.
const FILE: &str = "serving.json";

/// Attempts to take the lock. Several, because a status check holds it for a moment.
const TRIES: u32 = 10;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Timeout of the admin listener for a connection, and for its response.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A running proxy. The field names are public API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// URL of the data listener.
    pub(super) data: String,
    /// URL of the admin listener.
    pub(super) admin: String,
    /// File with the certificate of the admin listener, if it speaks HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) admin_certificate: Option<PathBuf>,
    pub(super) version: String,
    /// Start time in milliseconds since the Unix epoch.
    pub(super) started_ms: u64,
    /// Whether `baton run` started it; it then stops with the last agent.
    pub(super) started_by_run: bool,
}

impl Process {
    /// Port of the data listener.
    pub(super) fn port(&self) -> Option<u16> {
        self.data.rsplit_once(':')?.1.parse().ok()
    }
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Claim {
    #[serde(flatten)]
    process: Process,
    /// Empty if the file does not state it.
    #[serde(default)]
    started_with: StartedWith,
}

/// Claim of this process on a state directory, locked while the process serves.
pub(super) struct StateDirLock {
    dir: PathBuf,
    _lock: fs::File,
}

impl StateDirLock {
    /// Registers this process in `dir`; `None` if another one is registered.
    pub(super) fn from_process(
        dir: &Path,
        process: Process,
        started_with: StartedWith,
    ) -> io::Result<Option<Self>> {
        make_dir(dir).map_err(io::Error::other)?;
        let lock = disk::open_regular(&dir.join(LOCK), private_file().create(true).truncate(false))?;
        if !disk::lock_within(&lock, PAUSE * TRIES, PAUSE)? {
            return Ok(None);
        }
        let text = serde_json::to_vec(&Claim {
            process,
            started_with,
        })?;
        disk::replace_locked(&dir.join(FILE), &text)?;
        Ok(Some(Self {
            dir: dir.to_owned(),
            _lock: lock,
        }))
    }
}

impl Drop for StateDirLock {
    fn drop(&mut self) {
        // The lock is released after this. Errors are ignored: if the directory is gone, so is the file.
        let _ = fs::remove_file(self.dir.join(FILE));
    }
}

/// Whether a proxy serves from a state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunState {
    /// A proxy is running; `None` until it has written its addresses.
    Running(Option<Process>),
    /// No proxy is running. This one was killed.
    Stale(Process),
    /// No proxy is running, and none was killed.
    Nobody,
}

/// Checks a state directory without changing it.
pub(super) fn find(dir: &Path) -> RunState {
    let recorded = || claim(dir).map(|claim| claim.process);
    let Ok(lock) = disk::open_named(&dir.join(LOCK)) else {
        return recorded().map_or(RunState::Nobody, RunState::Stale);
    };
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => RunState::Running(recorded()),
        // If files cannot be locked here, no process can hold a lock.
        Ok(()) | Err(TryLockError::Error(_)) => recorded().map_or(RunState::Nobody, RunState::Stale),
    }
}

/// Returns the settings that the last proxy of a state directory was started with.
pub(super) fn started_with(dir: &Path) -> StartedWith {
    claim(dir).map(|claim| claim.started_with).unwrap_or_default()
}

fn claim(dir: &Path) -> Option<Claim> {
    serde_json::from_str(&disk::read_named(&dir.join(FILE)).ok()?).ok()
}

/// Returns the proxy that serves from a state directory, if it listens on this address.
pub(super) fn serving_at(dir: &Path, address: SocketAddr) -> Option<Process> {
    let RunState::Running(Some(process)) = find(dir) else {
        return None;
    };
    let address = address.to_string();
    let urls = [&process.data, &process.admin];
    // Both URLs end with the address, whatever their scheme.
    urls.iter().any(|url| url.ends_with(&address)).then_some(process)
}

/// The URL of a data listener at this address.
pub(super) fn url(config: &Config, address: SocketAddr) -> String {
    format!("{}://{address}", config.server.at.scheme())
}

/// The URL of an admin listener at this address.
pub(super) fn admin_url(config: &Config, address: SocketAddr) -> String {
    format!("{}://{address}", config.admin.at.scheme())
}

/// An address at which this machine reaches a listener.
pub(super) fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Binds an address. With `any_port`, falls back to a free port if the wanted one is in use.
pub(super) async fn listen(wanted: SocketAddr, any_port: bool) -> io::Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Err(error) if any_port && error.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind((wanted.ip(), 0)).await
        }
        bound => bound,
    }
}

/// Runs `baton doctor --ready`.
pub(super) fn report_ready(state_dir: &Path, out: &mut Out) -> CliResult {
    let RunState::Running(process) = find(state_dir) else {
        let message = format!("no proxy serves from {}", state_dir.display());
        return Err(Exit::UNAVAILABLE.with_help(message, "start one: baton serve"));
    };
    let answer = match &process {
        Some(process) => check_ready(process),
        None => Err("the proxy is starting".to_owned()),
    };
    answer.map_err(|problem| Exit::UNAVAILABLE.failure(problem))?;
    out.line("ready")
}

/// Checks whether a proxy is ready.
///
/// # Errors
/// The explanation of the proxy itself, or the reason why it cannot be reached.
pub(super) fn check_ready(proxy: &Process) -> Result<(), String> {
    let answer = health(proxy, "")?;
    match answer.split_once("\r\n") {
        Some((status, _)) if status.contains(" 200") => Ok(()),
        // The last line is the body, which explains why the proxy is not ready.
        _ => Err(visible(
            answer.lines().last().unwrap_or("it closed the connection"),
        )),
    }
}

/// Returns the name of each dependency that fails for a proxy, and whether requests need it.
///
/// # Errors
/// The reason why the proxy cannot be asked.
pub(super) fn failed_checks(proxy: &Process) -> Result<Vec<(String, bool)>, String> {
    let answer = health(proxy, "accept: application/json\r\n")?;
    let report = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let report: Value =
        serde_json::from_str(report.trim()).map_err(|error| format!("{}: {error}", proxy.admin))?;
    if report["stopping"] == true {
        return Err("the proxy is stopping".to_owned());
    }
    let checks = report["checks"].as_array().into_iter().flatten();
    let failed = checks.filter(|check| check["state"] == "failed");
    let named = failed.map(|check| {
        (
            check["name"].as_str().unwrap_or_default().to_owned(),
            check["required"] == true,
        )
    });
    Ok(named.collect())
}

/// Requests `/readyz`, with further header lines. Returns the whole response.
fn health(proxy: &Process, more: &str) -> Result<String, String> {
    let read = || {
        let stream = requested(proxy, "/readyz", more, Some(TIMEOUT))?;
        let mut answer = String::new();
        // Another program may listen there by now, and send without end.
        stream.take(64 * 1024).read_to_string(&mut answer)?;
        Ok(answer)
    };
    read().map_err(|error: io::Error| format!("{}: {error}", proxy.admin))
}

/// Connects to an admin listener and requests a path. `more` holds header lines, each with its line break.
fn requested(
    proxy: &Process,
    path: &str,
    more: &str,
    timeout: Option<Duration>,
) -> io::Result<Box<dyn Read + Send>> {
    let (_, address) = proxy.admin.split_once("://").unwrap_or_default();
    let resolved: Option<SocketAddr> = address.to_socket_addrs()?.next();
    let resolved = resolved.ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&resolved, TIMEOUT)?;
    stream.set_read_timeout(timeout)?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{more}connection: close\r\n\r\n");
    let Some(chain) = &proxy.admin_certificate else {
        stream.write_all(head.as_bytes())?;
        return Ok(Box::new(stream));
    };
    let mut stream = pinned_tls::connect(stream, chain, resolved.ip())?;
    stream.write_all(head.as_bytes())?;
    Ok(Box::new(stream))
}

/// Reports on standard error whenever a model begins a draft for this run, until the process ends.
///
/// An agent without a screen prints its output only at its end, so the user would see nothing meanwhile.
pub(super) fn tell_drafts(proxy: &Process, token: Option<&Secret>, run: &str) {
    let token = token.map(|token| format!("authorization: Bearer {}\r\n", token.reveal()));
    let events = requested(proxy, "/api/events", &token.unwrap_or_default(), None);
    // Not an error: the agent runs in any case.
    let Ok(events) = events else { return };
    let event = format!("data: {{\"run\":\"{run}\"}}");
    // Without a read timeout, because the next event may be hours away.
    thread::spawn(move || -> CliResult {
        for line in BufReader::new(events).lines() {
            if line? == event {
                Out::stderr().line(note::PROGRESS)?;
            }
        }
        Ok(())
    });
}

/// Variables outside the config that decide where requests go, and which certificates are valid.
const NETWORK: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The variable of `state.dir`. Runs that find the same proxy have the same directory, however they name it.
const STATE_DIR: &str = "BATON_STATE__DIR";

/// The config file of a process, and the variables of its environment that change its behaviour.
///
/// The first run starts the shared proxy in its own environment, and that decides where the credentials of later runs go.
/// A repository may set that environment, so a run with other settings must not use the proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartedWith {
    config: Option<PathBuf>,
    /// Variables, each with a digest of its value, which may be a secret.
    variables: BTreeMap<String, String>,
}

impl StartedWith {
    /// The settings of this process, whose config was loaded from `file`.
    pub(super) fn of_process(config: &Config, file: Option<&Path>) -> Self {
        let environment = Environment::of_process();
        let names = config.variables.iter().map(String::as_str);
        let names = names.chain(NETWORK.iter().copied());
        let set = names.filter(|name| *name != STATE_DIR).filter_map(|name| {
            let digest = Secret::new(environment.get(name)?).digest();
            Some((name.to_owned(), hex(&digest)))
        });
        Self {
            config: file.and_then(|file| std::path::absolute(file).ok()),
            variables: set.collect(),
        }
    }

    /// Checks that a run with these settings may use a proxy that another run started with `proxy`.
    ///
    /// # Errors
    /// Names every difference, but no value.
    pub(super) fn check(&self, proxy: &Self) -> CliResult {
        let names: BTreeSet<_> = self.variables.keys().chain(proxy.variables.keys()).collect();
        let differences = names.into_iter().filter_map(|name| {
            let (own, theirs) = (self.variables.get(name), proxy.variables.get(name));
            let difference = match (own, theirs) {
                _ if own == theirs => return None,
                (Some(_), Some(_)) => "another",
                (Some(_), None) => "without",
                (None, _) => "with",
            };
            Some(format!("{difference} {}", visible(name)))
        });
        let mut differences: Vec<_> = differences.collect();
        if self.config != proxy.config {
            let file = proxy.config.as_deref().map_or("no config file".to_owned(), shown);
            differences.push(format!("with {file}"));
        }
        if differences.is_empty() {
            return Ok(());
        }
        let message = format!(
            "another run started the proxy with other settings: {}",
            differences.join(", ")
        );
        let help = "this run's requests and credentials would go where those settings say: end the other runs first, or keep this one apart with --state-dir";
        Err(Exit::CONFIG.with_help(message, help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_is_distinguished_from_a_killed_one() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("state");
        assert_eq!(find(&dir), RunState::Nobody);
        let process = Process {
            pid: 7,
            data: "http://127.0.0.1:1".into(),
            admin: "http://127.0.0.1:2".into(),
            admin_certificate: None,
            version: "0".into(),
            started_ms: 3,
            started_by_run: false,
        };
        assert_eq!(process.port(), Some(1));
        let lock = || StateDirLock::from_process(&dir, process.clone(), StartedWith::default());
        let claim = lock().unwrap().unwrap();
        assert_eq!(find(&dir), RunState::Running(Some(process.clone())));
        assert!(lock().unwrap().is_none(), "one at a time");
        drop(claim);
        assert_eq!(find(&dir), RunState::Nobody);
        // The files that a killed process leaves.
        fs::write(dir.join(FILE), serde_json::to_vec(&process).unwrap()).unwrap();
        assert_eq!(find(&dir), RunState::Stale(process.clone()));
        let claim = lock().unwrap();
        assert!(claim.is_some() && matches!(find(&dir), RunState::Running(_)));
    }
}
