//! Finds the end of a string, an object or an array, 64 bytes at a time, and pairs of bytes in any text.
//! Only these walks see every byte of a body.
//!
//! Nearly all of an agent's history is text inside strings. A block of such text costs three comparisons of all its bytes,
//! without an unpredictable branch. Safe SIMD (`fearless_simd`) selects the processor's vectors at run time. Results are the
//! same as byte by byte, even for invalid JSON.
//!
//! The block walks are generic over the processor's vectors, and inlined into the one place that selects them
//! (`dispatch!`). Otherwise the compiler would generate them for the oldest processor.

mod block;

use std::hint::black_box;

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, mask8x64, u8x16};

pub(crate) use self::block::Pairs;
pub(crate) use self::block::escaped;
use self::block::{BLOCK, LaneBlock};

/// Bytes per step for short values, with vectors that every processor supports.
const SHORT: usize = 16;

/// The processor's vectors.
fn level() -> Level {
    let best = Level::new();
    // Vectors of 64 bytes take longer: nearly all of these loads would lie in two cache lines.
    #[cfg(target_arch = "x86_64")]
    let best = best.as_avx2().map_or(best, Level::Avx2);
    best
}

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
        let before = quotes.wrapping_sub(1) & !quotes;
        // The first quote precedes any backslash, so it is not escaped.
        if quotes != 0 && slashes & before == 0 {
            return Some(from + quotes.trailing_zeros() as usize + 1);
        }
    }
    long_string_end(text, from)
}

/// End of the string whose first byte is at `from`.
fn long_string_end(text: &[u8], from: usize) -> Option<usize> {
    match text.get(from)? {
        b'"' => Some(from + 1),
        _ => dispatch!(level(), simd => string_rest_end(simd, text, from + 1)),
    }
}

/// End of the string around the byte at `from`, which is neither of its first two.
///
/// A string ends at a quote that is not escaped. For nearly all quotes the two bytes before it decide that, so most blocks
/// need no count of backslashes.
#[inline(always)]
fn string_rest_end<S: Simd>(simd: S, text: &[u8], mut from: usize) -> Option<usize> {
    let mut rest = text.get(from - 2..).unwrap_or_default();
    while let Some((first, second)) = next_ends(simd, &mut rest) {
        // Opaque, or the compiler keeps five positions for the rare quotes in every step of the search.
        from = black_box(text.len() + 2 - rest.len());
        for (from, quotes) in [(from - 2 * BLOCK, first), (from - BLOCK, second)] {
            if let Some(end) = first_end(text, from, quotes.to_bitmask()) {
                return Some(end);
            }
        }
    }
    from = text.len() + 2 - rest.len();
    while from < text.len() {
        let quotes = LaneBlock::at(simd, text, from).is(b'"');
        if let Some(end) = first_end(text, from, quotes) {
            return Some(end);
        }
        from += BLOCK;
    }
    None
}

/// Quotes that may end a string, in the next two blocks that have any. `rest` begins two bytes before the blocks, and is
/// advanced past them.
#[inline(always)]
fn next_ends<S: Simd>(simd: S, rest: &mut &[u8]) -> Option<(mask8x64<S>, mask8x64<S>)> {
    const STEP: usize = 2 * BLOCK;
    while let Some(window) = rest.first_chunk::<{ STEP + 2 }>() {
        let first = LaneBlock::may_end_string(simd, window, 0);
        let second = LaneBlock::may_end_string(simd, window, BLOCK);
        *rest = &rest[STEP..];
        if (first | second).any_true() {
            return Some((first, second));
        }
    }
    None
}

/// Offset after the first of these quotes in the block at `from` that is not escaped.
#[inline]
fn first_end(text: &[u8], from: usize, mut bits: u64) -> Option<usize> {
    while bits != 0 {
        let at = from + bits.trailing_zeros() as usize;
        if !escaped(text, at) {
            return Some(at + 1);
        }
        bits &= bits - 1;
    }
    None
}

/// End of the object or array that begins at `at`, or `None` if it has no end.
pub(crate) fn container_end(text: &[u8], at: usize) -> Option<usize> {
    dispatch!(level(), simd => container_end_by(simd, text, at))
}

#[inline(always)]
fn container_end_by<S: Simd>(simd: S, text: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0;
    let mut from = at;
    while from < text.len() {
        let block = LaneBlock::at(simd, text, from);
        let inside = block.in_strings(text, from);
        let (opens, closes) = (block.is_bracket(b'{') & !inside, block.is_bracket(b'}') & !inside);
        if let Some(bit) = close(&mut depth, opens, closes) {
            return Some(from + bit as usize + 1);
        }
        from += BLOCK;
        if inside >> 63 != 0 {
            // Each block begins outside of strings.
            from = string_rest_end(simd, text, from)?;
            // A message often ends with a long string.
            while let Some(b'}' | b']') = text.get(from) {
                depth -= 1;
                from += 1;
                if depth == 0 {
                    return Some(from);
                }
            }
        }
    }
    None
}

/// Distance between the bytes of a pair.
pub(crate) const PAIR_DISTANCE: usize = 5;

/// Calls `found` with the offset of every pair of bytes that is one of `pairs`, in order. Returns about the number of opening
/// braces: four times those in one of four blocks, which two bits of `sample` choose.
pub(crate) fn find_pairs(text: &[u8], pairs: Pairs, sample: u64, mut found: impl FnMut(usize)) -> usize {
    dispatch!(level(), simd => find_pairs_by(simd, text, pairs, sample, &mut found))
}

#[inline(always)]
fn find_pairs_by<S: Simd>(
    simd: S,
    text: &[u8],
    pairs: Pairs,
    mut sample: u64,
    found: &mut dyn FnMut(usize),
) -> usize {
    const STEP: usize = 4 * BLOCK;
    let (mut braces, mut from) = (0, 0);
    let later = text.get(PAIR_DISTANCE..).unwrap_or_default();
    let [steps, later] = [text, later].map(|bytes| bytes.as_chunks::<STEP>().0);
    for (step, later) in steps.iter().zip(later) {
        let sampled = (sample % 4) as usize * BLOCK;
        sample = sample.rotate_right(2);
        braces += 4 * LaneBlock::at(simd, step, sampled).is(b'{').count_ones() as usize;
        for at in [0, 2 * BLOCK] {
            let first = LaneBlock::at(simd, step, at).begins_pairs(simd, later, at, pairs);
            let second = LaneBlock::at(simd, step, at + BLOCK).begins_pairs(simd, later, at + BLOCK, pairs);
            if (first | second).any_true() {
                each_bit([first.to_bitmask(), second.to_bitmask()], from + at, found);
            }
        }
        from += STEP;
    }
    while from < text.len() {
        let block = LaneBlock::at(simd, text, from);
        braces += block.is(b'{').count_ones() as usize;
        let begins = block.begins_pairs(simd, text, from + PAIR_DISTANCE, pairs);
        each_bit([begins.to_bitmask(), 0], from, found);
        from += BLOCK;
    }
    braces
}

/// Calls `found` for each bit of two blocks at `from`.
///
/// Few blocks have any. Inlined, it would take the registers of the search.
#[cold]
#[inline(never)]
fn each_bit(blocks: [u64; 2], from: usize, found: &mut dyn FnMut(usize)) {
    for (mut bits, from) in blocks.into_iter().zip([from, from + BLOCK]) {
        while bits != 0 {
            found(from + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
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
