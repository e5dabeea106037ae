//! The writing connection: commits jobs in groups and flushes the write-ahead log.
//!
//! Rejects writes while it is unknown which of them have reached the disk.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

use super::job::SqlJob;
use super::schema::{self, LOG_PAGES};
use super::wal;
use crate::disk::sync_dir;
use crate::store::Durable;

/// Delay of the flush for writes that return before it.
///
/// A burst of them (at start, or with the first requests of many conversations) shares one flush.
const FLUSH_DELAY: Duration = Duration::from_millis(20);

/// Interval between attempts to verify the file after a failed flush. Each attempt reads the whole file.
const VERIFY_EVERY: Duration = Duration::from_millis(500);

/// Flushes a file to the disk. Tests inject one that fails.
pub(super) type Flush = Arc<dyn Fn(&fs::File) -> io::Result<()> + Send + Sync>;

/// Returns `fdatasync`, which flushes the data and the metadata needed to read it.
///
/// SQLite's own `fsync` also flushes the timestamps, which is twice the work.
pub(super) fn to_disk() -> Flush {
    Arc::new(fs::File::sync_data)
}

/// State of the writing worker.
pub(super) struct SqliteWriter {
    conn: Connection,
    file: PathBuf,
    opened: OpenedFiles,
    /// The write-ahead log, opened for flushing. `Some` once the directory entries of the store's files are
    /// flushed.
    log: Option<fs::File>,
    flush: Flush,
    commits: Arc<AtomicU64>,
    /// When `maintain` runs next: soon after each commit.
    due: Option<Instant>,
    unverified: Option<FailedFlush>,
}

/// A failed flush. It is unknown which part of the log has reached the disk.
struct FailedFlush {
    why: String,
    /// Time and error of the last attempt to verify the file.
    tried: Option<(Instant, String)>,
}

impl FailedFlush {
    /// Whether the last attempt is too recent for another one.
    fn was_retried_recently(&self) -> bool {
        let tried = self.tried.as_ref();
        tried.is_some_and(|(tried, _)| tried.elapsed() < VERIFY_EVERY)
    }
}

impl fmt::Display for FailedFlush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tried {
            Some((_, error)) => write!(f, "{}; the file could not be verified: {error}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl SqliteWriter {
    /// Takes over the connection. `commits` counts the transactions.
    pub(super) fn new(conn: Connection, file: &Path, commits: Arc<AtomicU64>, flush: Flush) -> Self {
        Self {
            conn,
            opened: OpenedFiles::new(file),
            file: file.to_owned(),
            log: None,
            flush,
            commits,
            due: None,
            unverified: None,
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
            self.due.get_or_insert_with(|| Instant::now() + VERIFY_EVERY);
            let failed = as_sql_error(why);
            for job in batch {
                job.finish(Some(&failed));
            }
            return;
        }
        let conn = &self.conn;
        let to_disk = batch.iter().any(|job| job.durable() == Durable::Yes);
        let mut executed = Vec::with_capacity(batch.len());
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
            self.flush_failed(err.to_string());
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
    }

    /// Runs background work between commits: the delayed flush, the checkpoint, and further attempts to
    /// verify the file.
    pub(super) fn maintain(&mut self) {
        self.due = None;
        if self.unverified.is_some() {
            if self.may_write().is_err() {
                self.due = Some(Instant::now() + VERIFY_EVERY);
            }
            return;
        }
        // A failure is not reported here: from now on every write fails with it.
        if self.flush_checked().is_ok() && self.log_pages().is_ok_and(|pages| pages >= LOG_PAGES) {
            let moved = self
                .conn
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            // Any other error only lets the log grow. The next checkpoint tries again.
            if let Some(err) = moved.err().filter(is_failed_flush) {
                self.flush_failed(err.to_string());
            }
        }
    }

    /// Checks whether a write would be durable now. Verifies the file first if a flush has failed.
    fn may_write(&mut self) -> Result<(), String> {
        self.opened.check(&self.file)?;
        let Some(failed) = self.unverified.take() else {
            return Ok(());
        };
        let failed = match failed.was_retried_recently() {
            true => failed,
            false => match self.verify() {
                Ok(frames) => {
                    tracing::warn!(frames, "the store is writable again: its log was verified");
                    return Ok(());
                }
                Err(error) => FailedFlush {
                    tried: Some((Instant::now(), error)),
                    ..failed
                },
            },
        };
        Err(self.unverified.insert(failed).to_string())
    }

    /// Reopens the file and verifies that all of it is on the disk. Returns the number of frames.
    ///
    /// Every frame that SQLite counts in the log is read, checked against the log's chain of checksums,
    /// rewritten and flushed. The database must pass SQLite's `quick_check`. Every acknowledged write is in
    /// these frames, or a successful checkpoint has moved it to the file.
    fn verify(&mut self) -> Result<u64, String> {
        let message = |err: rusqlite::Error| err.to_string();
        let conn = schema::reopen(&self.file).map_err(|err| err.message)?;
        let counted = log_state(&conn).map_err(message)?.0;
        exec(&conn, "BEGIN IMMEDIATE").map_err(message)?;
        let log = self.rewritten(u64::from(counted));
        exec(&conn, "ROLLBACK").map_err(message)?;
        let (log, frames) = log?;
        let sound: String = conn
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(message)?;
        if sound != "ok" {
            return Err(sound);
        }
        self.conn = conn;
        self.log = Some(log);
        Ok(frames)
    }

    /// Rewrites and flushes the log. Returns it with the number of its frames.
    fn rewritten(&self, counted: u64) -> Result<(fs::File, u64), String> {
        let path = schema::log_of(&self.file);
        let open = fs::OpenOptions::new().read(true).write(true).open(path);
        let mut log = open.map_err(|err| err.to_string())?;
        let frames = wal::rewrite(&mut log).map_err(|err| err.to_string())?;
        if frames < counted {
            return Err(format!("its log has {frames} whole frames of {counted}"));
        }
        (self.flush)(&log).map_err(|err| err.to_string())?;
        Ok((log, frames))
    }

    /// Flushes the log. A failure makes every write fail until the file is verified.
    fn flush_checked(&mut self) -> Result<(), String> {
        let flushed = self.flush();
        flushed.map_err(|err| self.flush_failed(err.to_string()))
    }

    fn flush_failed(&mut self, err: String) -> String {
        let why = format!("{} cannot be flushed to the disk: {err}", self.file.display());
        tracing::error!(
            error = why,
            "nothing is written until the store's file has been verified"
        );
        self.unverified = Some(FailedFlush {
            why: why.clone(),
            tried: None,
        });
        self.due = Some(Instant::now() + VERIFY_EVERY);
        why
    }

    /// Flushes the log, and with it every committed write.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(log) = &self.log {
            return (self.flush)(log);
        }
        // Opens only the log: closing another handle of the database file would release SQLite's POSIX locks
        // on it.
        let log = fs::OpenOptions::new()
            .write(true)
            .open(schema::log_of(&self.file))?;
        (self.flush)(&log)?;
        // Like SQLite, ignores a directory that cannot be flushed.
        let _ = self.file.parent().map(sync_dir);
        self.log = Some(log);
        Ok(())
    }

    /// Returns the number of log pages that are not checkpointed yet.
    fn log_pages(&self) -> rusqlite::Result<u32> {
        let (all, moved) = log_state(&self.conn)?;
        Ok(all.saturating_sub(moved))
    }
}

/// Returns the number of frames in the log, and how many of them are checkpointed.
fn log_state(conn: &Connection) -> rusqlite::Result<(u32, u32)> {
    let mut statement = conn.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
    statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
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
