//! A thread with a connection and a queue: SQL never runs on the runtime's threads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::schema;
use crate::store::{StoreError, sync_dir};

/// Most writes in one commit: bounds how long the first of them waits for the last.
const BATCH: usize = 256;

/// Pages of the write-ahead log that are left alone: a look-up walks through them, and moving them to the file
/// itself costs two flushes.
pub(super) const LOG_PAGES: u32 = 1000;

/// How long what was answered before its flush may wait for one: a start, or the first requests of many conversations,
/// ask for one flush and not for one each.
const SOON: Duration = Duration::from_millis(20);

/// When a write has to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// Before it is answered: it survives a power loss, too.
    Disk,
    /// Soon after the answer. It survives the end of the process, and who waits does not wait for the disk.
    Process,
}

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
    /// one flush of the disk serves everyone who waits for it. `commits` counts the transactions.
    pub(super) fn writer(conn: Connection, file: &Path, commits: Arc<AtomicU64>) -> Result<Self, StoreError> {
        let mut writer = Writer {
            conn,
            file: file.to_owned(),
            log: None,
            commits,
            due: None,
        };
        Self::start("baton-write", file, move |jobs| {
            loop {
                let first = match writer.due {
                    Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
                    None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                match first {
                    Ok(first) => {
                        let mut batch = vec![first];
                        batch.extend(jobs.try_iter().take(BATCH - 1));
                        writer.commit(batch);
                    }
                    Err(RecvTimeoutError::Timeout) => writer.tidy(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
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
        self.ask(Promise::Disk, what, run).await
    }

    /// As `call`, with another promise.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        promise: Promise,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let answer = self.queue(promise, what, run);
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
        self.queue(Promise::Process, what, run)
    }

    fn queue<T: Send + 'static>(
        &self,
        promise: Promise,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let task = Task {
            promise,
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
    fn promise(&self) -> Promise;
    fn run(&mut self, conn: &Connection) -> rusqlite::Result<()>;
    /// Answers: the value of `run`, or why there is none.
    fn finish(self: Box<Self>, failed: Option<&rusqlite::Error>);
}

struct Task<F, T> {
    promise: Promise,
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
    fn promise(&self) -> Promise {
        self.promise
    }

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

/// What the writer's thread works with.
struct Writer {
    conn: Connection,
    file: PathBuf,
    /// The write-ahead log, for flushing it. There once the names of the store's files are on the disk.
    log: Option<fs::File>,
    commits: Arc<AtomicU64>,
    /// When the writer is to tidy up: soon after each commit.
    due: Option<Instant>,
}

impl Writer {
    /// One transaction for all. A job that fails takes back its own writes alone; when the transaction itself
    /// is lost (full disk, failed commit, failed flush), all of them have failed.
    fn commit(&mut self, batch: Vec<Box<dyn Job>>) {
        let conn = &self.conn;
        let to_disk = batch.iter().any(|job| job.promise() == Promise::Disk);
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
        if lost.is_none() && to_disk {
            lost = self.flush().err().map(unflushed);
        }
        self.due.get_or_insert_with(|| Instant::now() + SOON);
        // Counted before anyone is answered, so that who has an answer sees its commit.
        self.commits.fetch_add(1, Ordering::Relaxed);
        for (job, own) in held {
            job.finish(own.as_ref().or(lost.as_ref()));
        }
    }

    /// What nobody has to wait for, done while nobody does, mostly.
    fn tidy(&mut self) {
        // What fails here is told by the next commit that has to be on the disk; what is there already costs nothing.
        let _ = self.flush();
        if self.log_pages().is_ok_and(|pages| pages >= LOG_PAGES) {
            // The log only grows on: the next time will do.
            let _ = self
                .conn
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
        self.due = None;
    }

    /// Brings the log to the disk, with all that was committed. SQLite would do the same, with the log's times as well:
    /// where nothing but them has changed beside the bytes, that is twice the work.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(log) = &self.log {
            return log.sync_data();
        }
        // Only the log: closing a handle of the store's file would take SQLite's locks with it.
        let log = fs::OpenOptions::new()
            .write(true)
            .open(schema::log_of(&self.file))?;
        log.sync_all()?;
        // Where a directory cannot be flushed, nothing more can be done: SQLite goes on as well.
        let _ = self.file.parent().map(sync_dir);
        self.log = Some(log);
        Ok(())
    }

    /// Pages of the log that are not in the file yet.
    fn log_pages(&self) -> rusqlite::Result<u32> {
        let mut statement = self.conn.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
        statement.query_row([], |row| Ok(row.get::<_, u32>(1)?.saturating_sub(row.get(2)?)))
    }
}

fn unflushed(err: io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(format!("cannot be flushed to the disk: {err}").into())
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
