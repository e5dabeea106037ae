//! Where handoffs, hidden pairs and conversations are kept.
//!
//! Knows records and durability; knows nothing of wires, requests or streams. A write that has returned
//! `Ok` survives a crash of the process.

pub mod memory;
pub mod seal;
pub mod sqlite;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::fs;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::config::StoreKind;
use crate::record::{Conversation, CutPoint, Handoff, HandoffId, HiddenPair};

/// What a store call returns: boxed, since the kind of store is chosen at run time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The store in use.
pub type SharedStore = Arc<dyn Store>;

/// Why the store did not answer. Always ours to own, and worth a retry.
#[derive(Debug, Clone)]
pub struct StoreError {
    /// What was tried and what came back, for the log.
    pub message: String,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

/// What `handoffs list` asks for.
#[derive(Debug, Clone, Default)]
pub struct HandoffFilter {
    /// Only this principal's.
    pub principal: Option<String>,
    /// Only this conversation's.
    pub conversation: Option<String>,
    /// Only those between these ids, both included.
    pub ids: Option<(HandoffId, HandoffId)>,
    /// Archived ones too.
    pub archived: bool,
    /// At most so many, newest first; 0 is no limit.
    pub limit: usize,
}

/// The three stores' common face. An id of another principal is unknown.
pub trait Store: Send + Sync + 'static {
    /// Its kind as the config names it: `memory`, `sqlite`.
    fn kind(&self) -> &'static str;

    /// A handoff by id.
    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> Answer<'a, Option<Handoff>>;

    /// Writes a handoff and the conversation that it changes, both or neither.
    fn put_handoff<'a>(&'a self, handoff: &'a Handoff, conversation: &'a Conversation) -> Answer<'a, ()>;

    /// Handoffs for people, newest first, without `head`'s text where the store can spare it.
    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> Answer<'a, Vec<Handoff>>;

    /// Marks a handoff as put away (or not); `false` where the id is unknown.
    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> Answer<'a, bool>;

    /// Hidden pairs by their ids (asides, and the pairs that a conversation lists). Unknown ids are left out.
    fn pairs<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> Answer<'a, Vec<HiddenPair>>;

    /// Hidden pairs that stand beside any of these call ids.
    fn pairs_beside<'a>(&'a self, principal: &'a str, siblings: &'a [String]) -> Answer<'a, Vec<HiddenPair>>;

    /// Writes pairs and the conversation that they change, all or nothing.
    fn put_pairs<'a>(&'a self, pairs: &'a [HiddenPair], conversation: &'a Conversation) -> Answer<'a, ()>;

    /// Writes where a handoff stands in the agent's transcript.
    fn put_cut_point<'a>(&'a self, point: &'a CutPoint) -> Answer<'a, ()>;

    /// Cut points by their handoffs' ids. Unknown ids are left out.
    fn cut_points<'a>(&'a self, principal: &'a str, handoffs: &'a [HandoffId]) -> Answer<'a, Vec<CutPoint>>;

    /// Cut points with any of these digests, oldest first.
    fn cut_points_at<'a>(&'a self, principal: &'a str, digests: &'a [String]) -> Answer<'a, Vec<CutPoint>>;

    /// A conversation by key.
    fn conversation<'a>(&'a self, key: &'a str) -> Answer<'a, Option<Conversation>>;

    /// Writes a conversation.
    fn put_conversation<'a>(&'a self, conversation: &'a Conversation) -> Answer<'a, ()>;

    /// The upstream response id that stands behind one the agent was shown (Responses API).
    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> Answer<'a, Option<String>>;

    /// Remembers what stands behind a response id.
    fn put_response_id<'a>(&'a self, principal: &'a str, shown: &'a str, upstream: &'a str)
    -> Answer<'a, ()>;

    /// Drops pairs, cut points, conversations and response ids not touched since `before_ms`; handoffs stay.
    /// Returns how many records went.
    fn sweep(&self, before_ms: u64) -> Answer<'_, u64>;

    /// Whether the store answers now: the way of reads.
    fn ping(&self) -> Answer<'_, ()>;

    /// Whether a record could be written now, durably: the way of writes, gone to its end. It may write a page that
    /// says nothing new; callers ask every few seconds at most.
    fn probe(&self) -> Answer<'_, ()> {
        self.ping()
    }
}

/// The store that `serve` works with. `sqlite` makes the state directory and the file where they are missing.
pub fn open(kind: &StoreKind, state_dir: &Path) -> Result<SharedStore, StoreError> {
    match kind {
        StoreKind::Memory => Ok(Arc::new(memory::MemoryStore::default())),
        StoreKind::Sqlite => Ok(Arc::new(sqlite::SqliteStore::open(state_dir)?)),
    }
}

/// The store as another process left or holds it, for commands: works beside a running proxy and without
/// one, makes no file, and is empty where there is none yet.
pub fn open_for_reading(kind: &StoreKind, state_dir: &Path) -> Result<SharedStore, StoreError> {
    match kind {
        StoreKind::Memory => Ok(Arc::new(memory::MemoryStore::default())),
        StoreKind::Sqlite => Ok(match sqlite::SqliteStore::open_existing(state_dir)? {
            Some(store) => Arc::new(store),
            None => Arc::new(memory::MemoryStore::default()),
        }),
    }
}

/// A write to a record that somebody else owns: ids are random, so this is a fault, never a race.
fn foreign(what: &str) -> StoreError {
    StoreError {
        message: format!("{what}: the id belongs to another principal"),
    }
}

/// Milliseconds since the Unix epoch, for what the store itself dates.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Makes the state directory, closed to other users: carry-over prompts hold what the agent saw.
pub(crate) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|err| StoreError {
        message: format!(
            "cannot make the state directory {}: {err}; give another with --state-dir",
            dir.display()
        ),
    })
}

/// How a private file is made: for its owner alone.
pub(crate) fn private_file() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a private file under a name of its own, lets `fill` write it, and gives it the real name when it is whole and
/// on the disk: who finds the file finds all of it, whenever its maker was killed. Where another process was
/// faster, its file is the one. `explain` tells what went wrong.
pub(crate) fn make_whole<E>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
    explain: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let temp = temporary(path).map_err(&explain)?;
    let filled = private_file().create_new(true).open(&temp).map_err(&explain);
    let filled = filled.and_then(|_| fill(&temp));
    let made = filled.and_then(|()| {
        let flushed = fs::File::open(&temp).and_then(|file| file.sync_all());
        flushed.and_then(|()| place(&temp, path)).map_err(&explain)
    });
    // Gone already where `place` had to rename.
    let _ = fs::remove_file(&temp);
    made
}

/// A name beside `path` that nobody else uses.
fn temporary(path: &Path) -> io::Result<PathBuf> {
    let mut tag = [0u8; 8];
    random(&mut tag)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", hex(&tag)));
    Ok(name.into())
}

fn place(temp: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(temp, path) {
        Ok(()) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // File systems without hard links: a rename is atomic, too, but the last one wins.
        Err(_) if path.exists() => Ok(()),
        Err(_) => fs::rename(temp, path),
    }
}

/// Names must survive a power loss, not the bytes alone.
fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|err| io::Error::other(err.to_string()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
