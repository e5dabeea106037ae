//! Readiness check: tests the dependencies of requests the way requests use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, oneshot};

use crate::admin::{NotReady, Ready};
use crate::store::{SharedStore, StoreError};

/// Timeout of the store's answer.
const TIME: Duration = Duration::from_secs(2);

/// How long a result is cached: the store writes and flushes a page for it, and anybody may ask at any rate.
const HOLDS: Duration = Duration::from_secs(2);

/// Makes the check of `store`. While `draining`, the answer is no.
pub(super) fn of(store: SharedStore, draining: Arc<AtomicBool>) -> Ready {
    let readiness = Arc::new(Readiness {
        store,
        draining,
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
    draining: Arc<AtomicBool>,
    holds: Duration,
    time: Duration,
    /// Locked while the store is asked, so that concurrent callers share one answer.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    answer: Option<(Instant, Result<(), NotReady>)>,
    /// A check that timed out. No other one starts before it ends.
    waiting: Option<oneshot::Receiver<Result<(), NotReady>>>,
}

impl Readiness {
    async fn now(&self) -> Result<(), NotReady> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(NotReady {
                what: "stopping",
                why: "a signal to stop has come".to_owned(),
            });
        }
        let mut known = self.known.lock().await;
        if let Some((at, answer)) = &known.answer
            && at.elapsed() < self.holds
        {
            return answer.clone();
        }
        let answer = self.ask(&mut known.waiting).await;
        known.answer = Some((Instant::now(), answer.clone()));
        answer
    }

    async fn ask(
        &self,
        waiting: &mut Option<oneshot::Receiver<Result<(), NotReady>>>,
    ) -> Result<(), NotReady> {
        let mut asked = waiting.take().unwrap_or_else(|| {
            let (answer, asked) = oneshot::channel();
            let store = Arc::clone(&self.store);
            // A hanging store occupies one task, however often it is asked.
            tokio::spawn(async move { answer.send(both_ways(&store).await) });
            asked
        });
        match tokio::time::timeout(self.time, &mut asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(missing("store_write", "the question broke off")),
            Err(_) => {
                *waiting = Some(asked);
                Err(missing("store_write", "the store takes too long"))
            }
        }
    }
}

async fn both_ways(store: &SharedStore) -> Result<(), NotReady> {
    let told = |what| move |error: StoreError| missing(what, &error.message);
    store.ping().await.map_err(told("store_read"))?;
    store.probe().await.map_err(told("store_write"))
}

fn missing(what: &'static str, why: &str) -> NotReady {
    NotReady {
        what,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::store::sqlite::{FILE, SqliteStore};

    fn readiness(store: Arc<dyn Store>, holds: Duration) -> Readiness {
        Readiness {
            store,
            draining: Arc::default(),
            holds,
            time: Duration::from_millis(300),
            known: Mutex::default(),
        }
    }

    fn what(answer: Result<(), NotReady>) -> &'static str {
        answer.map_or_else(|missing| missing.what, |()| "ready")
    }

    #[tokio::test]
    async fn a_table_that_was_dropped_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let readiness = readiness(Arc::new(store), Duration::ZERO);
        assert_eq!(what(readiness.now().await), "ready");
        let other = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
        other.execute_batch("DROP TABLE pairs").unwrap();
        assert_eq!(what(readiness.now().await), "store_write");
    }

    #[tokio::test]
    async fn probes_share_an_answer_for_a_moment() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let readiness = readiness(store.clone(), Duration::from_secs(60));
        let before = store.commits();
        let all = futures_util::future::join_all((0..1000).map(|_| readiness.now())).await;
        assert!(all.into_iter().all(|answer| answer.is_ok()));
        assert_eq!(store.commits(), before + 1);
        // Of this nobody needs to ask the store.
        readiness.draining.store(true, Ordering::Relaxed);
        assert_eq!(what(readiness.now().await), "stopping");
    }

    #[tokio::test]
    async fn a_writer_that_hangs_is_asked_once_and_one_that_died_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(dir.path()).unwrap());
        let readiness = readiness(store.clone(), Duration::ZERO);
        let release = store.hold_writer();
        let before = store.commits();
        for _ in 0..3 {
            assert_eq!(what(readiness.now().await), "store_write");
        }
        release.send(()).unwrap();
        while readiness.now().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // What held the writer, the one question that waited, and no more than one behind it.
        assert!(store.commits() <= before + 3, "{}", store.commits() - before);
        store.kill_writer();
        while readiness.now().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(what(readiness.now().await), "store_write");
    }
}
