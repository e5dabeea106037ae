//! Finds quotes, brackets and escaped bytes in blocks of 64 bytes.

use fearless_simd::prelude::*;
use fearless_simd::u8x64;

/// Bytes per step: one for each bit of a `u64`.
pub(super) const BLOCK: usize = 64;

/// Bytes of a block as vector lanes.
pub(super) struct LaneBlock<S: Simd>(u8x64<S>);

impl<S: Simd> LaneBlock<S> {
    /// Loads the block at `at`. Bytes after the end of the text are zero, which no search matches.
    #[inline(always)]
    pub(super) fn at(simd: S, text: &[u8], at: usize) -> Self {
        let bytes = match text.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => *bytes,
            None => last_block(text.get(at..).unwrap_or_default()),
        };
        Self::new(simd, bytes)
    }

    #[inline(always)]
    pub(super) fn new(simd: S, bytes: [u8; BLOCK]) -> Self {
        Self(u8x64::simd_from(simd, bytes))
    }

    /// Bitmask of the bytes equal to `wanted`.
    #[inline(always)]
    pub(super) fn is(&self, wanted: u8) -> u64 {
        self.0.simd_eq(wanted).to_bitmask()
    }

    /// Bitmask of the bytes that begin one of two pairs, whose second bytes are in `later`. `None` if there are none,
    /// which takes fewer steps than a bitmask.
    #[inline(always)]
    pub(super) fn begins_pairs(&self, later: &Self, [[a, b], [c, d]]: [[u8; 2]; 2]) -> Option<u64> {
        let one = self.0.simd_eq(a) & later.0.simd_eq(b);
        let other = self.0.simd_eq(c) & later.0.simd_eq(d);
        let either = one | other;
        either.any_true().then(|| either.to_bitmask())
    }

    /// Bitmask of the bytes equal to `wanted`, ignoring bit 5. `[` and `{` differ only in that bit, as do `]`
    /// and `}`.
    #[inline(always)]
    pub(super) fn is_bracket(&self, wanted: u8) -> u64 {
        (self.0 | 0x20).simd_eq(wanted).to_bitmask()
    }
}

#[cold]
fn last_block(rest: &[u8]) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

/// Tracks strings from block to block.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Strings {
    /// All ones inside a string, otherwise zero.
    pub(super) inside: u64,
    /// Equals one if a backslash at the end of this block escapes the first byte of the next block.
    carried: u64,
}

impl Strings {
    /// Returns the bits of the block at `from` that lie inside strings, including opening quotes but not
    /// closing ones. `None` if the whole block does.
    ///
    /// No branch depends on the positions of escapes. Every other block of text has one, and processors
    /// cannot predict where.
    #[inline(always)]
    pub(super) fn over<S: Simd>(
        &mut self,
        block: &LaneBlock<S>,
        text: &[u8],
        floor: usize,
        from: usize,
    ) -> Option<u64> {
        let (quotes, slashes) = (block.is(b'"'), block.is(b'\\'));
        let escapes = slashes | self.carried;
        let mut kept = quotes & !literal(slashes, &mut self.carried);
        if kept == 0 && self.inside != 0 {
            return None;
        }
        let mut inside = parity(kept) ^ self.inside;
        // An escape counts only inside strings. Valid JSON has none outside.
        if escapes & !inside != 0 {
            kept = one_by_one(text, floor, from, quotes, self.inside != 0);
            inside = parity(kept) ^ self.inside;
        }
        self.inside = ((inside as i64) >> 63) as u64;
        Some(inside)
    }
}

/// Bitmask of the escaped bytes: those after runs of backslashes of odd length.
///
/// `carried` is one if such a run ends with the previous block, and is updated for this block. The subtraction borrows
/// from each run up to its end, which tells whether the run ends at an odd position, a technique from simdjson.
#[inline(always)]
pub(super) fn literal(slashes: u64, carried: &mut u64) -> u64 {
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let escapes = slashes & !*carried;
    let ends = (escapes << 1 | ODD).wrapping_sub(escapes) ^ ODD;
    let escaped = ends ^ (slashes | *carried);
    *carried = (ends & slashes) >> 63;
    escaped
}

/// Finds the quotes that begin or end a string when there are backslashes outside of strings.
#[cold]
fn one_by_one(text: &[u8], floor: usize, from: usize, quotes: u64, mut inside: bool) -> u64 {
    let (mut kept, mut left) = (quotes, quotes);
    while left != 0 {
        let bit = left & left.wrapping_neg();
        if inside && escaped(text, floor, from + bit.trailing_zeros() as usize) {
            kept ^= bit;
        } else {
            inside = !inside;
        }
        left ^= bit;
    }
    kept
}

/// Whether an odd number of backslashes lies between `floor` and `at`.
fn escaped(text: &[u8], floor: usize, at: usize) -> bool {
    let before = &text[floor + 1..at];
    before.iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// Prefix parity: each bit becomes the parity of itself and all lower bits. The result is one from an opening
/// quote to the bit before the closing quote.
#[inline]
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
