//! Request texts that are put by while their answers stream: in memory up to a bound, beyond it in a file.
//!
//! A text is needed again only where a call of ours starts another leg, which few answers do, and answers stream
//! for minutes. The files have no name: they end with the process, however it ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::store::make_dir;

/// Texts are written one behind the other into a file until it is this long; the next ones go into another. Its
/// room on the disk is free when the last of its texts is gone.
const SHEET_BYTES: u64 = 8 << 20;

/// A text shorter than this may be a slice of what was read from the agent at once, and would hold all of that.
const COPIED_BELOW: usize = 16 << 10;

/// Where texts are put by. Clones share it.
#[derive(Clone)]
pub(crate) struct Shelf(Arc<Shared>);

struct Shared {
    dir: PathBuf,
    budget: usize,
    /// Bytes of texts in memory, those that wait to be written included.
    held: AtomicUsize,
    writing: Mutex<Writing>,
    warned: AtomicBool,
}

/// What one thread of the pool works off, while there is something to do.
#[derive(Default)]
struct Writing {
    queue: VecDeque<Weak<Slot>>,
    under_way: bool,
    /// The file that is written to now.
    sheet: Option<Arc<Sheet>>,
}

struct Sheet(Mutex<File>);

/// A text that was put by. Clones share it.
#[derive(Clone)]
pub(crate) struct Shelved(Arc<Slot>);

struct Slot {
    shelf: Arc<Shared>,
    text: Mutex<Text>,
}

enum Text {
    Here(Bytes),
    Away { sheet: Arc<Sheet>, at: u64, len: usize },
}

impl Shelf {
    /// A shelf that holds up to `budget` bytes in memory, and the rest in files in `dir`.
    pub(crate) fn new(dir: PathBuf, budget: usize) -> Self {
        Self(Arc::new(Shared {
            dir,
            budget,
            held: AtomicUsize::new(0),
            writing: Mutex::default(),
            warned: AtomicBool::new(false),
        }))
    }

    /// Puts a text by. Must be called inside a runtime; does not wait.
    pub(crate) fn put(&self, text: Bytes) -> Shelved {
        let (shelf, len) = (&self.0, text.len());
        let text = if len < COPIED_BELOW {
            Bytes::copy_from_slice(&text)
        } else {
            text
        };
        let held = shelf.held.fetch_add(len, Relaxed) + len;
        let slot = Arc::new(Slot {
            shelf: Arc::clone(shelf),
            text: Mutex::new(Text::Here(text)),
        });
        if held > shelf.budget {
            shelf.write_later(&slot);
        }
        Shelved(slot)
    }

    /// Bytes of texts in memory.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Relaxed)
    }
}

impl Shelved {
    /// The text, if it is in memory.
    #[cfg(test)]
    pub(crate) fn here(&self) -> Option<Bytes> {
        self.0.here()
    }

    /// The text, read back where it was written to a file.
    pub(crate) async fn text(&self) -> io::Result<Bytes> {
        let (sheet, at, len) = match &*lock(&self.0.text) {
            Text::Here(text) => return Ok(text.clone()),
            Text::Away { sheet, at, len } => (Arc::clone(sheet), *at, *len),
        };
        let read = tokio::task::spawn_blocking(move || sheet.read(at, len));
        read.await.map_err(io::Error::other)?
    }
}

impl Shared {
    fn write_later(self: &Arc<Self>, slot: &Arc<Slot>) {
        let mut writing = lock(&self.writing);
        writing.queue.push_back(Arc::downgrade(slot));
        if !std::mem::replace(&mut writing.under_way, true) {
            let shelf = Arc::clone(self);
            tokio::task::spawn_blocking(move || shelf.work_off());
        }
    }

    fn work_off(&self) {
        while let Some(slot) = self.next() {
            // Most answers that are over by now were short.
            let Some(slot) = slot.upgrade() else { continue };
            if let Err(error) = self.write(&slot)
                && !self.warned.swap(true, Relaxed)
            {
                tracing::warn!(%error, dir = %self.dir.display(), "request texts stay in memory: no file for them");
            }
        }
    }

    fn next(&self) -> Option<Weak<Slot>> {
        let mut writing = lock(&self.writing);
        let next = writing.queue.pop_front();
        writing.under_way = next.is_some();
        next
    }

    /// Writes a text into the present file. Where that fails it stays where it is.
    fn write(&self, slot: &Slot) -> io::Result<()> {
        let Some(text) = slot.here() else {
            return Ok(());
        };
        let sheet = self.sheet()?;
        let (at, len) = (sheet.write(&text)?, text.len());
        if at + len as u64 >= SHEET_BYTES {
            lock(&self.writing).sheet = None;
        }
        *lock(&slot.text) = Text::Away { sheet, at, len };
        self.held.fetch_sub(len, Relaxed);
        Ok(())
    }

    /// The file to write to.
    fn sheet(&self) -> io::Result<Arc<Sheet>> {
        if let Some(sheet) = &lock(&self.writing).sheet {
            return Ok(Arc::clone(sheet));
        }
        make_dir(&self.dir).map_err(|error| io::Error::other(error.to_string()))?;
        let sheet = Arc::new(Sheet(Mutex::new(tempfile::tempfile_in(&self.dir)?)));
        lock(&self.writing).sheet = Some(Arc::clone(&sheet));
        Ok(sheet)
    }
}

impl Sheet {
    /// Writes at the end; says where that is.
    fn write(&self, text: &[u8]) -> io::Result<u64> {
        let mut file = lock(&self.0);
        let at = file.seek(SeekFrom::End(0))?;
        file.write_all(text)?;
        Ok(at)
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Bytes> {
        let mut text = vec![0; len];
        let mut file = lock(&self.0);
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut text)?;
        Ok(text.into())
    }
}

impl Slot {
    fn here(&self) -> Option<Bytes> {
        match &*lock(&self.text) {
            Text::Here(text) => Some(text.clone()),
            Text::Away { .. } => None,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let text = self.text.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Text::Here(text) = text {
            self.shelf.held.fetch_sub(text.len(), Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    fn text(byte: u8, len: usize) -> Bytes {
        vec![byte; len].into()
    }

    async fn settled(shelf: &Shelf, held: usize) {
        for _ in 0..500 {
            if shelf.held() == held {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} bytes held, not {held}", shelf.held());
    }

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[tokio::test]
    async fn what_is_over_the_budget_goes_to_a_file_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("state"), 100_000);
        let all: Vec<_> = (0..20).map(|i| shelf.put(text(i, 30_000))).collect();
        settled(&shelf, 90_000).await;
        for (i, shelved) in all.iter().enumerate() {
            assert_eq!(shelved.here().is_some(), i < 3);
            assert_eq!(shelved.text().await.unwrap(), text(i as u8, 30_000));
        }
        assert_eq!(files(&dir.path().join("state")), 0, "no file has a name");
        drop(all);
        assert_eq!(shelf.held(), 0);
    }

    #[tokio::test]
    async fn a_full_file_is_left_to_its_texts() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().to_owned(), 0);
        let big = SHEET_BYTES as usize;
        let first = shelf.put(text(1, big));
        settled(&shelf, 0).await;
        assert!(lock(&shelf.0.writing).sheet.is_none());
        let second = shelf.put(text(2, 10));
        settled(&shelf, 0).await;
        assert_eq!(first.text().await.unwrap(), text(1, big));
        assert_eq!(second.text().await.unwrap(), text(2, 10));
    }

    #[tokio::test]
    async fn without_a_file_a_text_stays_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let taken = dir.path().join("taken");
        std::fs::write(&taken, "").unwrap();
        let shelf = Shelf::new(taken, 0);
        let shelved = shelf.put(text(7, 20_000));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(shelved.text().await.unwrap(), text(7, 20_000));
        assert_eq!(shelf.held(), 20_000);
        drop(shelved);
        assert_eq!(shelf.held(), 0);
    }

    #[tokio::test]
    async fn a_small_text_does_not_hold_what_it_was_read_with() {
        let shelf = Shelf::new(PathBuf::new(), 100);
        let read = text(1, 8192);
        let shelved = shelf.put(read.slice(..50));
        assert_ne!(shelved.here().unwrap().as_ptr(), read.as_ptr());
        assert_eq!(shelved.here().unwrap(), read[..50]);
    }
}
