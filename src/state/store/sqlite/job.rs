//! The jobs of a database worker.

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::store::{StoreError, StoreResult};

/// The failures that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobDurability {
    /// A power loss: the write is flushed to the disk before the caller is answered.
    PowerLoss,
    /// The end of the process: the flush follows soon after the answer, and the caller does not wait for the disk.
    ProcessExit,
}

/// A piece of SQL with the channel for its result.
pub(super) trait SqlJob: Send {
    /// The failures that the write must survive.
    fn durability(&self) -> JobDurability;
    /// Runs the SQL.
    fn run(&mut self, conn: &Connection) -> rusqlite::Result<()>;
    /// Answers the caller with the value of `run`, or with the error.
    fn finish(self: Box<Self>, failed: Option<&rusqlite::Error>);
}

/// A closure as a job.
pub(super) struct SqlTask<F, T> {
    durability: JobDurability,
    what: &'static str,
    run: Option<F>,
    value: Option<T>,
    reply: oneshot::Sender<StoreResult<T>>,
}

impl<F, T> SqlTask<F, T> {
    /// `what` names the job in errors.
    pub(super) fn new(
        durability: JobDurability,
        what: &'static str,
        run: F,
        reply: oneshot::Sender<StoreResult<T>>,
    ) -> Self {
        Self {
            durability,
            what,
            run: Some(run),
            value: None,
            reply,
        }
    }
}

impl<F, T> SqlJob for SqlTask<F, T>
where
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn durability(&self) -> JobDurability {
        self.durability
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
        // Nobody waits for a submitted job, or the caller is gone.
        let _ = reply.send(result);
    }
}
