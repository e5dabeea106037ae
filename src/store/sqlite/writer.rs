//! The connection that writes: commits in groups, flushes, and says no while it cannot be known what the disk has.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

use super::lane::{Job, Promise};
use super::{schema, wal};
use crate::store::sync_dir;

/// Pages of the write-ahead log that are left alone: a look-up walks through them, and moving them to the file
/// itself costs two flushes.
pub(super) const LOG_PAGES: u32 = 1000;

/// How long what was answered before its flush may wait for one: a start, or the first requests of many conversations,
/// ask for one flush and not for one each.
const SOON: Duration = Duration::from_millis(20);

/// Pause between two tries to verify the file after a failed flush: each one reads all of it.
const VERIFY_EVERY: Duration = Duration::from_millis(500);

/// Brings a file's bytes to the disk. Tests give one that fails.
pub(super) type Flush = Arc<dyn Fn(&fs::File) -> io::Result<()> + Send + Sync>;

/// The real one: the bytes, and of the file's attributes what reading them needs. SQLite would flush the times, too,
/// which is twice the work.
pub(super) fn to_disk() -> Flush {
    Arc::new(fs::File::sync_data)
}

/// What the writer's thread works with.
pub(super) struct Writer {
    conn: Connection,
    file: PathBuf,
    places: Places,
    /// The write-ahead log, for flushing it. There once the names of the store's files are on the disk.
    log: Option<fs::File>,
    flush: Flush,
    commits: Arc<AtomicU64>,
    /// When the writer is to tidy up: soon after each commit.
    due: Option<Instant>,
    doubt: Option<Doubt>,
}

/// A flush has failed, and it is not known what of the log the disk has.
struct Doubt {
    why: String,
    /// When the file was last tried to be verified, and what came of it.
    tried: Option<(Instant, String)>,
}

impl Doubt {
    /// Whether the file was tried only just now.
    fn is_fresh(&self) -> bool {
        let tried = self.tried.as_ref();
        tried.is_some_and(|(tried, _)| tried.elapsed() < VERIFY_EVERY)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tried {
            Some((_, came)) => write!(f, "{}; the file could not be verified: {came}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl Writer {
    /// `commits` counts the transactions.
    pub(super) fn new(conn: Connection, file: &Path, commits: Arc<AtomicU64>, flush: Flush) -> Self {
        Self {
            conn,
            places: Places::of(file),
            file: file.to_owned(),
            log: None,
            flush,
            commits,
            due: None,
            doubt: None,
        }
    }

    /// When to tidy up.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// One transaction for all. A job that fails takes back its own writes alone; when the transaction itself
    /// is lost (full disk, failed commit, failed flush, a file that is gone), all of them have failed.
    pub(super) fn commit(&mut self, batch: Vec<Box<dyn Job>>) {
        if let Err(why) = self.may_write() {
            self.due.get_or_insert_with(|| Instant::now() + VERIFY_EVERY);
            let failed = said(why);
            for job in batch {
                job.finish(Some(&failed));
            }
            return;
        }
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
        if let Some(err) = lost.as_ref().filter(|err| is_failed_flush(err)) {
            self.begin_doubt(err.to_string());
        }
        if lost.is_none() && to_disk {
            lost = self.flush_or_doubt().err().map(said);
        }
        if lost.is_none() {
            // Asked behind the flush: what was written to a file that nobody can find is not kept.
            lost = self.places.check(&self.file).err().map(said);
        }
        self.due.get_or_insert_with(|| Instant::now() + SOON);
        // Counted before anyone is answered, so that who has an answer sees its commit.
        self.commits.fetch_add(1, Ordering::Relaxed);
        for (job, own) in held {
            job.finish(own.as_ref().or(lost.as_ref()));
        }
    }

    /// What nobody has to wait for, done while nobody does, mostly.
    pub(super) fn tidy(&mut self) {
        self.due = None;
        if self.doubt.is_some() {
            if self.may_write().is_err() {
                self.due = Some(Instant::now() + VERIFY_EVERY);
            }
            return;
        }
        // Told to nobody here, but from now on to everyone who writes.
        if self.flush_or_doubt().is_ok() && self.log_pages().is_ok_and(|pages| pages >= LOG_PAGES) {
            let moved = self
                .conn
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            // What else goes wrong lets the log grow on: the next time will do.
            if let Some(err) = moved.err().filter(is_failed_flush) {
                self.begin_doubt(err.to_string());
            }
        }
    }

    /// Whether what is written now would be found again; the error says why not.
    fn may_write(&mut self) -> Result<(), String> {
        self.places.check(&self.file)?;
        let Some(doubt) = self.doubt.take() else {
            return Ok(());
        };
        let doubt = match doubt.is_fresh() {
            true => doubt,
            false => match self.verify() {
                Ok(frames) => {
                    tracing::warn!(frames, "the store is written to again: its log was verified");
                    return Ok(());
                }
                Err(came) => Doubt {
                    tried: Some((Instant::now(), came)),
                    ..doubt
                },
            },
        };
        Err(self.doubt.insert(doubt).to_string())
    }

    /// Opens the file anew and proves that the disk has all of it: every frame that SQLite counts to the log is read,
    /// checked by the log's chain of checksums, written again and flushed, and the database as a whole passes SQLite's
    /// own check. What was acknowledged is in these frames, or was moved to the file by a checkpoint that succeeded.
    fn verify(&mut self) -> Result<u64, String> {
        let told = |err: rusqlite::Error| err.to_string();
        let conn = schema::reopen(&self.file).map_err(|err| err.message)?;
        let counted = log_state(&conn).map_err(told)?.0;
        exec(&conn, "BEGIN IMMEDIATE").map_err(told)?;
        let log = self.rewritten(u64::from(counted));
        exec(&conn, "ROLLBACK").map_err(told)?;
        let (log, frames) = log?;
        let sound: String = conn
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(told)?;
        if sound != "ok" {
            return Err(sound);
        }
        self.conn = conn;
        self.log = Some(log);
        Ok(frames)
    }

    /// The log, written again and flushed, and how many frames that were.
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

    fn flush_or_doubt(&mut self) -> Result<(), String> {
        let flushed = self.flush();
        flushed.map_err(|err| self.begin_doubt(err.to_string()))
    }

    fn begin_doubt(&mut self, err: String) -> String {
        let why = format!("{} cannot be flushed to the disk: {err}", self.file.display());
        tracing::error!(
            error = why,
            "nothing is written until the store's file has been verified"
        );
        self.doubt = Some(Doubt {
            why: why.clone(),
            tried: None,
        });
        self.due = Some(Instant::now() + VERIFY_EVERY);
        why
    }

    /// Brings the log to the disk, with all that was committed.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(log) = &self.log {
            return (self.flush)(log);
        }
        // Only the log: closing a handle of the store's file would take SQLite's locks with it.
        let log = fs::OpenOptions::new()
            .write(true)
            .open(schema::log_of(&self.file))?;
        (self.flush)(&log)?;
        // Where a directory cannot be flushed, nothing more can be done: SQLite goes on as well.
        let _ = self.file.parent().map(sync_dir);
        self.log = Some(log);
        Ok(())
    }

    /// Pages of the log that are not in the file yet.
    fn log_pages(&self) -> rusqlite::Result<u32> {
        let (all, moved) = log_state(&self.conn)?;
        Ok(all.saturating_sub(moved))
    }
}

/// Frames in the log, and how many of them are in the file itself.
fn log_state(conn: &Connection) -> rusqlite::Result<(u32, u32)> {
    let mut statement = conn.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
    statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}

/// Which files these are: the database, and its log. Under a running program their names may be deleted, or given to
/// others, and what is written then would be found by nobody.
struct Places {
    file: Option<Identity>,
    log: Option<Identity>,
}

/// Device and number of a file.
#[cfg(unix)]
type Identity = (u64, u64);

/// Where files that are open can be neither deleted nor renamed, being there says enough.
#[cfg(not(unix))]
type Identity = ();

impl Places {
    fn of(file: &Path) -> Self {
        Self {
            file: identity(file),
            log: identity(&schema::log_of(file)),
        }
    }

    fn check(&mut self, file: &Path) -> Result<(), String> {
        let log = schema::log_of(file);
        // Where only reads came before, SQLite makes the log with the first write.
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

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|_| ())
}

/// Whether SQLite was the one whose flush failed. It flushes the log before it moves pages to the file.
fn is_failed_flush(err: &rusqlite::Error) -> bool {
    let code = err.sqlite_error().map(|err| err.extended_code);
    matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

fn said(why: String) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
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
