//! The jobs of a database worker.

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::store::{Durable, StoreError, StoreResult};

/// A piece of SQL, with the channel for its result.
pub(super) trait SqlJob: Send {
    /// Whether the caller waits until the write is on the disk.
    fn durable(&self) -> Durable;
    /// Runs the SQL.
    fn run(&mut self, conn: &Connection) -> rusqlite::Result<()>;
    /// Sends the caller the value of `run`, or the error.
    fn finish(self: Box<Self>, failed: Option<&rusqlite::Error>);
}

/// A closure as a job.
pub(super) struct SqlTask<F, T> {
    pub(super) durable: Durable,
    /// Name of the job in error messages.
    pub(super) what: &'static str,
    pub(super) run: Option<F>,
    pub(super) value: Option<T>,
    pub(super) reply: oneshot::Sender<StoreResult<T>>,
}

impl<F, T> SqlJob for SqlTask<F, T>
where
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn durable(&self) -> Durable {
        self.durable
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
            (None, None) => Err(StoreError::new(format!("{what}: not run"))),
            (Some(err), _) => Err(StoreError::new(format!("{what}: {err}"))),
        };
        // Nobody waits for a submitted job, or the caller was cancelled.
        let _ = reply.send(result);
    }
}
