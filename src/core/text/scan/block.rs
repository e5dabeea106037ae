//! Finds quotes, brackets and escaped bytes in blocks of 64 bytes.

use fearless_simd::prelude::*;
use fearless_simd::{mask8x64, u8x64};

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

    /// The bytes that begin a pair, whose second byte is in the block of `text` at `later`.
    #[inline(always)]
    pub(super) fn begins_pairs(&self, simd: S, text: &[u8], later: usize, pairs: Pairs) -> mask8x64<S> {
        let (later, [one, other]) = (Self::at(simd, text, later), pairs.seconds);
        self.0.simd_eq(pairs.first) & (later.0.simd_eq(one) | later.0.simd_eq(other))
    }

    /// The quotes that may end a string: all but those after a single backslash. The block begins two bytes after `at`.
    #[inline(always)]
    pub(super) fn may_end_string(simd: S, text: &[u8], at: usize) -> mask8x64<S> {
        let [earlier, last] = [Self::at(simd, text, at), Self::at(simd, text, at + 1)];
        let escaped = last.0.simd_eq(b'\\') & !earlier.0.simd_eq(b'\\');
        Self::at(simd, text, at + 2).0.simd_eq(b'"') & !escaped
    }

    /// Bitmask of the bytes equal to `wanted`, ignoring bit 5. `[` and `{` differ only in that bit, as do `]`
    /// and `}`.
    #[inline(always)]
    pub(super) fn is_bracket(&self, wanted: u8) -> u64 {
        (self.0 | 0x20).simd_eq(wanted).to_bitmask()
    }

    /// Bitmask of the bytes inside strings, including opening quotes but not closing ones. The block at `from` begins
    /// outside of strings.
    ///
    /// No branch depends on the positions of escapes, which processors cannot predict.
    #[inline(always)]
    pub(super) fn in_strings(&self, text: &[u8], from: usize) -> u64 {
        let (quotes, slashes) = (self.is(b'"'), self.is(b'\\'));
        let inside = parity(quotes & !literal(slashes));
        // An escape counts only inside strings. Valid JSON has none outside.
        match slashes & !inside {
            0 => inside,
            _ => parity(one_by_one(text, from, quotes)),
        }
    }
}

/// Two pairs of bytes with the same first byte.
///
/// A pair stands for a string that contains it. One search for both takes three comparisons.
#[derive(Clone, Copy)]
pub(crate) struct Pairs {
    pub(crate) first: u8,
    pub(crate) seconds: [u8; 2],
}

#[cold]
fn last_block(rest: &[u8]) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

/// Bitmask of the escaped bytes: those after runs of backslashes of odd length.
///
/// The subtraction borrows from each run up to its end, which tells whether the run ends at an odd position, a technique
/// from simdjson.
#[inline(always)]
fn literal(slashes: u64) -> u64 {
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    (slashes << 1 | ODD).wrapping_sub(slashes) ^ ODD ^ slashes
}

/// Finds the quotes that begin or end a string when there are backslashes outside of strings.
#[cold]
fn one_by_one(text: &[u8], from: usize, quotes: u64) -> u64 {
    let (mut kept, mut left, mut inside) = (quotes, quotes, false);
    while left != 0 {
        let bit = left & left.wrapping_neg();
        if inside && escaped(text, from + bit.trailing_zeros() as usize) {
            kept ^= bit;
        } else {
            inside = !inside;
        }
        left ^= bit;
    }
    kept
}

/// Whether a byte inside a string is escaped: after an odd number of backslashes, which the string's quote precedes.
pub(crate) fn escaped(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rev();
    before.take_while(|&&b| b == b'\\').count() % 2 == 1
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
