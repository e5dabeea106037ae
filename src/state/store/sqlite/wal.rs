//! Rewrites the write-ahead log as a file, after checking it against its own checksums.
//!
//! Format: <https://sqlite.org/fileformat2.html#the_write_ahead_log>.
//!
//! A failed flush leaves the kernel's pages clean although the disk does not have them, and the next flush
//! succeeds without them (Linux reports such a failure once). A later flush therefore proves nothing about
//! earlier frames until their bytes have been written again.

use std::io::{self, Read, Seek, SeekFrom, Write};

/// Bytes of the file header. The last eight are its checksum.
const HEADER: usize = 32;

/// Bytes of the header before each page. The last eight are the checksum of all frames so far.
const FRAME: usize = 24;

/// The magic number. Its last bit means that checksums use big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// The largest page size of SQLite.
const LARGEST_PAGE: usize = 64 << 10;

/// Rewrites every frame that the chain of checksums proves complete, and returns their number.
///
/// Writes exactly the bytes that were checked. The caller holds the database's write lock, and flushes
/// afterwards.
pub(super) fn rewrite(log: &mut (impl Read + Write + Seek)) -> io::Result<u64> {
    log.rewind()?;
    let mut header = [0; HEADER];
    if !filled(log, &mut header)? {
        return Ok(0);
    }
    let Some(mut chain) = Chain::begin(&header) else {
        return Ok(0);
    };
    log.rewind()?;
    // The page with the header may have been lost like any other.
    log.write_all(&header)?;
    let mut frame = vec![0; FRAME + chain.page];
    let mut frames = 0;
    let mut at = HEADER as u64;
    loop {
        log.seek(SeekFrom::Start(at))?;
        if !filled(log, &mut frame)? || !chain.holds(&frame) {
            return Ok(frames);
        }
        log.seek(SeekFrom::Start(at))?;
        log.write_all(&frame)?;
        at += frame.len() as u64;
        frames += 1;
    }
}

/// Fills the buffer. Returns `false` at the end of the file.
fn filled(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The chain of checksums: each frame's checksum depends on all frames before it.
struct Chain {
    big_endian: bool,
    page: usize,
    salt: [u8; 8],
    sum: [u32; 2],
}

impl Chain {
    /// Begins a chain with the file header. Returns `None` if the header is incomplete or invalid.
    fn begin(header: &[u8; HEADER]) -> Option<Self> {
        let magic = word(header, 0);
        let page = usize::try_from(word(header, 8)).ok()?;
        let mut chain = Self {
            big_endian: magic & 1 == 1,
            page,
            salt: header[16..24].try_into().ok()?,
            sum: [0; 2],
        };
        chain.add(&header[..24]);
        let whole = magic & !1 == MAGIC
            && page.is_power_of_two()
            && (512..=LARGEST_PAGE).contains(&page)
            && chain.sum == [word(header, 24), word(header, 28)];
        whole.then_some(chain)
    }

    /// Whether this frame is the next one in the chain.
    fn holds(&mut self, frame: &[u8]) -> bool {
        // SQLite changes the salt when it restarts the log, so other frames are left over from before.
        if frame[8..16] != self.salt {
            return false;
        }
        self.add(&frame[..8]);
        self.add(&frame[FRAME..]);
        self.sum == [word(frame, 16), word(frame, 20)]
    }

    fn add(&mut self, bytes: &[u8]) {
        let read = |four: &[u8]| {
            let four = [four[0], four[1], four[2], four[3]];
            match self.big_endian {
                true => u32::from_be_bytes(four),
                false => u32::from_le_bytes(four),
            }
        };
        let [mut first, mut second] = self.sum;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(read(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(read(&pair[4..])).wrapping_add(first);
        }
        self.sum = [first, second];
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;

    use rusqlite::Connection;

    use super::*;

    /// Returns a log written by SQLite, and the number of frames that SQLite reports.
    fn log() -> (Vec<u8>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.db");
        let conn = Connection::open(&file).unwrap();
        conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x); PRAGMA wal_autocheckpoint = 0;")
            .unwrap();
        for n in 0..20 {
            conn.execute("INSERT INTO t VALUES (zeroblob(?1))", [n * 300])
                .unwrap();
        }
        let frames = conn.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1));
        let bytes = fs::read(dir.path().join("x.db-wal")).unwrap();
        (bytes, frames.unwrap())
    }

    /// Records which bytes were written.
    struct Watched {
        inner: Cursor<Vec<u8>>,
        written: Vec<bool>,
    }

    impl Read for Watched {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.inner.read(buffer)
        }
    }

    impl Write for Watched {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let at = usize::try_from(self.inner.position()).unwrap();
            self.written[at..at + bytes.len()].fill(true);
            self.inner.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Watched {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.inner.seek(to)
        }
    }

    #[test]
    fn every_byte_of_a_whole_log_is_written_again_and_stays_the_same() {
        let (bytes, frames) = log();
        assert!(frames > 20, "{frames}");
        let mut watched = Watched {
            written: vec![false; bytes.len()],
            inner: Cursor::new(bytes.clone()),
        };
        assert_eq!(rewrite(&mut watched).unwrap(), frames);
        assert!(watched.written.iter().all(|written| *written));
        assert_eq!(watched.inner.into_inner(), bytes);
    }

    #[test]
    fn a_hole_ends_the_chain() {
        let (bytes, frames) = log();
        let frame = (bytes.len() - HEADER) / usize::try_from(frames).unwrap();
        for hole in [0, 5, frames - 1] {
            let mut damaged = bytes.clone();
            let at = HEADER + usize::try_from(hole).unwrap() * frame + frame / 2;
            damaged[at..at + 64].fill(0xa5);
            assert_eq!(rewrite(&mut Cursor::new(damaged)).unwrap(), hole);
        }
        let mut damaged = bytes;
        damaged[9] ^= 1;
        assert_eq!(rewrite(&mut Cursor::new(damaged)).unwrap(), 0);
        assert_eq!(rewrite(&mut Cursor::new(Vec::new())).unwrap(), 0);
    }
}
