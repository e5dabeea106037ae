//! Reloads the config of a running proxy on SIGHUP, and when one of its files changes.
//!
//! These are the config file and the files that it names: certificates, keys, roots, prices, secrets and
//! clients.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use super::exit::CliResult;
use super::running::StartedWith;
use baton_serve::service::reload::Reloader;
use baton_state::config::{Config, Environment, Flags, Problem, client_files};

/// Interval between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A loaded config, with the versions of its files.
pub(super) struct LoadedConfig {
    /// Path given with `--config`.
    given: Option<PathBuf>,
    flags: Flags,
    pub(super) config: Config,
    /// Versions of the files when they were loaded.
    versions: Vec<FileVersion>,
}

/// Versions of all files whose change reloads the config: the config file and those that it names.
fn versions(own: Option<FileVersion>, config: &Config) -> Vec<FileVersion> {
    let (server, admin) = (&config.server, &config.admin);
    let tls = [
        &server.at.tls_cert,
        &server.at.tls_key,
        &admin.at.tls_cert,
        &admin.at.tls_key,
    ];
    let roots = config.upstreams.values().map(|upstream| &upstream.ca_file);
    let named = tls.into_iter().chain(roots).chain([&config.bill.prices]);
    let named = named.flatten().chain(&config.secret_files).cloned();
    let named = named.map(FileVersion::new).chain(client_versions(config));
    own.into_iter().chain(named).collect()
}

/// Versions of the directory of clients and of its files.
fn client_versions(config: &Config) -> Vec<FileVersion> {
    let dir = config.server.clients_dir.clone();
    let files = dir.as_deref().and_then(|dir| client_files::list(dir).ok());
    let files = files.into_iter().flatten().map(|(_, file)| file);
    dir.into_iter().chain(files).map(FileVersion::new).collect()
}

/// Version of the config file; `None` if there is no file.
///
/// Taken before the file is read, so that no later change is missed.
fn version(given: Option<&PathBuf>) -> Option<FileVersion> {
    super::config_file(given).map(FileVersion::new)
}

/// Version of a file, for detecting changes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    path: PathBuf,
    /// File, time of the last change in seconds and nanoseconds, and length. `None` if the file cannot be read.
    ///
    /// The time is that of the inode, because programs that copy files may set the other one.
    seen: Option<(u64, [i64; 2], u64)>,
}

impl FileVersion {
    fn new(path: PathBuf) -> Self {
        // Follows links: some platforms replace the directory that a link names.
        let found = fs::metadata(&path).ok();
        let seen = found.map(|found| (found.ino(), [found.ctime(), found.ctime_nsec()], found.len()));
        Self { path, seen }
    }

    fn is_empty(&self) -> bool {
        matches!(self.seen, Some((.., 0)))
    }
}

impl LoadedConfig {
    pub(super) fn new(given: Option<PathBuf>, flags: Flags) -> CliResult<Self> {
        let own = version(given.as_ref());
        let config = super::load_or_fail(given.as_ref(), &flags)?;
        Ok(Self {
            given,
            flags,
            versions: versions(own, &config),
            config,
        })
    }

    /// The settings of this process.
    pub(super) fn started_with(&self) -> StartedWith {
        let file = super::config_file(self.given.as_ref());
        StartedWith::of_process(&self.config, file.as_deref())
    }

    /// Watches the files until the process ends.
    pub(super) async fn watch(mut self, reloader: Reloader) {
        let reloader = Arc::new(reloader);
        let mut beside = JoinSet::new();
        beside.spawn(watch_clients(Arc::clone(&reloader)));
        let mut hangups = Hangups::listen();
        let mut last_seen = self.versions.clone();
        let mut look = looks();
        loop {
            let requested = tokio::select! {
                () = hangups.next() => true,
                _ = look.tick() => false,
            };
            let own = version(self.given.as_ref());
            let present = versions(own.clone(), &self.config);
            // A changed file is read only when two checks agree, because it may still be written.
            let changed = present != self.versions && present == last_seen;
            last_seen.clone_from(&present);
            if !requested && !changed {
                continue;
            }
            // Set even if the reload fails, so that the same content is not read again at each check.
            self.versions = present;
            // Off the serving threads: a file system that does not answer, or a FIFO, must not stop requests.
            let loaded = tokio::task::block_in_place(|| self.reload(&reloader, &own));
            reloader.set_refused(loaded.is_none());
            if let Some(loaded) = loaded {
                // If the new config names other files, their versions are not among the present ones.
                let paths =
                    |versions: &[FileVersion]| versions.iter().map(|v| v.path.clone()).collect::<Vec<_>>();
                let renewed = versions(own, &loaded);
                if paths(&renewed) != paths(&self.versions) {
                    self.versions = renewed;
                }
                self.config = loaded;
            }
            last_seen.clone_from(&self.versions);
        }
    }

    /// Reloads once. A config with a problem leaves the running one in place.
    ///
    /// `own` is the version of the config file before it is read.
    fn reload(&self, reloader: &Reloader, own: &Option<FileVersion>) -> Option<Config> {
        // Another program may be writing the file. An empty config would mean all defaults, with other
        // upstreams.
        if let Some(empty) = own.as_ref().filter(|own| own.is_empty()) {
            let file = empty.path.display();
            tracing::error!(target: "baton", "config not reloaded: {file} is empty; it is read again when it changes");
            return None;
        }
        let (mut loaded, problems) = super::read(self.given.as_ref(), &self.flags);
        // Changed while it was read. The next check sees a new version and reads it again.
        if version(self.given.as_ref()) != *own {
            tracing::warn!(target: "baton", "config not reloaded yet: its file is being written");
            return None;
        }
        if !problems.is_empty() {
            for problem in &problems {
                tracing::error!(target: "baton", key = problem.key, "config not reloaded: {}", one_line(problem));
            }
            if Config::is_client_list_read(&problems) {
                // The directory is that of the running config, and has its own check.
                let in_files = self.config.clients.iter().filter(|client| client.file.is_some());
                loaded.clients.retain(|client| client.file.is_none());
                loaded.clients.extend(in_files.cloned());
                reloader.gateway().revoke(&loaded.clients);
            }
            return None;
        }
        log_refused_clients(&loaded);
        match reloader.apply(loaded.clone()) {
            Err(error) => {
                tracing::error!(target: "baton", "config not reloaded: {error}");
                reloader.gateway().revoke(&loaded.clients);
                return None;
            }
            Ok(report) if report.fixed.is_empty() => tracing::info!(target: "baton", "config reloaded"),
            Ok(report) => tracing::warn!(
                target: "baton",
                "config reloaded, except what needs a restart: {}",
                report.fixed.join("; ")
            ),
        }
        Some(loaded)
    }
}

/// Returns the timer of a task that looks at files.
fn looks() -> Interval {
    let mut look = tokio::time::interval(LOOK_EVERY);
    // Missed checks are not made up for: a single one sees all changes.
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look
}

/// Refuses clients whose files are gone, or have another key by now.
///
/// Reads nothing else, so that no other file, however broken or slow, keeps a removed client admitted.
async fn watch_clients(reloader: Arc<Reloader>) {
    let mut look = looks();
    let mut last_seen = Vec::new();
    // Config and files of the last check, since a reload may have begun before a client was removed.
    let mut checked: Option<(Arc<Config>, Vec<FileVersion>)> = None;
    loop {
        look.tick().await;
        tokio::task::block_in_place(|| {
            let gateway = reloader.gateway();
            let config = gateway.config();
            let seen = client_versions(config);
            let is_settled = std::mem::replace(&mut last_seen, seen.clone()) == seen;
            let is_checked = checked
                .as_ref()
                .is_some_and(|(known, files)| Arc::ptr_eq(known, config) && *files == seen);
            if is_settled
                && !is_checked
                && let Ok(present) = config.present_clients(&Environment::of_process())
            {
                gateway.revoke(&present);
                checked = Some((Arc::clone(config), seen));
            }
        });
    }
}

/// Logs the files of clients that have a problem.
pub(super) fn log_refused_clients(config: &Config) {
    for problem in &config.refused_clients {
        tracing::error!(target: "baton", "client refused: {}", one_line(problem));
    }
}

/// Formats a problem without the line break before its help, because the log has one line per event.
fn one_line(problem: &Problem) -> String {
    problem.to_string().replace("\n    help: ", "; ")
}

/// SIGHUP: a request to reload, or the end of the terminal.
pub(super) struct Hangups {
    signal: Option<Signal>,
    had_terminal: bool,
}

impl Hangups {
    pub(super) fn listen() -> Self {
        Self {
            signal: signal(SignalKind::hangup()).ok(),
            had_terminal: has_terminal(),
        }
    }

    /// Waits for a request to reload.
    async fn next(&mut self) {
        self.until(false).await;
    }

    /// Waits for the end of the terminal that the process was started on, which is the signal's older
    /// meaning.
    pub(super) async fn closed(&mut self) {
        self.until(true).await;
    }

    async fn until(&mut self, closed: bool) {
        loop {
            match &mut self.signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
            if self.terminal_closed() == closed {
                return;
            }
        }
    }

    fn terminal_closed(&self) -> bool {
        self.had_terminal && !has_terminal()
    }
}

/// Whether the process has a controlling terminal. Its device cannot be opened after the terminal's end.
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}
