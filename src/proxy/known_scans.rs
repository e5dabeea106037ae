//! Passes by what was scanned before: an agent sends its whole conversation again with each request, and the scan of a body
//! costs more than all else that is done with its bytes.
//!
//! A body is hashed block by block while it arrives, each hash being of all up to the block's end (the journal needs the same
//! hashes). Where a hash is known, so is what the scan found in the block.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::journal::{BEGINNINGS_BLOCK, Beginnings, KeyedHash};
use crate::mark::STEM;
use crate::text::prescan::{Prescan, Prescanner, Stretch};

/// Bytes of what scans found that are kept: a conversation of 1 MB takes some tens of kilobytes.
const KEPT_BYTES: u64 = 16 << 20;

/// Number of blocks that the cache's tables are made for.
const BLOCKS: usize = 4 * 1024;

/// What scans found, by the hash of all up to the block's end.
pub(crate) struct KnownScans {
    blocks: Cache<KeyedHash, Arc<Stretch>, BySize>,
    /// Hashes no body yet; a copy hashes each body where the journal is off.
    unrecorded: Beginnings,
}

/// Weighs what is kept of a block by the bytes that it takes.
#[derive(Clone)]
struct BySize;

impl Weighter<KeyedHash, Arc<Stretch>> for BySize {
    fn weight(&self, _: &KeyedHash, stretch: &Arc<Stretch>) -> u64 {
        stretch.size() as u64
    }
}

impl KnownScans {
    pub(super) fn new() -> Self {
        Self {
            blocks: Cache::with_weighter(BLOCKS, KEPT_BYTES, BySize),
            unrecorded: Beginnings::with_own_key(),
        }
    }

    /// Reads one body; `recorded` are the journal's hashes of it, where there is a journal.
    pub(super) fn reader(&self, recorded: Option<Beginnings>) -> BodyReader<'_> {
        BodyReader {
            scans: self,
            prescanner: Prescanner::seeking(STEM),
            is_recorded: recorded.is_some(),
            beginnings: recorded.unwrap_or_else(|| self.unrecorded.clone()),
            blocks: 0,
            is_known: true,
        }
    }
}

/// Reads a body while it arrives, when each block is still in the cache.
pub(super) struct BodyReader<'a> {
    scans: &'a KnownScans,
    prescanner: Prescanner,
    /// Whether the journal asked for the hashes.
    is_recorded: bool,
    beginnings: Beginnings,
    /// Blocks that are scanned or passed by.
    blocks: usize,
    /// Whether all of them were known.
    is_known: bool,
}

impl BodyReader<'_> {
    /// `text` is all that has arrived. What is no whole block yet waits for the rest of it.
    pub(super) fn read(&mut self, text: &[u8]) {
        self.beginnings.read(text);
        for hash in &self.beginnings.hashes()[self.blocks..] {
            self.blocks += 1;
            let known = match self.is_known {
                true => self.scans.blocks.get(hash),
                // Nothing is known behind what is not.
                false => None,
            };
            match known {
                Some(stretch) => self.prescanner.pass(&stretch),
                None => {
                    self.is_known = false;
                    let stretch = self.prescanner.stretch(&text[..self.blocks * BEGINNINGS_BLOCK]);
                    self.scans.blocks.insert(*hash, Arc::new(stretch));
                }
            }
        }
    }

    /// What was found in `text`, the whole body, and the journal's hashes of it.
    pub(super) fn done(self, text: &[u8]) -> (Prescan, Option<Beginnings>) {
        let prescan = self.prescanner.done(text);
        (prescan, self.is_recorded.then_some(self.beginnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Span, cost};
    use pretty_assertions::assert_eq;

    /// A transcript of some bytes; the word that is looked for stands in every tenth message.
    fn transcript(bytes: usize) -> String {
        let mut text = String::from(r#"{"messages":["#);
        for n in 0.. {
            let word = if n % 10 == 0 { "[[handoff-" } else { "" };
            text += &format!(r#"{{"role":"user","content":[{{"type":"text","text":"{n} {word}\\n\"said\" "#);
            text += &"and so on ".repeat(n % 40);
            text += r#""}]},"#;
            if text.len() > bytes {
                break;
            }
        }
        text
    }

    /// Reads a text that arrives in pieces, and the bytes that were scanned for it.
    fn read(scans: &KnownScans, text: &[u8], piece: usize) -> (u64, Prescan) {
        cost::of(|| {
            let mut reader = scans.reader(None);
            for end in (0..text.len()).step_by(piece).chain([text.len()]) {
                reader.read(&text[..end]);
            }
            reader.done(text).0
        })
    }

    fn ends(prescan: &Prescan, text: &[u8]) -> Vec<Option<usize>> {
        let starts = (0..text.len()).filter(|&at| matches!(text[at], b'{' | b'['));
        starts.map(|at| prescan.value_end(text, at).ok()).collect()
    }

    #[test]
    fn a_beginning_that_was_read_before_is_not_scanned_again() {
        let text = transcript(200_000);
        let scans = KnownScans::new();
        let plain = read(&KnownScans::new(), text.as_bytes(), text.len()).1;
        for (piece, most) in [
            (9_999, text.len()),
            (70_000, BEGINNINGS_BLOCK),
            (1, BEGINNINGS_BLOCK),
        ] {
            let (scanned, prescan) = read(&scans, text.as_bytes(), piece);
            assert!(
                scanned <= most as u64,
                "{scanned} bytes scanned, in pieces of {piece}"
            );
            assert_eq!(ends(&prescan, text.as_bytes()), ends(&plain, text.as_bytes()));
            let all = Span::new(0, text.len());
            assert!(prescan.words(all).unwrap().eq(plain.words(all).unwrap()));
        }
        // What follows a difference is another text.
        let mut longer = text.clone() + &transcript(100_000)[12..];
        let (scanned, _) = read(&scans, longer.as_bytes(), 9_999);
        assert!(scanned <= (longer.len() - text.len() + BEGINNINGS_BLOCK) as u64);
        longer.replace_range(70_000..70_001, "\"");
        let (scanned, prescan) = read(&scans, longer.as_bytes(), 9_999);
        assert!(scanned >= (longer.len() - 70_000) as u64, "{scanned}");
        let plain = read(&KnownScans::new(), longer.as_bytes(), longer.len()).1;
        assert_eq!(ends(&prescan, longer.as_bytes()), ends(&plain, longer.as_bytes()));
    }
}
