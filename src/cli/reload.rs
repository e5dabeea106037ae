//! Reloads the config of a running proxy: on SIGHUP, and when its file, the certificate's or the key's changes.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::app::reload::Reloader;
use crate::state::config::{Config, Environment, Flags, Problem};

/// Interval of looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the config comes from.
pub(super) struct ConfigSource {
    /// `--config`.
    pub(super) given: Option<PathBuf>,
    pub(super) flags: Flags,
}

impl ConfigSource {
    fn file(&self) -> Option<PathBuf> {
        super::config_file(self.given.as_ref())
    }

    fn load(&self) -> Result<Config, Vec<Problem>> {
        Config::load(self.file().as_deref(), &Environment::of_process(), &self.flags)
    }

    /// The version of the config file; `None` where there is no file. Taken before the file is read, so that no later change
    /// is missed.
    pub(super) fn version(&self) -> Option<FileVersion> {
        self.file().map(FileVersion::of)
    }
}

/// The versions of all files whose change reloads the config: its own, and those of the files that it names.
pub(super) fn versions(own: Option<FileVersion>, config: &Config) -> Vec<FileVersion> {
    let tls = config.server.tls_cert.iter().chain(&config.server.tls_key);
    let named = config.bill.prices.iter().chain(tls).cloned();
    own.into_iter().chain(named.map(FileVersion::of)).collect()
}

/// What shows that a file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileVersion {
    path: PathBuf,
    /// Time of the last change, and length; `None` while it cannot be read.
    seen: Option<(SystemTime, u64)>,
}

impl FileVersion {
    fn of(path: PathBuf) -> Self {
        // Follows links: some platforms replace the folder that a link names.
        let found = fs::metadata(&path).ok();
        let seen = found.and_then(|found| Some((found.modified().ok()?, found.len())));
        Self { path, seen }
    }
}

/// Watches until the process ends. `config`: as it was loaded at the start; `applied`: the versions of its files.
pub(super) async fn watch(
    source: ConfigSource,
    mut config: Config,
    mut applied: Vec<FileVersion>,
    reloader: Reloader,
) {
    let mut hangups = Hangups::listen();
    let mut last_seen = applied.clone();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let requested = tokio::select! {
            () = hangups.next() => true,
            _ = look.tick() => false,
        };
        let own = source.version();
        let present = versions(own.clone(), &config);
        // A file that is still being written is read when it has stayed the same for one look.
        let changed = present != applied && present == last_seen;
        last_seen.clone_from(&present);
        if !requested && !changed {
            continue;
        }
        applied = present;
        if let Some(loaded) = reload(&source, &reloader) {
            if loaded.server.tls() != config.server.tls() || loaded.bill.prices != config.bill.prices {
                applied = versions(own, &loaded);
            }
            config = loaded;
        }
        last_seen.clone_from(&applied);
    }
}

/// Reloads once. A config with a problem leaves the running one in place.
fn reload(source: &ConfigSource, reloader: &Reloader) -> Option<Config> {
    let loaded = match source.load() {
        Ok(loaded) => loaded,
        Err(problems) => {
            for problem in &problems {
                // One line of the log: without the line break before the help.
                let text = problem.to_string().replace("\n    help: ", "; ");
                tracing::error!(target: "baton", key = problem.key, "config not reloaded: {text}");
            }
            return None;
        }
    };
    match reloader.apply(loaded.clone()) {
        Err(error) => {
            tracing::error!(target: "baton", "config not reloaded: {error}");
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

/// SIGHUP as a request to reload.
#[cfg(unix)]
pub(super) struct Hangups {
    signal: Option<tokio::signal::unix::Signal>,
    had_terminal: bool,
}

#[cfg(unix)]
impl Hangups {
    pub(super) fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self {
            signal: signal(SignalKind::hangup()).ok(),
            had_terminal: has_terminal(),
        }
    }

    /// Waits for a request to reload.
    async fn next(&mut self) {
        loop {
            self.any().await;
            if !self.terminal_closed() {
                return;
            }
        }
    }

    /// Waits for the end of the terminal that the process was started on: the signal's older meaning.
    pub(super) async fn closed(&mut self) {
        loop {
            self.any().await;
            if self.terminal_closed() {
                return;
            }
        }
    }

    async fn any(&mut self) {
        match &mut self.signal {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }

    fn terminal_closed(&self) -> bool {
        self.had_terminal && !has_terminal()
    }
}

/// Whether the process has a controlling terminal. After its end the device cannot be opened.
#[cfg(unix)]
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) {
        std::future::pending().await
    }
}
