//! Reads all files in parallel within bounds: up to four threads, each of which holds one line at a time.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::files;
use super::places::SessionFile;
use crate::cli::output::size;
use baton_core::trial::{RecordedSession, TrialReader};

/// Maximum number of threads; each holds a line in memory.
const THREADS: usize = 4;

/// Delay before the first drawing of the bar, the interval between drawings, and its width.
const SILENT: Duration = Duration::from_secs(1);
const REDRAWN: Duration = Duration::from_millis(100);
const BAR: u64 = 30;

/// Result of reading all files.
pub(super) struct Gathered {
    pub(super) sessions: Vec<RecordedSession>,
    /// Files that were not read completely, each with the reason.
    pub(super) unread: Vec<String>,
    pub(super) files: usize,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// Reads the files. The result does not depend on the order.
pub(super) fn all(files: &[SessionFile], tags: &[String]) -> Gathered {
    let began = Instant::now();
    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let read = thread::scope(|scope| {
        if io::stderr().is_terminal() {
            scope.spawn(|| draw(&done, &ended, bytes));
        }
        let read = in_parallel(files, |at, file| {
            let read = one(at, file, tags);
            done.fetch_add(file.bytes, Ordering::Relaxed);
            read
        });
        ended.store(true, Ordering::Relaxed);
        read
    });
    let (sessions, unread): (Vec<_>, Vec<_>) = read.into_iter().unzip();
    let mut unread: Vec<String> = unread.into_iter().flatten().collect();
    unread.sort();
    Gathered {
        sessions: sessions.into_iter().flatten().collect(),
        unread,
        files: files.len(),
        bytes,
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// Maps all items in parallel and keeps their order.
pub(super) fn in_parallel<T: Sync, R: Send>(all: &[T], make: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let next = AtomicUsize::new(0);
    let work = || {
        // Each worker takes the next file when it is done, so that a large file does not hold up the others.
        let places = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let places = places.map_while(|at| Some((at, make(at, all.get(at)?))));
        places.collect::<Vec<_>>()
    };
    let mut made = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(THREADS)).map(|_| scope.spawn(work)).collect();
        let made = workers.into_iter().map(|worker| worker.join());
        // A panic is passed on. Without that, the sessions of its worker would be missing in silence.
        let made = made.map(|made| made.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        made.flatten().collect::<Vec<_>>()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, one)| one).collect()
}

fn one(at: usize, file: &SessionFile, tags: &[String]) -> (Vec<RecordedSession>, Option<String>) {
    let mut reader = TrialReader::new(u32::try_from(at).unwrap_or(u32::MAX), tags);
    let read = match file.old {
        true => Some("an earlier version of the agent wrote it, whose format is not known here".to_owned()),
        false => files::read(&file.path, &mut |entry| reader.entry(entry)),
    };
    let sessions = reader.into_sessions();
    // A file of another kind may read without an error and still have no call.
    let is_foreign = sessions.is_empty() && file.bytes > 0;
    let foreign = || is_foreign.then(|| "it has no usage of a model's call".to_owned());
    let unread = |reason| format!("{}: {reason}", file.path.display());
    (sessions, read.or_else(foreign).map(unread))
}

/// Draws a bar on a terminal if reading takes longer than a second.
fn draw(done: &AtomicU64, ended: &AtomicBool, bytes: u64) {
    let began = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        thread::sleep(REDRAWN);
        if began.elapsed() < SILENT || ended.load(Ordering::Relaxed) {
            continue;
        }
        let done = done.load(Ordering::Relaxed);
        let cells = (done * BAR / bytes.max(1)) as usize;
        let bar = format!("{:░<1$}", "█".repeat(cells), BAR as usize);
        _ = write!(io::stderr(), "\r{bar} {} of {}", size(done), size(bytes));
    }
    if began.elapsed() >= SILENT {
        // Erases the bar, so that the result begins on an empty line.
        _ = write!(io::stderr(), "\r\x1b[2K");
    }
}
