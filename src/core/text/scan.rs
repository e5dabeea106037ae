//! Finds where a string, an object or an array ends, 64 bytes at a time: the two walks that see every byte of a body.
//!
//! Nearly all of an agent's history is text inside strings. A block of text costs two comparisons of all its bytes, a
//! dozen steps for its escapes, and no unpredictable branch. Safe SIMD (`fearless_simd`), as wide as the processor has
//! it; what is found is the same as byte by byte, also in text that is no JSON.
//!
//! The block walks are generic over the processor's vectors and inlined into the one place that selects them
//! (`dispatch!`). Vector code in a function of its own would be compiled for the oldest processor.

mod block;

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x16};

use self::block::{BLOCK, LaneBlock, Strings, literal};

/// Bytes per step for short values, with the vectors that every processor has.
const SHORT: usize = 16;

/// End of the string literal that begins at `at`, closing quote included; `None` where it has none.
#[inline]
pub(crate) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let from = at + 1;
    // Keys, roles and ids are short: one step of sixteen bytes is all that most of them cost.
    if let Some(bytes) = text.get(from..).and_then(|rest| rest.first_chunk::<SHORT>()) {
        let (quotes, slashes) = dispatch!(Level::baseline(), simd => {
            let lanes = u8x16::simd_from(simd, *bytes);
            (lanes.simd_eq(b'"').to_bitmask(), lanes.simd_eq(b'\\').to_bitmask())
        });
        let first = quotes.trailing_zeros();
        if quotes != 0 && slashes.trailing_zeros() > first {
            return Some(from + first as usize + 1);
        }
    }
    dispatch!(Level::new(), simd => long_string_end(simd, text, from))
}

/// The same for a string without an end before `from`, where no escape is under way.
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

/// End of the object or array that begins at `at`; `None` where it has none.
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

/// Follows the brackets of one block; the bit of the one that closes the last open one.
#[inline]
fn close(depth: &mut u32, opens: u64, closes: u64) -> Option<u32> {
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
