//! A thread with a connection and a queue: SQL never runs on the runtime's threads.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::writer::Writer;
use crate::store::StoreError;

/// Most writes in one commit: bounds how long the first of them waits for the last.
const BATCH: usize = 256;

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
    /// one flush of the disk serves everyone who waits for it.
    pub(super) fn writer(mut writer: Writer, file: &Path) -> Result<Self, StoreError> {
        Self::start("baton-write", file, move |jobs| {
            loop {
                let first = match writer.due() {
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
pub(super) trait Job: Send {
    /// When it has to be on the disk.
    fn promise(&self) -> Promise;
    /// Runs the SQL.
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
