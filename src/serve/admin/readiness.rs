//! Readiness: tests the dependencies of requests in the way requests use them, and names the one that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde::Serialize;
use tokio::sync::{Mutex, oneshot};

use crate::state::config::Config;
use crate::state::journal::{JournalReader, Recorder};
use crate::state::store::{SharedStore, StoreError};

/// Timeout of each check.
const TIME: Duration = Duration::from_secs(2);

/// Lifetime of a cached report. The store writes and flushes a page for it, and clients may query at any rate.
const HOLDS: Duration = Duration::from_secs(2);

pub(super) const STORE_READ: &str = "store_read";
pub(super) const STORE_WRITE: &str = "store_write";
const JOURNAL: &str = "journal";
const UPSTREAMS: &str = "upstreams";
pub(super) const CONFIG: &str = "config";

/// Check that finds out whether requests can be served now.
pub type Ready = Arc<dyn Fn() -> BoxFuture<'static, Report> + Send + Sync>;

/// State of the dependencies. Safe to show to everybody, except for [`Check::why`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether a balancer should send requests here.
    pub ready: bool,
    /// Whether a required dependency has failed after it had worked.
    ///
    /// Such a process stays ready: requests that need the dependency get an error that agents retry, and no other
    /// replica with the same store could serve them better.
    pub degraded: bool,
    /// Whether a stop signal was received. Open streams may end, but no new requests are accepted.
    pub stopping: bool,
    /// State of each dependency.
    pub checks: Vec<Check>,
}

/// One dependency. The names are API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `store_read`, `store_write`, `journal`, `upstreams`, `config`.
    pub name: &'static str,
    /// State of the dependency.
    pub state: State,
    /// Whether requests need the dependency.
    pub required: bool,
    /// The error, for the log only: it may contain paths.
    #[serde(skip)]
    pub why: Option<String>,
}

/// State of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The dependency works.
    Ok,
    /// The dependency does not work.
    Failed,
    /// Not checked, because a dependency that it needs has failed, or because a probe would use quota.
    NotChecked,
    /// The config turns the dependency off.
    Off,
}

impl Check {
    /// Whether this check prevents serving requests.
    fn fails(&self) -> bool {
        self.required && self.state == State::Failed
    }
}

impl Report {
    /// Creates the report. `reached` tells whether all required dependencies have worked since the start.
    fn new(checks: Vec<Check>, reached: bool) -> Self {
        let fails = checks.iter().any(Check::fails);
        Self {
            ready: reached || !fails,
            degraded: reached && fails,
            stopping: false,
            checks,
        }
    }

    fn stopping() -> Self {
        Self {
            stopping: true,
            ..Self::default()
        }
    }

    /// Whether a check of this name has succeeded.
    pub fn is_ok(&self, name: &str) -> bool {
        let is_it = |check: &Check| check.name == name && check.state == State::Ok;
        self.checks.iter().any(is_it)
    }

    /// Reason for not being ready or being degraded: `stopping`, or the first required dependency that fails,
    /// and the error.
    pub fn failure(&self) -> Option<(&'static str, &str)> {
        if self.stopping {
            return Some(("stopping", "a stop signal was received"));
        }
        let check = self.checks.iter().find(|check| check.fails())?;
        Some((check.name, check.why.as_deref().unwrap_or_default()))
    }
}

/// Creates the check of a store and a journal.
///
/// While `draining`, it reports that the process stops. `refused` is set while the newest config is not in use.
pub fn of(
    store: SharedStore,
    journal: Recorder,
    config: Arc<Config>,
    [draining, refused]: [Arc<AtomicBool>; 2],
) -> Ready {
    let readiness = Arc::new(Readiness {
        store,
        journal,
        config,
        draining,
        refused,
        holds: HOLDS,
        time: TIME,
        known: Mutex::new(Known::default()),
    });
    Arc::new(move || {
        let readiness = Arc::clone(&readiness);
        Box::pin(async move { readiness.now().await })
    })
}

struct Readiness {
    store: SharedStore,
    journal: Recorder,
    config: Arc<Config>,
    draining: Arc<AtomicBool>,
    refused: Arc<AtomicBool>,
    holds: Duration,
    time: Duration,
    /// Locked during the checks, so that concurrent callers share one report.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    answer: Option<(Instant, Report)>,
    /// Whether a report without a failure has been made.
    reached: bool,
    /// The dependency whose failure was logged last.
    logged: Option<&'static str>,
    /// Checks that timed out and still run. No further one of the same kind starts before they end.
    store: Waiting<[Check; 2]>,
    journal: Waiting<Check>,
}

impl Known {
    /// Logs a change. The error goes only to the log: `/readyz` is open to everybody, and errors contain paths
    /// and addresses.
    fn log(&mut self, report: &Report) {
        let failure = report.failure();
        let what = failure.map(|(what, _)| what);
        match failure {
            _ if what == self.logged => {}
            Some((what, why)) => {
                tracing::warn!(target: "baton", what, why, degraded = report.degraded, "failed a readiness check");
            }
            None => tracing::info!(target: "baton", "ready again"),
        }
        self.logged = what;
    }
}

type Waiting<T> = Option<oneshot::Receiver<T>>;

impl Readiness {
    async fn now(&self) -> Report {
        // Before the cache, so that orchestrators stop sending requests at once.
        if self.draining.load(Ordering::Relaxed) {
            return Report::stopping();
        }
        let mut known = self.known.lock().await;
        if let Some((at, report)) = &known.answer
            && at.elapsed() < self.holds
        {
            return report.clone();
        }
        let known = &mut *known;
        let (store, journal) = tokio::join!(
            self.ask(&mut known.store, ask_store(Arc::clone(&self.store))),
            self.ask(
                &mut known.journal,
                ask_journal(self.journal.clone(), Arc::clone(&self.config))
            ),
        );
        // A store that hangs cannot take writes. Whether it can be read is unknown.
        let slow = || {
            let why = Some("the store takes too long".to_owned());
            [
                check(STORE_READ, State::NotChecked, None),
                check(STORE_WRITE, State::Failed, why),
            ]
        };
        let mut checks = Vec::from(store.unwrap_or_else(slow));
        checks.push(journal.unwrap_or_else(|| check(JOURNAL, State::Failed, None)));
        // A probe would use the quota of a key.
        checks.push(check(UPSTREAMS, State::NotChecked, None));
        let config = match self.refused.load(Ordering::Relaxed) {
            true => State::Failed,
            false => State::Ok,
        };
        checks.push(check(CONFIG, config, None));
        let report = Report::new(checks, known.reached);
        // Later failures only degrade the process, since no other replica with this store could do better.
        known.reached |= report.failure().is_none();
        known.log(&report);
        known.answer = Some((Instant::now(), report.clone()));
        report
    }

    /// Runs a check, or waits for the previous one if that still runs. Returns `None` if it takes too long.
    ///
    /// A blocked query occupies one task, however often it is repeated.
    async fn ask<T: Send + 'static>(
        &self,
        waiting: &mut Waiting<T>,
        asking: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut requested = waiting.take().unwrap_or_else(|| {
            let (answer, requested) = oneshot::channel();
            tokio::spawn(async move { answer.send(asking.await) });
            requested
        });
        match tokio::time::timeout(self.time, &mut requested).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                // Kept, so that the next call waits for this check instead of starting another.
                *waiting = Some(requested);
                None
            }
        }
    }
}

async fn ask_store(store: SharedStore) -> [Check; 2] {
    // A store that cannot be read is not asked to write.
    if let Err(StoreError { message, .. }) = store.ping().await {
        return [
            check(STORE_READ, State::Failed, Some(message)),
            check(STORE_WRITE, State::NotChecked, None),
        ];
    }
    let write = match store.probe().await {
        Ok(()) => check(STORE_WRITE, State::Ok, None),
        Err(error) => check(STORE_WRITE, State::Failed, Some(error.message)),
    };
    [check(STORE_READ, State::Ok, None), write]
}

async fn ask_journal(journal: Recorder, config: Arc<Config>) -> Check {
    if !config.journal.enabled {
        return check(JOURNAL, State::Off, None);
    }
    if !journal.is_on() {
        let why = "it could not be started".to_owned();
        return check(JOURNAL, State::Failed, Some(why));
    }
    let read = tokio::task::spawn_blocking(move || {
        // There is no reader if nothing was ever written, which is not a failure.
        let reader = JournalReader::open(&config.state_dir)?;
        reader.map(|reader| reader.last_end()).transpose()
    });
    match read.await {
        Ok(Ok(_)) => check(JOURNAL, State::Ok, None),
        Ok(Err(error)) => check(JOURNAL, State::Failed, Some(error.to_string())),
        Err(error) => check(JOURNAL, State::Failed, Some(error.to_string())),
    }
}

fn check(name: &'static str, state: State, why: Option<String>) -> Check {
    Check {
        name,
        state,
        // Without a journal agents are still served, and without upstream they get an error.
        required: [STORE_READ, STORE_WRITE].contains(&name),
        why,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::state::store::Store;
    use crate::state::store::sqlite::{FILE, SqliteStore};

    fn config(journal: bool, dir: &Path) -> Arc<Config> {
        let mut config = Config::default_for_tests();
        config.journal.enabled = journal;
        config.state_dir = dir.to_owned();
        Arc::new(config)
    }

    fn readiness(store: Arc<dyn Store>, holds: Duration) -> Readiness {
        Readiness {
            store,
            journal: Recorder::off(),
            config: config(false, Path::new("")),
            draining: Arc::default(),
            refused: Arc::default(),
            holds,
            time: Duration::from_millis(300),
            known: Mutex::default(),
        }
    }

    fn what(report: Report) -> &'static str {
        let failure = report.failure().map(|(what, _)| what);
        assert_eq!(report.ready && !report.degraded, failure.is_none());
        failure.unwrap_or("ready")
    }

    fn states(report: &Report) -> Vec<(&'static str, State)> {
        report
            .checks
            .iter()
            .map(|check| (check.name, check.state))
            .collect()
    }

    #[tokio::test]
    async fn a_table_that_was_dropped_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let readiness = readiness(Arc::new(store), Duration::ZERO);
        assert_eq!(what(readiness.now().await), "ready");
        let other = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
        other.execute_batch("DROP TABLE records").unwrap();
        assert_eq!(what(readiness.now().await), "store_write");
    }

    #[tokio::test]
    async fn probes_share_an_answer_for_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let readiness = readiness(store.clone(), Duration::from_secs(60));
        let before = store.commits();
        let all = futures_util::future::join_all((0..1000).map(|_| readiness.now())).await;
        assert!(all.into_iter().all(|report| report.ready));
        assert_eq!(store.commits(), before + 1);
        // This answer needs no query to the store.
        readiness.draining.store(true, Ordering::Relaxed);
        assert_eq!(what(readiness.now().await), "stopping");
    }

    #[tokio::test]
    async fn a_writer_that_hangs_is_queried_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let readiness = readiness(store.clone(), Duration::ZERO);
        let other = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let before = store.commits();
        for _ in 0..3 {
            assert_eq!(what(readiness.now().await), "store_write");
        }
        other.execute_batch("ROLLBACK").unwrap();
        while !readiness.now().await.ready {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The one query that waited, and at most one after it.
        assert!(store.commits() <= before + 2, "{}", store.commits() - before);
    }

    #[tokio::test]
    async fn each_dependency_is_reported_and_only_the_store_is_needed() {
        use State::{Failed, NotChecked, Off, Ok};

        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(crate::state::store::sqlite::SqliteStore::in_memory().unwrap());
        let mut readiness = readiness(store, Duration::ZERO);
        let expected = |journal| {
            vec![
                (STORE_READ, Ok),
                (STORE_WRITE, Ok),
                (JOURNAL, journal),
                (UPSTREAMS, NotChecked),
                (CONFIG, Ok),
            ]
        };
        assert_eq!(states(&readiness.now().await), expected(Off));
        for (text, state) in [(None, Failed), (Some("no database"), Failed)] {
            if let Some(text) = text {
                std::fs::write(dir.path().join(crate::state::journal::FILE), text).unwrap();
            }
            readiness.config = config(true, dir.path());
            let report = readiness.now().await;
            assert_eq!(states(&report), expected(state));
            assert!(report.ready, "{report:?}");
        }
        readiness.refused.store(true, Ordering::Relaxed);
        let report = readiness.now().await;
        assert!(
            states(&report).contains(&(CONFIG, Failed)) && report.ready,
            "{report:?}"
        );
    }

    /// A store that was never reached keeps a replica out. One that fails later does not.
    #[tokio::test]
    async fn a_store_that_fails_later_only_degrades() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let other = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
        let state = async |readiness: &Readiness| {
            let report = readiness.now().await;
            (report.ready, report.degraded)
        };
        let rename = |from, to| {
            let renaming = format!("ALTER TABLE {from} RENAME TO {to}");
            other.execute_batch(&renaming).unwrap();
        };
        rename("records", "hidden");
        let late = readiness(store.clone(), Duration::ZERO);
        assert_eq!(state(&late).await, (false, false));
        rename("hidden", "records");
        assert_eq!(state(&late).await, (true, false));
        rename("records", "hidden");
        assert_eq!(state(&late).await, (true, true));
        late.draining.store(true, Ordering::Relaxed);
        assert_eq!(state(&late).await, (false, false), "stopping");
    }
}
