//! A database worker: a thread with its own connection and a job queue. SQL never runs on the runtime's
//! threads.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::writer::{SqlJob, SqlTask, SqliteWriter, in_savepoint};
use crate::store::{Durable, StoreError, StoreResult};

/// Maximum writes in one transaction, which bounds how long the first job waits for the last one.
const BATCH: usize = 256;

/// Handle of a worker thread. Dropping it waits until the thread has finished its queue and closed the file.
pub(super) struct DbWorker {
    queue: Option<mpsc::Sender<Box<dyn SqlJob>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl DbWorker {
    /// Creates a worker that runs each job separately.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn reader(conn: Connection, file: &Path) -> StoreResult<Self> {
        Self::start("baton-read", file, move |jobs| {
            for mut job in jobs {
                let result = job.run(&conn);
                job.finish(result.as_ref().err());
            }
        })
    }

    /// Creates a worker that reads and writes a database without a file. Each job is atomic.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn in_memory(conn: Connection, file: &Path) -> StoreResult<Self> {
        Self::start("baton-memory", file, move |jobs| {
            for mut job in jobs {
                let result = in_savepoint(&conn, job.as_mut());
                job.finish(result.as_ref().err());
            }
        })
    }

    /// Creates a worker that runs all queued jobs in one transaction, commits, and then returns their
    /// results.
    ///
    /// With this group commit, one flush serves every caller that waits for the disk.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn writer(mut writer: SqliteWriter, file: &Path) -> StoreResult<Self> {
        Self::start("baton-write", file, move |jobs| {
            loop {
                let first = match writer.due() {
                    Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
                    None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                };
                match first {
                    Ok(first) => {
                        let mut batch = vec![first];
                        // Takes only queued jobs, without waiting: under load batches grow by themselves.
                        batch.extend(jobs.try_iter().take(BATCH - 1));
                        writer.commit(batch);
                    }
                    Err(RecvTimeoutError::Timeout) => writer.maintain(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })
    }

    fn start(
        name: &str,
        file: &Path,
        work: impl FnOnce(mpsc::Receiver<Box<dyn SqlJob>>) + Send + 'static,
    ) -> StoreResult<Self> {
        let (queue, jobs) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(jobs))
            .map_err(|err| StoreError::new(format!("cannot start a thread for {}: {err}", file.display())))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Runs `run` on the thread and waits for its result. A write is flushed before this returns.
    ///
    /// Cancelling the caller does not cancel the job.
    ///
    /// # Errors
    /// Returns an error if the job or its transaction failed, or the thread has ended.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.call_with(Durable::Yes, what, run).await
    }

    /// Like [`call`](Self::call), with the given durability.
    ///
    /// # Errors
    /// Returns an error if the job or its transaction failed, or the thread has ended.
    pub(super) async fn call_with<T: Send + 'static>(
        &self,
        durable: Durable,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let answer = self.enqueue(durable, what, run);
        answer
            .await
            .unwrap_or_else(|_| Err(StoreError::new(format!("{what}: the store's thread has ended"))))
    }

    /// Queues `run` without waiting for it. The receiver may be dropped.
    pub(super) fn enqueue<T: Send + 'static>(
        &self,
        durable: Durable,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> oneshot::Receiver<StoreResult<T>> {
        let (reply, answer) = oneshot::channel();
        let task = SqlTask {
            durable,
            what,
            run: Some(run),
            value: None,
            reply,
        };
        if let Some(queue) = &self.queue {
            // A thread that has ended drops the job and with it `reply`, which the caller sees as a closed
            // channel.
            let _ = queue.send(Box::new(task));
        }
        answer
    }
}

impl Drop for DbWorker {
    fn drop(&mut self) {
        // Ends the thread, which first runs the jobs that are queued.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
