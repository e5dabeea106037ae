//! The writing connection: commits jobs in groups and flushes the write-ahead log.
//!
//! After a failed flush the process ends: the kernel reports such a failure once and then takes the lost pages
//! for written, so no later flush proves that earlier writes reached the disk. PostgreSQL does the same. The
//! next start reads the log, checks it, and moves it to the file with a checkpoint.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, fs, io};

use rusqlite::{Connection, ErrorCode, Row, ffi};

use super::schema::{self, LOG_PAGES};
use crate::disk::sync_dir;
use crate::store::{Durable, StoreError, StoreResult};
use tokio::sync::oneshot;

/// Delay of the flush for writes that return before it.
///
/// A burst of them (at start, or with the first requests of many conversations) shares one flush.
const FLUSH_DELAY: Duration = Duration::from_millis(20);

/// Exit code of a process that ends because its store cannot be flushed: `EX_IOERR` of `sysexits.h`.
const EXIT_IO: i32 = 74;

/// Flushes a file.
type Flush = Arc<dyn Fn(&fs::File) -> io::Result<()> + Send + Sync>;

/// The disk of a store. Tests inject one that fails.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) flush: Flush,
    /// Called after a failed flush, once its callers have their error.
    pub(super) lost: Arc<dyn Fn() + Send + Sync>,
}

impl Disk {
    /// Flushes with `fdatasync`, and ends the process if that fails.
    ///
    /// SQLite's own `fsync` also flushes the timestamps, which is twice the work.
    pub(super) fn new() -> Self {
        Self {
            flush: Arc::new(fs::File::sync_data),
            lost: Arc::new(|| std::process::exit(EXIT_IO)),
        }
    }
}

/// State of the writing worker.
pub(super) struct SqliteWriter {
    conn: Connection,
    file: PathBuf,
    opened: OpenedFiles,
    /// The write-ahead log, opened for flushing. `Some` once the directory entries of the store's files are
    /// flushed.
    log: Option<fs::File>,
    disk: Disk,
    commits: Arc<AtomicU64>,
    /// When `maintain` runs next: soon after each commit.
    due: Option<Instant>,
    /// Error of a failed flush. Every later write fails with it.
    failed: Option<String>,
}

impl SqliteWriter {
    /// Takes over the connection. `commits` counts the transactions.
    pub(super) fn new(conn: Connection, file: &Path, commits: Arc<AtomicU64>, disk: Disk) -> Self {
        Self {
            conn,
            opened: OpenedFiles::new(file),
            file: file.to_owned(),
            log: None,
            disk,
            commits,
            due: None,
            failed: None,
        }
    }

    /// Returns when maintenance is due, or `None` if there is nothing to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Runs all jobs in one transaction and returns their results.
    ///
    /// A job that fails rolls back only its own writes. If the transaction itself is lost (disk full, failed
    /// commit, failed flush, deleted file), all jobs fail.
    pub(super) fn commit(&mut self, batch: Vec<Box<dyn SqlJob>>) {
        if let Err(why) = self.may_write() {
            let failed = as_sql_error(why);
            for job in batch {
                job.finish(Some(&failed));
            }
            return;
        }
        let conn = &self.conn;
        let to_disk = batch.iter().any(|job| job.durable() == Durable::Yes);
        let mut executed = Vec::with_capacity(batch.len());
        // Takes the write lock at once. A command may archive at the same time, and then a lock that is requested
        // later could fail in the middle of the batch.
        let mut lost = exec(conn, "BEGIN IMMEDIATE").err();
        for mut job in batch {
            let mut own = None;
            if lost.is_none()
                && let Err(err) = in_savepoint(conn, job.as_mut())
            {
                // On some errors, such as a full disk, SQLite rolls back the whole transaction.
                let fault = if conn.is_autocommit() { &mut lost } else { &mut own };
                *fault = Some(err);
            }
            executed.push((job, own));
        }
        if lost.is_none() {
            lost = exec(conn, "COMMIT").err();
        }
        if lost.is_some() && !conn.is_autocommit() {
            // The rollback fails if no transaction was open. The next `BEGIN` reports the cause.
            let _ = exec(conn, "ROLLBACK");
        }
        if let Some(err) = lost.as_ref().filter(|err| is_failed_flush(err)) {
            self.flush_failed(&err);
        }
        if lost.is_none() && to_disk {
            lost = self.flush_checked().err().map(as_sql_error);
        }
        if lost.is_none() {
            // Checked after the flush: a write to a file that was deleted or replaced is not durable.
            lost = self.opened.check(&self.file).err().map(as_sql_error);
        }
        self.due.get_or_insert_with(|| Instant::now() + FLUSH_DELAY);
        // Counted before the callers get their results, so that a caller sees its own commit counted.
        self.commits.fetch_add(1, Ordering::Relaxed);
        for (job, own) in executed {
            job.finish(own.as_ref().or(lost.as_ref()));
        }
        self.end_if_failed();
    }

    /// Runs background work between commits: the delayed flush and the checkpoint.
    pub(super) fn maintain(&mut self) {
        self.due = None;
        if self.failed.is_some() {
            return;
        }
        if self.flush_checked().is_ok() && self.log_pages().is_ok_and(|pages| pages >= LOG_PAGES) {
            let moved = self
                .conn
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            // Any other error only lets the log grow. The next checkpoint tries again.
            if let Some(err) = moved.err().filter(is_failed_flush) {
                self.flush_failed(&err);
            }
        }
        self.end_if_failed();
    }

    /// Checks whether a write would be durable now.
    fn may_write(&mut self) -> Result<(), String> {
        self.opened.check(&self.file)?;
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn end_if_failed(&self) {
        if self.failed.is_some() {
            (self.disk.lost)();
        }
    }

    /// Flushes the log, and with it every committed write. After a failure every write fails.
    fn flush_checked(&mut self) -> Result<(), String> {
        // A log that cannot be opened was not flushed, so no page of it is lost: the next flush tries again.
        let log = match self.log.take() {
            Some(log) => log,
            None => self.open_log().map_err(|err| self.unflushed(&err))?,
        };
        (self.disk.flush)(&log).map_err(|err| self.flush_failed(&err))?;
        self.log = Some(log);
        Ok(())
    }

    fn unflushed(&self, err: &dyn fmt::Display) -> String {
        format!("{} cannot be flushed to the disk: {err}", self.file.display())
    }

    fn flush_failed(&mut self, err: &dyn fmt::Display) -> String {
        let why = self.unflushed(err);
        tracing::error!(
            error = why,
            "failed to flush the store; stopping: check the disk, and start again"
        );
        self.failed = Some(why.clone());
        why
    }

    /// Opens only the log: closing another handle of the database file would release SQLite's POSIX locks on it.
    fn open_log(&self) -> io::Result<fs::File> {
        let log = schema::log_of(&self.file);
        let log = fs::OpenOptions::new().write(true).open(log)?;
        // Like SQLite, ignores a directory that cannot be flushed.
        let _ = self.file.parent().map(sync_dir);
        Ok(log)
    }

    /// Returns the number of log pages that are not checkpointed yet.
    fn log_pages(&self) -> rusqlite::Result<u32> {
        let mut statement = self.conn.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
        let frames = |row: &Row<'_>| Ok((row.get(1)?, row.get(2)?));
        let (all, moved): (u32, u32) = statement.query_row([], frames)?;
        Ok(all.saturating_sub(moved))
    }
}

/// Identity of the database file and of its log when they were opened.
///
/// Either may be deleted or replaced while the program runs. Writes would then go to a file without a name.
struct OpenedFiles {
    file: Option<FileIdentity>,
    log: Option<FileIdentity>,
}

/// Device and inode number of a file.
type FileIdentity = (u64, u64);

impl OpenedFiles {
    fn new(file: &Path) -> Self {
        Self {
            file: identity(file),
            log: identity(&schema::log_of(file)),
        }
    }

    fn check(&mut self, file: &Path) -> Result<(), String> {
        let log = schema::log_of(file);
        // SQLite creates the log with the first write.
        self.log = self.log.or_else(|| identity(&log));
        for (path, known) in [(file, self.file), (&log, self.log)] {
            let found = identity(path);
            if found.is_none() && known.is_some() {
                return Err(format!(
                    "{} was deleted under the running program: put it back, or start the program again",
                    path.display()
                ));
            }
            if found != known {
                return Err(format!(
                    "{} is another file than the one that was opened: start the program again",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}

fn identity(path: &Path) -> Option<FileIdentity> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Whether the error is a failed flush by SQLite itself: a checkpoint flushes the log first.
fn is_failed_flush(err: &rusqlite::Error) -> bool {
    let code = err.sqlite_error().map(|err| err.extended_code);
    matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

fn as_sql_error(why: String) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
}

/// Runs a job in a savepoint. A job that fails changes nothing.
pub(super) fn in_savepoint(conn: &Connection, job: &mut dyn SqlJob) -> rusqlite::Result<()> {
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
            (Some(err), _) => Err(StoreError {
                is_full: err.sqlite_error_code() == Some(ErrorCode::DiskFull),
                ..StoreError::new(format!("{what}: {err}"))
            }),
        };
        // Nobody waits for a submitted job, or the caller was cancelled.
        let _ = reply.send(result);
    }
}
