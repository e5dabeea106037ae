//! Skips text that was scanned before. An agent resends its whole conversation with each request, and the scan of a
//! body costs more than all other processing of its bytes.
//!
//! A body is hashed block by block while it arrives; each hash covers everything up to the block's end. For a known hash, the scan's findings in the block and the turns before its end are known,
//! too.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::state::keyed_hash::{self, KeyedHash};
use baton_core::mark::STEM;
use baton_core::record::WireId;
use baton_core::text::prescan::{Prescanner, ScannedStretch};
use baton_core::wire::{BodyFacts, KnownTurns, SharedTurns, View};

/// Bytes of what scans found that are kept: a conversation of 1 MB takes some tens of kilobytes.
const KEPT_BYTES: u64 = 16 << 20;

/// Bytes of turns that are kept: those of a conversation of 1 MB take some tens of kilobytes.
const KEPT_TURNS_BYTES: u64 = 8 << 20;

/// Numbers of blocks and of bodies that the caches' tables are made for.
const BLOCKS: usize = 4 * 1024;
const BODIES: usize = 512;

/// What was found in bodies, by the hash of all up to a block's end.
pub(crate) struct KnownScans {
    blocks: Cache<KeyedHash, Arc<ScannedStretch>, BySize>,
    /// Keyed by the last whole block of a body, and by its wire.
    turns: Cache<(KeyedHash, WireId), Arc<KnownTurns>, BySize>,
}

/// Weighs what is kept by the bytes that it takes.
#[derive(Clone)]
struct BySize;

impl Weighter<KeyedHash, Arc<ScannedStretch>> for BySize {
    fn weight(&self, _: &KeyedHash, stretch: &Arc<ScannedStretch>) -> u64 {
        stretch.size() as u64
    }
}

impl Weighter<(KeyedHash, WireId), Arc<KnownTurns>> for BySize {
    fn weight(&self, _: &(KeyedHash, WireId), turns: &Arc<KnownTurns>) -> u64 {
        turns.size() as u64
    }
}

impl KnownScans {
    pub(super) fn new() -> Self {
        Self {
            blocks: Cache::with_weighter(BLOCKS, KEPT_BYTES, BySize),
            turns: Cache::with_weighter(BODIES, KEPT_TURNS_BYTES, BySize),
        }
    }

    /// Reads one body, which comes on `wire`.
    pub(super) fn reader(&self, wire: Option<WireId>) -> BodyReader<'_> {
        BodyReader {
            scans: self,
            wire,
            prescanner: Prescanner::seeking(STEM),
            beginnings: Beginnings::default(),
            blocks: 0,
            known: 0,
        }
    }

    /// Which turns of a request that was just read an earlier one had, and which are kept for those that begin alike.
    pub(crate) fn share(&self, scan: &BodyScan, view: &View) -> SharedTurns {
        let earlier = scan.known.turns.clone();
        let Some(last) = &scan.last_block else {
            return SharedTurns::default();
        };
        if last.is_known {
            return SharedTurns::new(earlier.clone(), earlier);
        }
        let own = KnownTurns::new(view.list, &view.turns, last.end).map(Arc::new);
        if let Some(own) = &own {
            self.turns.insert((last.hash, last.wire), Arc::clone(own));
        }
        SharedTurns::new(earlier, own)
    }
}

/// What is known of a body that has arrived.
#[derive(Debug, Default)]
pub struct BodyScan {
    /// For who reads it.
    pub known: BodyFacts,
    /// Its last whole block.
    last_block: Option<LastBlock>,
}

/// The last whole block of a body.
#[derive(Debug)]
struct LastBlock {
    /// Of all up to its end.
    hash: KeyedHash,
    end: usize,
    wire: WireId,
    /// Whether the turns up to its end are known.
    is_known: bool,
}

/// Bytes of a block, small enough to be in a core's cache still when it is full.
const BLOCK: usize = 32 << 10;

/// Hashes of a body's beginnings, taken while it arrives: one for each whole block, of all up to its end.
#[derive(Default)]
struct Beginnings {
    hashes: Vec<KeyedHash>,
}

impl Beginnings {
    /// `text` is all that has arrived.
    fn read(&mut self, text: &[u8]) {
        let from = self.hashes.len() * BLOCK;
        for block in text.get(from..).unwrap_or_default().chunks_exact(BLOCK) {
            let before = self.hashes.last().copied().unwrap_or_default();
            self.hashes
                .push(keyed_hash::chain(before, keyed_hash::hash(block)));
        }
    }
}

/// Reads a body while it arrives, when each block is still in the cache.
pub(super) struct BodyReader<'a> {
    scans: &'a KnownScans,
    wire: Option<WireId>,
    prescanner: Prescanner,
    beginnings: Beginnings,
    /// Blocks that are scanned or skipped.
    blocks: usize,
    /// How many of them, from the first on, were known.
    known: usize,
}

impl BodyReader<'_> {
    /// `text` is all that has arrived. What is no whole block yet waits for the rest of it.
    pub(super) fn read(&mut self, text: &[u8]) {
        self.beginnings.read(text);
        for hash in &self.beginnings.hashes[self.blocks..] {
            let known = match self.known == self.blocks {
                true => self.scans.blocks.get(hash),
                // Nothing is known after an unknown block.
                false => None,
            };
            self.blocks += 1;
            match known {
                Some(stretch) => {
                    self.known = self.blocks;
                    self.prescanner.pass(&stretch);
                }
                None => {
                    let stretch = self.prescanner.stretch(&text[..self.blocks * BLOCK]);
                    self.scans.blocks.insert(*hash, Arc::new(stretch));
                }
            }
        }
    }

    /// What was found in `text`, the whole body.
    pub(super) fn done(self, text: &[u8]) -> BodyScan {
        let (turns, last_block) = self.known_turns().unzip();
        let prescan = self.prescanner.done(text);
        BodyScan {
            known: BodyFacts {
                prescan,
                turns: turns.flatten(),
            },
            last_block,
        }
    }

    /// The turns of the longest known beginning, and the last block; `None` for a body of less than a block.
    fn known_turns(&self) -> Option<(Option<Arc<KnownTurns>>, LastBlock)> {
        let (wire, hashes) = (self.wire?, &self.beginnings.hashes);
        let last = LastBlock {
            hash: *hashes.last()?,
            end: hashes.len() * BLOCK,
            wire,
            is_known: false,
        };
        for (i, &hash) in hashes[..self.known].iter().enumerate().rev() {
            if let Some(turns) = self.scans.turns.get(&(hash, wire)) {
                let is_known = i + 1 == hashes.len();
                return Some((Some(turns), LastBlock { is_known, ..last }));
            }
        }
        Some((None, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    use baton_core::text::prescan::Prescan;
    use baton_core::text::{Span, cost};
    use baton_core::wire::{Operation, Turn, wire};
    use pretty_assertions::assert_eq;

    /// A transcript of some bytes; the word that is looked for is in every tenth message.
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
            reader.done(text).known.prescan
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
        for (piece, most) in [(9_999, text.len()), (70_000, BLOCK), (1, BLOCK)] {
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
        assert!(scanned <= (longer.len() - text.len() + BLOCK) as u64);
        longer.replace_range(70_000..70_001, "\"");
        let (scanned, prescan) = read(&scans, longer.as_bytes(), 9_999);
        assert!(scanned >= (longer.len() - 70_000) as u64, "{scanned}");
        let plain = read(&KnownScans::new(), longer.as_bytes(), longer.len()).1;
        assert_eq!(ends(&prescan, longer.as_bytes()), ends(&plain, longer.as_bytes()));
    }

    /// The scan of a body that is read on this wire, and its turns; what it shares is kept.
    fn shared(scans: &KnownScans, on: WireId, text: &str) -> (BodyScan, Vec<Turn>) {
        let mut reader = scans.reader(Some(on));
        reader.read(text.as_bytes());
        let scan = reader.done(text.as_bytes());
        let text = Bytes::copy_from_slice(text.as_bytes());
        let view = wire(on).read_scanned(&text, Operation::Generate, &scan.known);
        let view = view.unwrap();
        let plain = wire(on).read(&text, Operation::Generate).unwrap();
        assert_eq!((&view.turns, view.tools), (&plain.turns, plain.tools));
        assert!(view.tools.is_some_and(|tools| tools.count == 40));
        scans.share(&scan, &view);
        (scan, view.turns)
    }

    #[test]
    fn turns_of_a_beginning_are_known_on_the_wire_that_read_them() {
        let scans = KnownScans::new();
        let begun = transcript(200_000);
        let schema = r#"{"type":"object","properties":{"name":{"type":"string","description":"[of it]"}}}"#;
        let tool = format!(
            r#"{{"description":"{}","input_schema":{schema},"function":{{"parameters":{schema},"name":"f"}},"type":"custom","name":"f"}}"#,
            "what it does ".repeat(9)
        );
        let tools = vec![tool; 40].join(", ");
        let whole = |text: &str| format!(r#"{}],"tools":[{tools}]}}"#, text.trim_end_matches(','));
        let (scan, _) = shared(&scans, WireId::Anthropic, &whole(&begun));
        assert!(scan.known.turns.is_none());
        let longer = begun.clone() + &transcript(100_000)[13..];
        let (scan, all) = shared(&scans, WireId::OpenaiChat, &whole(&longer));
        assert!(scan.known.turns.is_none(), "another wire");
        let (scan, _) = shared(&scans, WireId::Anthropic, &whole(&longer));
        let end = begun.len() / BLOCK * BLOCK;
        let known = |scan: &BodyScan| scan.known.turns.as_ref().map(|turns| turns.count());
        let within = all.iter().filter(|turn| turn.span.end <= end).count();
        assert_eq!(known(&scan), Some(within));
        assert!(within > 100);
        let (scan, _) = shared(&scans, WireId::Anthropic, &whole(&longer));
        assert!(known(&scan) > Some(within), "all whole blocks of it");
        // What follows a difference is another text.
        let mut other = whole(&longer);
        other.replace_range(20_000..20_001, "x");
        let (scan, _) = shared(&scans, WireId::Anthropic, &other);
        assert_eq!(known(&scan), None);
    }
}
