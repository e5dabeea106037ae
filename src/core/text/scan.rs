//! Finds the end of a string, an object or an array, 64 bytes at a time, and pairs of bytes in any text.
//! Only these walks see every byte of a body.
//!
//! Nearly all of an agent's history is text inside strings. A block of such text costs two comparisons of all
//! its bytes and a dozen steps for escapes, without an unpredictable branch. Safe SIMD (`fearless_simd`) uses
//! the widest vectors of the processor. Results are the same as byte by byte, even for invalid JSON.
//!
//! The block walks are generic over the processor's vectors, and inlined into the one place that selects them
//! (`dispatch!`). Otherwise the compiler would generate them for the oldest processor.

mod block;

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x16};

use self::block::{BLOCK, LaneBlock, Strings, literal};

/// Bytes per step for short values, with vectors that every processor supports.
const SHORT: usize = 16;

/// End of the string literal that begins at `at`, including the closing quote. `None` if the literal has no
/// end.
#[inline]
pub(crate) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let from = at + 1;
    // Keys, roles and ids are short; most of them end within one step of sixteen bytes.
    if let Some(bytes) = text.get(from..).and_then(|rest| rest.first_chunk::<SHORT>()) {
        let (quotes, slashes) = dispatch!(Level::baseline(), simd => {
            let lanes = u8x16::simd_from(simd, *bytes);
            (lanes.simd_eq(b'"').to_bitmask(), lanes.simd_eq(b'\\').to_bitmask())
        });
        let first = quotes.trailing_zeros();
        // The first quote precedes any backslash, so it is not escaped.
        if quotes != 0 && slashes.trailing_zeros() > first {
            return Some(from + first as usize + 1);
        }
    }
    dispatch!(Level::new(), simd => long_string_end(simd, text, from))
}

/// End of a string literal that does not end before `from`. No escape may be pending at `from`.
#[inline(always)]
fn long_string_end<S: Simd>(simd: S, text: &[u8], mut from: usize) -> Option<usize> {
    let mut carried = 0;
    while from < text.len() {
        let block = LaneBlock::at(simd, text, from);
        let ends = block.is(b'"') & !literal(block.is(b'\\'), &mut carried);
        if ends != 0 {
            return Some(from + ends.trailing_zeros() as usize + 1);
        }
        from += BLOCK;
    }
    None
}

/// End of the object or array that begins at `at`, or `None` if it has no end.
pub(crate) fn container_end(text: &[u8], at: usize) -> Option<usize> {
    dispatch!(Level::new(), simd => container_end_by(simd, text, at))
}

#[inline(always)]
fn container_end_by<S: Simd>(simd: S, text: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0;
    let mut strings = Strings::default();
    let mut from = at;
    while from < text.len() {
        let block = LaneBlock::at(simd, text, from);
        if let Some(inside) = strings.over(&block, text, at, from) {
            let (opens, closes) = (block.is_bracket(b'{') & !inside, block.is_bracket(b'}') & !inside);
            if let Some(bit) = close(&mut depth, opens, closes) {
                return Some(from + bit as usize + 1);
            }
        }
        from += BLOCK;
    }
    None
}

/// Distance between the bytes of a pair.
pub(crate) const PAIR_DISTANCE: usize = 3;

/// Calls `found` with the offset of every pair of bytes that is one of `pairs`, in order. Returns the number
/// of opening braces.
///
/// A pair stands for a string that contains it at [`PAIR_DISTANCE`]. Two searches in one pass cost less than
/// one each.
pub(crate) fn find_pairs(text: &[u8], pairs: [[u8; 2]; 2], mut found: impl FnMut(usize)) -> usize {
    dispatch!(Level::new(), simd => find_pairs_by(simd, text, pairs, &mut found))
}

#[inline(always)]
fn find_pairs_by<S: Simd>(simd: S, text: &[u8], pairs: [[u8; 2]; 2], found: &mut dyn FnMut(usize)) -> usize {
    let (mut braces, mut from) = (0, 0);
    let later = text.get(PAIR_DISTANCE..).unwrap_or_default();
    let whole_blocks = text.as_chunks().0.iter().zip(later.as_chunks().0);
    for (block, later) in whole_blocks {
        let (block, later) = (LaneBlock::new(simd, *block), LaneBlock::new(simd, *later));
        braces += pairs_in(&block, &later, pairs, from, found);
        from += BLOCK;
    }
    while from < text.len() {
        let block = LaneBlock::at(simd, text, from);
        let later = LaneBlock::at(simd, text, from + PAIR_DISTANCE);
        braces += pairs_in(&block, &later, pairs, from, found);
        from += BLOCK;
    }
    braces
}

/// Calls `found` for each pair in the block at `from`. Returns the number of its opening braces.
#[inline(always)]
fn pairs_in<S: Simd>(
    block: &LaneBlock<S>,
    later: &LaneBlock<S>,
    pairs: [[u8; 2]; 2],
    from: usize,
    found: &mut dyn FnMut(usize),
) -> usize {
    if let Some(hits) = block.begins_pairs(later, pairs) {
        each_bit(hits, from, found);
    }
    block.is(b'{').count_ones() as usize
}

/// Calls `found` for each bit of a block at `from`.
///
/// Few blocks have any. Inlined, it would take the registers of the search.
#[cold]
#[inline(never)]
fn each_bit(mut bits: u64, from: usize, found: &mut dyn FnMut(usize)) {
    while bits != 0 {
        found(from + bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Follows the brackets of one block. Returns the bit of the bracket that closes the outermost open one.
#[inline]
fn close(depth: &mut u32, opens: u64, closes: u64) -> Option<u32> {
    // Too few closing brackets to reach depth zero, so their order does not matter.
    if closes.count_ones() < *depth {
        *depth += opens.count_ones();
        *depth -= closes.count_ones();
        return None;
    }
    let mut left = opens | closes;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        if opens & bit != 0 {
            *depth += 1;
        } else {
            *depth -= 1;
            if *depth == 0 {
                return Some(bit.trailing_zeros());
            }
        }
        left ^= bit;
    }
    None
}

#[cfg(test)]
mod tests;
