//! The scan after [`Prescan`](crate::text::prescan::Prescan): containers, long strings and a word in a growing text.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch};

use super::block::{BLOCK, LaneBlock, StringBits, Strings};
use crate::text::{Span, cost};

/// Containers up to this depth are noted: the root, the members of a request, its messages, and their parts' lists.
const NOTED_DEPTH: u32 = 4;

/// Scans a growing text block by block. Notes where the containers near the root begin and end, strings in them that
/// reach beyond the block they begin in, and occurrences of a word.
pub(crate) struct StreamScan {
    cursor: ScanCursor,
    notes: ScanNotes,
    seek: WordSeek,
}

/// How far the scan is. Small enough to stay in registers from block to block.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ScanCursor {
    /// Where the next block begins.
    at: usize,
    depth: u32,
    /// Containers that have begun, at any depth.
    containers: usize,
    strings: Strings,
}

#[derive(Default)]
pub(super) struct ScanNotes {
    pub(super) all: Vec<Span>,
    /// Noted containers that are open.
    open: Vec<usize>,
    /// The noted string that is open.
    string: Option<usize>,
}

/// Looks for a word by its last two bytes, while the block is in a register.
pub(super) struct WordSeek {
    word: &'static [u8],
    last: [u8; 2],
    /// One where the block before ends with the second-to-last byte.
    carried: u64,
    pub(super) found: Vec<usize>,
}

impl StreamScan {
    /// `word`, of two bytes at least, is looked for as it is spelled.
    pub(crate) fn seeking(word: &'static [u8]) -> Self {
        Self {
            cursor: ScanCursor::default(),
            notes: ScanNotes::default(),
            seek: WordSeek::new(word),
        }
    }

    /// Scans up to the last whole block of `text`.
    pub(crate) fn advance(&mut self, text: &[u8]) {
        let Self { cursor, notes, seek } = self;
        cost::add(text.len().saturating_sub(cursor.at));
        *cursor = dispatch!(Level::new(), simd => cursor.blocks(simd, text, notes, seek));
    }

    /// The rest. Spans by their start, of which an end of zero was not found; where the word is; and how many
    /// containers there are.
    pub(crate) fn finish(mut self, text: &[u8]) -> (Vec<Span>, Vec<usize>, usize) {
        self.advance(text);
        let Self { cursor, notes, seek } = &mut self;
        if cursor.at < text.len() {
            dispatch!(Level::baseline(), simd => cursor.block(simd, text, notes, seek));
        }
        (self.notes.all, self.seek.found, self.cursor.containers)
    }
}

impl WordSeek {
    pub(super) fn new(word: &'static [u8]) -> Self {
        Self {
            word,
            last: *word.last_chunk().unwrap_or(&[0; 2]),
            carried: 0,
            found: Vec::new(),
        }
    }

    #[inline(always)]
    fn over<S: Simd>(&mut self, block: &LaneBlock<S>, text: &[u8], from: usize) {
        let before = block.is(self.last[0]);
        let ends = block.is(self.last[1]) & (before << 1 | self.carried);
        self.carried = before >> 63;
        if ends != 0 {
            self.check(text, from, ends);
        }
    }

    #[cold]
    fn check(&mut self, text: &[u8], from: usize, mut ends: u64) {
        while ends != 0 {
            let end = from + ends.trailing_zeros() as usize + 1;
            if text[..end].ends_with(self.word) {
                self.found.push(end - self.word.len());
            }
            ends &= ends - 1;
        }
    }
}

impl ScanCursor {
    /// Scans all whole blocks.
    #[inline(always)]
    pub(super) fn blocks<S: Simd>(
        mut self,
        simd: S,
        text: &[u8],
        notes: &mut ScanNotes,
        seek: &mut WordSeek,
    ) -> Self {
        while text.len() - self.at >= BLOCK {
            self.block(simd, text, notes, seek);
        }
        self
    }

    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, text: &[u8], notes: &mut ScanNotes, seek: &mut WordSeek) {
        let from = self.at;
        self.at += BLOCK;
        let block = LaneBlock::at(simd, text, from);
        seek.over(&block, text, from);
        let was_inside = self.strings.inside != 0;
        let Some(StringBits { quotes, inside }) = self.strings.over(&block, text, 0, from) else {
            return;
        };
        if was_inside && let Some(i) = notes.string.take() {
            notes.all[i].end = from + quotes.trailing_zeros() as usize + 1;
        }
        let (opens, closes) = (block.is_bracket(b'{') & !inside, block.is_bracket(b'}') & !inside);
        self.containers += opens.count_ones() as usize;
        if self.depth >= NOTED_DEPTH + closes.count_ones() {
            self.depth += opens.count_ones();
            self.depth -= closes.count_ones();
        } else {
            self.depth = notes.brackets(self.depth, from, opens, closes);
        }
        if self.strings.inside != 0 && quotes != 0 && self.depth <= NOTED_DEPTH {
            let start = from + (u64::BITS - 1 - quotes.leading_zeros()) as usize;
            notes.string = Some(notes.all.len());
            notes.all.push(Span::new(start, 0));
        }
    }
}

impl ScanNotes {
    /// Follows the brackets of one block near the root; the depth after it.
    fn brackets(&mut self, mut depth: u32, from: usize, opens: u64, closes: u64) -> u32 {
        let mut left = opens | closes;
        while left != 0 {
            let bit = left & left.wrapping_neg();
            let at = from + bit.trailing_zeros() as usize;
            if opens & bit != 0 {
                depth += 1;
                if depth <= NOTED_DEPTH {
                    self.open.push(self.all.len());
                    self.all.push(Span::new(at, 0));
                }
            } else {
                if depth <= NOTED_DEPTH
                    && let Some(i) = self.open.pop()
                {
                    self.all[i].end = at + 1;
                }
                depth = depth.saturating_sub(1);
            }
            left ^= bit;
        }
        depth
    }
}
