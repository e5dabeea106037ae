//! Sixty-four bytes of a text at once: which of them are quotes, brackets, or made literal by a backslash.

use fearless_simd::prelude::*;
use fearless_simd::u8x64;

/// Bytes examined in one step: one bit of a `u64` for each.
pub(super) const BLOCK: usize = 64;

/// A block's bytes as lanes.
pub(super) struct LaneBlock<S: Simd>(u8x64<S>);

impl<S: Simd> LaneBlock<S> {
    /// The block at `at`; after the end of the text it is zeros, which nothing here looks for.
    #[inline(always)]
    pub(super) fn at(simd: S, text: &[u8], at: usize) -> Self {
        let bytes = match text.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => *bytes,
            None => last_block(text.get(at..).unwrap_or_default()),
        };
        Self(u8x64::simd_from(simd, bytes))
    }

    /// One bit for each byte that is `wanted`.
    #[inline(always)]
    pub(super) fn is(&self, wanted: u8) -> u64 {
        self.0.simd_eq(wanted).to_bitmask()
    }

    /// One bit for each byte that is `wanted` except for its sixth bit, by which `[` and `{` differ, and `]` and `}`.
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

/// Follows strings from block to block.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Strings {
    /// All ones inside a string, else zero.
    pub(super) inside: u64,
    /// One where the first byte of the next block is made literal by a backslash.
    carried: u64,
}

impl Strings {
    /// What of the block at `from` is inside a string, opening quotes included and closing ones not; `None` where all of
    /// it is inside one. Without a branch that depends on where an escape is: text has one in every other block, and
    /// processors cannot guess which.
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
        // An escape counts inside strings alone. In JSON there is no other.
        if escapes & !inside != 0 {
            kept = one_by_one(text, floor, from, quotes, self.inside != 0);
            inside = parity(kept) ^ self.inside;
        }
        self.inside = ((inside as i64) >> 63) as u64;
        Some(inside)
    }
}

/// The bytes that an escape makes literal: those after runs of backslashes of odd length. `carried` is one where such a
/// run ends with the block before, and then with this one. (The addition carries each run that begins at an odd place
/// to the place after it; how it is done is known from simdjson.)
#[inline(always)]
pub(super) fn literal(slashes: u64, carried: &mut u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let before = *carried;
    // Not by the addition: blocks would wait for each other. A block of nothing else continues with the run.
    if slashes != u64::MAX {
        *carried = u64::from(slashes.leading_ones() & 1);
    }
    let slashes = slashes & !before;
    let follows = slashes << 1 | before;
    let odd_starts = slashes & !EVEN & !follows;
    let carried_over = odd_starts.wrapping_add(slashes);
    (EVEN ^ (carried_over << 1)) & follows
}

/// The quotes that begin or end a string, where backslashes are outside of strings, too.
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

/// Whether an odd number of backslashes is between `floor` and `at`.
fn escaped(text: &[u8], floor: usize, at: usize) -> bool {
    let before = &text[floor + 1..at];
    before.iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// Each bit becomes the parity of itself and all bits below it: ones from an opening quote to before the closing one.
#[inline]
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
