//! Spill of request bodies to disk while their responses stream.
//!
//! Bodies stay in memory up to a budget, and beyond it they go to a file. A body is needed again only if one
//! of baton's calls starts another leg. Few responses do that, and responses stream for minutes. The files
//! have no name, so they end with the process, however it ends. Beyond a limit of all files, bodies stay in memory, where
//! `limits.bodies_bytes` bounds them. A client's open requests are refused beyond its share.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::fault::{Code, Fault};
use crate::state::config::LimitConfig;
use crate::state::disk;
use crate::state::store::make_dir;
use crate::state::sync::locked;
use baton_core::record::LOCAL;

/// Length at which a file is full. Its space on the disk is freed with the last of its bodies.
const FILE_BYTES: u64 = 8 << 20;

/// Length below which a body is copied. A short one may be a slice of a larger read, and would hold all of it.
const COPIED_BELOW: usize = 16 << 10;

/// Maximum bytes of all files, relative to the memory of bodies: disk space costs less.
const FILES_PER_MEMORY: usize = 8;

/// Largest part of the free space that files may take, as a divisor. Store and journal need the rest.
const PART_OF_DISK: u64 = 2;

/// Largest part of the files that one client's open requests may take, as a divisor.
const PART_OF_FILES: usize = 4;

/// Keeps bodies in memory within a budget, and the rest in files. Clones share it.
#[derive(Clone)]
pub(crate) struct Spill(Arc<SpillBudget>);

struct SpillBudget {
    dir: PathBuf,
    budget: usize,
    max_file_bytes: usize,
    /// Bytes of all files, including those of bodies that are no longer needed.
    file_bytes: Arc<AtomicUsize>,
    /// Bytes of open requests by client.
    clients: Mutex<HashMap<String, usize>>,
    /// Bytes of bodies in memory, including those that wait to be written.
    in_memory: AtomicUsize,
    writing: Mutex<Writing>,
    warned: AtomicBool,
}

/// Queue of bodies to write. One thread of the blocking pool drains it.
#[derive(Default)]
struct Writing {
    queue: VecDeque<Weak<Entry>>,
    draining: bool,
    /// The current file.
    file: Option<Arc<SpillFile>>,
}

struct SpillFile {
    file: Mutex<File>,
    len: AtomicUsize,
    /// Length of all files.
    all: Arc<AtomicUsize>,
}

/// An open request of a client, which counts until this is dropped.
pub struct OpenRequest {
    spill: Arc<SpillBudget>,
    client: String,
    len: usize,
}

/// A body held by the spill. Clones share it, and the last one frees its space.
#[derive(Clone)]
pub struct Spilled(Arc<Entry>);

struct Entry {
    spill: Arc<SpillBudget>,
    len: usize,
    text: Mutex<Text>,
}

enum Text {
    InMemory(Bytes),
    InFile { file: Arc<SpillFile>, at: u64 },
}

impl std::fmt::Debug for Spilled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spilled({} bytes)", self.0.len)
    }
}

impl Spill {
    /// Creates a spill that holds up to `request_buffer_bytes` in memory, and the rest in files in `dir`.
    pub(crate) fn new(dir: PathBuf, limits: &LimitConfig) -> Self {
        let free =
            disk::free_bytes(&dir).map(|free| usize::try_from(free / PART_OF_DISK).unwrap_or(usize::MAX));
        let most = limits.bodies_bytes.saturating_mul(FILES_PER_MEMORY);
        Self(Arc::new(SpillBudget {
            dir,
            budget: limits.request_buffer_bytes,
            max_file_bytes: free.map_or(most, |free| free.min(most)),
            file_bytes: Arc::default(),
            clients: Mutex::default(),
            in_memory: AtomicUsize::new(0),
            writing: Mutex::default(),
            warned: AtomicBool::new(false),
        }))
    }

    /// Counts a request of a client while it is open. `None` for the user of a proxy without clients, who has all of it.
    ///
    /// # Errors
    /// [`Code::BODIES_FULL`] beyond the client's share. A client without another open request is never refused.
    pub(crate) fn open(&self, client: &str, len: usize) -> Result<Option<Arc<OpenRequest>>, Fault> {
        if client == LOCAL {
            return Ok(None);
        }
        let share = self.0.max_file_bytes / PART_OF_FILES;
        let mut clients = locked(&self.0.clients);
        let bytes = clients.entry(client.to_owned()).or_default();
        if *bytes > 0 && *bytes + len > share {
            let detail = format!("this client's open requests take more than its share of {share} bytes");
            return Err(Fault::because(Code::BODIES_FULL, detail));
        }
        *bytes += len;
        Ok(Some(Arc::new(OpenRequest {
            spill: Arc::clone(&self.0),
            client: client.to_owned(),
            len,
        })))
    }

    /// Takes over a body without waiting. Must be called inside a runtime.
    pub(crate) fn keep(&self, text: Bytes) -> Spilled {
        let (spill, len) = (&self.0, text.len());
        let text = if len < COPIED_BELOW {
            Bytes::copy_from_slice(&text)
        } else {
            text
        };
        let in_memory = spill.in_memory.fetch_add(len, Relaxed) + len;
        let entry = Arc::new(Entry {
            spill: Arc::clone(spill),
            len,
            text: Mutex::new(Text::InMemory(text)),
        });
        if in_memory > spill.budget {
            spill.write_later(&entry);
        }
        Spilled(entry)
    }
}

impl Spilled {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// Returns the body, read back if it was written to a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) async fn text(&self) -> io::Result<Bytes> {
        let (file, at) = match &*locked(&self.0.text) {
            Text::InMemory(text) => return Ok(text.clone()),
            Text::InFile { file, at } => (Arc::clone(file), *at),
        };
        let len = self.0.len;
        let read = tokio::task::spawn_blocking(move || file.read(at, len));
        read.await.map_err(io::Error::other)?
    }
}

impl SpillBudget {
    fn write_later(self: &Arc<Self>, entry: &Arc<Entry>) {
        let mut writing = locked(&self.writing);
        // Weak, so that a body whose response ends while it waits need not be written.
        writing.queue.push_back(Arc::downgrade(entry));
        if !std::mem::replace(&mut writing.draining, true) {
            let spill = Arc::clone(self);
            tokio::task::spawn_blocking(move || spill.drain_queue());
        }
    }

    fn drain_queue(&self) {
        while let Some(entry) = self.next() {
            // The response has ended, so its body is no longer needed.
            let Some(entry) = entry.upgrade() else { continue };
            if let Err(error) = self.write(&entry)
                // Logged once, because later bodies would fail for the same reason.
                && !self.warned.swap(true, Relaxed)
            {
                tracing::warn!(%error, dir = %self.dir.display(), "failed to write request bodies to disk; keeping them in memory");
            }
        }
    }

    fn next(&self) -> Option<Weak<Entry>> {
        let mut writing = locked(&self.writing);
        let next = writing.queue.pop_front();
        // Decided under the lock, so that a body queued after this starts another drain.
        writing.draining = next.is_some();
        next
    }

    /// Writes a body into the current file. If that fails, the body stays in memory.
    fn write(&self, entry: &Entry) -> io::Result<()> {
        let Some(text) = entry.in_memory() else {
            return Ok(());
        };
        let len = text.len();
        if self.file_bytes.load(Relaxed) + len > self.max_file_bytes {
            return Err(io::Error::other("the files have reached their limit"));
        }
        let file = self.file()?;
        let at = file.write(&text)?;
        // The file is full: the next body begins another.
        if at + len as u64 >= FILE_BYTES {
            locked(&self.writing).file = None;
        }
        // Switched only after the write, so that readers use the copy in memory until then.
        *locked(&entry.text) = Text::InFile { file, at };
        self.in_memory.fetch_sub(len, Relaxed);
        Ok(())
    }

    /// Returns the current file, and creates it if necessary.
    fn file(&self) -> io::Result<Arc<SpillFile>> {
        if let Some(file) = &locked(&self.writing).file {
            return Ok(Arc::clone(file));
        }
        make_dir(&self.dir).map_err(|error| io::Error::other(error.to_string()))?;
        let file = Arc::new(SpillFile {
            file: Mutex::new(tempfile::tempfile_in(&self.dir)?),
            len: AtomicUsize::new(0),
            all: Arc::clone(&self.file_bytes),
        });
        locked(&self.writing).file = Some(Arc::clone(&file));
        Ok(file)
    }
}

impl SpillFile {
    /// Appends `text` and returns its offset.
    fn write(&self, text: &[u8]) -> io::Result<u64> {
        let mut file = locked(&self.file);
        let at = file.seek(SeekFrom::End(0))?;
        // Counted before the write, because a write that fails may still take space.
        for length in [&self.len, &*self.all] {
            length.fetch_add(text.len(), Relaxed);
        }
        file.write_all(text)?;
        Ok(at)
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        let mut text = vec![0; len];
        let mut file = locked(&self.file);
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut text)?;
        Ok(text.into())
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.len.get_mut(), Relaxed);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut clients = locked(&self.spill.clients);
        if let Some(bytes) = clients.get_mut(&self.client) {
            *bytes -= self.len;
            if *bytes == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

impl Entry {
    fn in_memory(&self) -> Option<Bytes> {
        match &*locked(&self.text) {
            Text::InMemory(text) => Some(text.clone()),
            Text::InFile { .. } => None,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let text = self.text.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Text::InMemory(text) = text {
            self.spill.in_memory.fetch_sub(text.len(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    impl Spill {
        /// Bytes of bodies in memory.
        pub(in crate::proxy) fn in_memory(&self) -> usize {
            self.0.in_memory.load(Relaxed)
        }
    }

    fn spill(dir: &Path, budget: usize) -> Spill {
        let limits = LimitConfig {
            request_buffer_bytes: budget,
            bodies_bytes: 2 << 20,
            ..LimitConfig::default()
        };
        Spill::new(dir.to_owned(), &limits)
    }

    fn text(byte: u8, len: usize) -> Bytes {
        vec![byte; len].into()
    }

    async fn settled(spill: &Spill, in_memory: usize) {
        for _ in 0..500 {
            if spill.in_memory() == in_memory {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} bytes in_memory, not {in_memory}", spill.in_memory());
    }

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[tokio::test]
    async fn what_is_over_the_budget_goes_to_a_file_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let spill = spill(&dir.path().join("state"), 100_000);
        let all: Vec<_> = (0..20).map(|i| spill.keep(text(i, 30_000))).collect();
        settled(&spill, 90_000).await;
        for (i, spilled) in all.iter().enumerate() {
            assert_eq!(spilled.0.in_memory().is_some(), i < 3);
            assert_eq!(spilled.text().await.unwrap(), text(i as u8, 30_000));
        }
        assert_eq!(files(&dir.path().join("state")), 0, "no file has a name");
        drop(all);
        assert_eq!(spill.in_memory(), 0);
    }

    #[tokio::test]
    async fn a_full_file_is_left_to_its_texts() {
        let dir = tempfile::tempdir().unwrap();
        let spill = spill(dir.path(), 0);
        let big = FILE_BYTES as usize;
        let first = spill.keep(text(1, big));
        settled(&spill, 0).await;
        assert!(locked(&spill.0.writing).file.is_none());
        let second = spill.keep(text(2, 10));
        settled(&spill, 0).await;
        assert_eq!(first.text().await.unwrap(), text(1, big));
        assert_eq!(second.text().await.unwrap(), text(2, 10));
    }

    #[tokio::test]
    async fn without_a_file_a_text_stays_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        let spill = spill(&taken, 0);
        let spilled = spill.keep(text(7, 20_000));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(spilled.text().await.unwrap(), text(7, 20_000));
        assert_eq!(spill.in_memory(), 20_000);
        drop(spilled);
        assert_eq!(spill.in_memory(), 0);
    }

    /// Beyond the limit a text stays in memory, until files are gone with their texts.
    #[tokio::test]
    async fn all_files_together_have_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let spill = spill(dir.path(), 0);
        let (big, most) = (FILE_BYTES as usize, spill.0.max_file_bytes);
        let mut all: Vec<_> = (0..most / big).map(|_| spill.keep(text(1, big))).collect();
        settled(&spill, 0).await;
        let over = spill.keep(text(2, big));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((spill.in_memory(), spill.0.file_bytes.load(Relaxed)), (big, most));
        drop((over, all.pop()));
        all.push(spill.keep(text(3, big)));
        settled(&spill, 0).await;
        drop(all);
        assert_eq!(spill.0.file_bytes.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn a_client_has_a_share() {
        let dir = tempfile::tempdir().unwrap();
        let spill = spill(dir.path(), 0);
        let share = spill.0.max_file_bytes / PART_OF_FILES;
        // The first request may be as large as any.
        let first = spill.open("ada", share + 1).unwrap();
        assert_eq!(spill.open("ada", 1).err().unwrap().code, Code::BODIES_FULL);
        let other = spill.open("bob", share).unwrap();
        assert!(spill.open(LOCAL, usize::MAX).unwrap().is_none());
        drop(first);
        drop(spill.open("ada", share).unwrap());
        drop(other);
        assert!(locked(&spill.0.clients).is_empty());
    }

    #[tokio::test]
    async fn a_small_text_does_not_hold_what_it_was_read_with() {
        let spill = spill(Path::new(""), 100);
        let read = text(1, 8192);
        let spilled = spill.keep(read.slice(..50));
        assert_ne!(spilled.0.in_memory().unwrap().as_ptr(), read.as_ptr());
        assert_eq!(spilled.0.in_memory().unwrap(), read[..50]);
    }
}
