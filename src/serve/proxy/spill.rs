//! Spill of request bodies to disk while their responses stream.
//!
//! Bodies stay in memory up to a budget, and beyond it they go to a file. A body is needed again only if one
//! of baton's calls starts another leg. Few responses do that, and responses stream for minutes. The files
//! have no name, so they end with the process, however it ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use crate::state::store::make_dir;
use crate::state::sync::locked;

/// Length at which a file is full. Its space on the disk is freed with the last of its bodies.
const FILE_BYTES: u64 = 8 << 20;

/// Length below which a body is copied. A short one may be a slice of a larger read, and would hold all of it.
const COPIED_BELOW: usize = 16 << 10;

/// Keeps bodies in memory within a budget, and the rest in files. Clones share it.
#[derive(Clone)]
pub(crate) struct Spill(Arc<SpillBudget>);

struct SpillBudget {
    dir: PathBuf,
    budget: usize,
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

struct SpillFile(Mutex<File>);

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
    /// Creates a spill that holds up to `budget` bytes in memory, and the rest in files in `dir`.
    pub(crate) fn new(dir: PathBuf, budget: usize) -> Self {
        Self(Arc::new(SpillBudget {
            dir,
            budget,
            in_memory: AtomicUsize::new(0),
            writing: Mutex::default(),
            warned: AtomicBool::new(false),
        }))
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
        let file = self.file()?;
        let (at, len) = (file.write(&text)?, text.len());
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
        let file = Arc::new(SpillFile(Mutex::new(tempfile::tempfile_in(&self.dir)?)));
        locked(&self.writing).file = Some(Arc::clone(&file));
        Ok(file)
    }
}

impl SpillFile {
    /// Appends `text` and returns its offset.
    fn write(&self, text: &[u8]) -> io::Result<u64> {
        let mut file = locked(&self.0);
        let at = file.seek(SeekFrom::End(0))?;
        file.write_all(text)?;
        Ok(at)
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        let mut text = vec![0; len];
        let mut file = locked(&self.0);
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut text)?;
        Ok(text.into())
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
        let spill = Spill::new(dir.path().join("state"), 100_000);
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
        let spill = Spill::new(dir.path().to_owned(), 0);
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
        let spill = Spill::new(taken, 0);
        let spilled = spill.keep(text(7, 20_000));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(spilled.text().await.unwrap(), text(7, 20_000));
        assert_eq!(spill.in_memory(), 20_000);
        drop(spilled);
        assert_eq!(spill.in_memory(), 0);
    }

    #[tokio::test]
    async fn a_small_text_does_not_hold_what_it_was_read_with() {
        let spill = Spill::new(PathBuf::new(), 100);
        let read = text(1, 8192);
        let spilled = spill.keep(read.slice(..50));
        assert_ne!(spilled.0.in_memory().unwrap().as_ptr(), read.as_ptr());
        assert_eq!(spilled.0.in_memory().unwrap(), read[..50]);
    }
}
