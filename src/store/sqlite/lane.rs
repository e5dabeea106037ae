//! A thread with a connection and a queue: SQL never runs on the runtime's threads.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::store::StoreError;

/// Most writes in one commit: bounds how long the first of them waits for the last.
const BATCH: usize = 256;

/// The thread's sending side. Dropped, it lets the thread finish its queue and close the file.
pub(super) struct Lane {
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Lane {
    /// A thread that answers each job by itself.
    pub(super) fn reader(conn: Connection, file: &Path) -> Result<Self, StoreError> {
        Self::start("baton-read", file, move |jobs| {
            for mut job in jobs {
                let result = job.run(&conn);
                job.finish(result.as_ref().err());
            }
        })
    }

    /// A thread that runs all queued jobs in one transaction, commits, then answers all (group commit):
    /// one flush of the disk serves everyone who waits for it. `commits` counts the flushes.
    pub(super) fn writer(conn: Connection, file: &Path, commits: Arc<AtomicU64>) -> Result<Self, StoreError> {
        Self::start("baton-write", file, move |jobs| {
            while let Ok(first) = jobs.recv() {
                let mut batch = vec![first];
                batch.extend(jobs.try_iter().take(BATCH - 1));
                commit(&conn, batch, &commits);
            }
        })
    }

    fn start(
        name: &str,
        file: &Path,
        work: impl FnOnce(mpsc::Receiver<Box<dyn Job>>) + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(jobs))
            .map_err(|err| StoreError {
                message: format!("cannot start a thread for {}: {err}", file.display()),
            })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Runs `run` on the thread. A caller that goes away does not undo what it has queued.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.cast(what, run);
        answer.await.unwrap_or_else(|_| {
            Err(StoreError {
                message: format!("{what}: the store's thread has ended"),
            })
        })
    }

    /// Queues `run`, for those who need not wait: the answer may be dropped.
    pub(super) fn cast<T: Send + 'static>(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let task = Task {
            what,
            run: Some(run),
            value: None,
            reply,
        };
        if let Some(queue) = &self.queue {
            // A thread that has ended drops the job, and with it `reply`: the caller hears of it there.
            let _ = queue.send(Box::new(task));
        }
        answer
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A piece of SQL and who waits for it.
trait Job: Send {
    fn run(&mut self, conn: &Connection) -> rusqlite::Result<()>;
    /// Answers: the value of `run`, or why there is none.
    fn finish(self: Box<Self>, failed: Option<&rusqlite::Error>);
}

struct Task<F, T> {
    what: &'static str,
    run: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Job for Task<F, T>
where
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn run(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if let Some(run) = self.run.take() {
            self.value = Some(run(conn)?);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, failed: Option<&rusqlite::Error>) {
        let Self {
            what, value, reply, ..
        } = *self;
        let result = match (failed, value) {
            (None, Some(value)) => Ok(value),
            (None, None) => Err(StoreError {
                message: format!("{what}: not run"),
            }),
            (Some(err), _) => Err(StoreError {
                message: format!("{what}: {err}"),
            }),
        };
        // Nobody waits for a job that was cast, or whose caller has gone.
        let _ = reply.send(result);
    }
}

/// One transaction for all. A job that fails takes back its own writes alone; when the transaction itself
/// is lost (full disk, failed commit), all of them have failed.
fn commit(conn: &Connection, batch: Vec<Box<dyn Job>>, commits: &AtomicU64) {
    let mut held = Vec::with_capacity(batch.len());
    let mut lost = exec(conn, "BEGIN IMMEDIATE").err();
    for mut job in batch {
        let mut own = None;
        if lost.is_none()
            && let Err(err) = in_savepoint(conn, job.as_mut())
        {
            let fault = if conn.is_autocommit() { &mut lost } else { &mut own };
            *fault = Some(err);
        }
        held.push((job, own));
    }
    if lost.is_none() {
        lost = exec(conn, "COMMIT").err();
    }
    if lost.is_some() && !conn.is_autocommit() {
        // What cannot be rolled back was not begun; the next BEGIN will say so.
        let _ = exec(conn, "ROLLBACK");
    }
    // Counted before anyone is answered, so that who has an answer sees its commit.
    commits.fetch_add(1, Ordering::Relaxed);
    for (job, own) in held {
        job.finish(own.as_ref().or(lost.as_ref()));
    }
}

fn in_savepoint(conn: &Connection, job: &mut dyn Job) -> rusqlite::Result<()> {
    exec(conn, "SAVEPOINT job")?;
    let result = job.run(conn);
    if result.is_err() && !conn.is_autocommit() {
        exec(conn, "ROLLBACK TO job")?;
    }
    if !conn.is_autocommit() {
        exec(conn, "RELEASE job")?;
    }
    result
}

fn exec(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(|_| ())
}
