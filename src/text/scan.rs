//! The two walks over JSON that see every byte of a body, sixty-four bytes at a time: where a string ends and
//! where an object or array ends.
//!
//! Nearly all of an agent's history is text inside strings: a block of that costs two comparisons of all its bytes, a
//! dozen steps for its escapes, and no branch that a processor could not guess. Safe SIMD (`fearless_simd`), as wide as
//! the processor has it; what is found is the same as byte by byte, also in text that is no JSON.
//!
//! What walks blocks is generic over the processor's vectors and inlined into the one place that chooses among
//! them (`dispatch!`): vector code in a function of its own would be compiled for the oldest processor.

mod follow;

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x16, u8x64};

pub(crate) use self::follow::Follow;

/// Bytes looked at in one step: one bit of a `u64` for each.
const BLOCK: usize = 64;

/// Bytes looked at where little is expected, with the vectors that every processor has.
const SHORT: usize = 16;

struct Block<S: Simd>(u8x64<S>);

impl<S: Simd> Block<S> {
    /// The block at `at`; behind the end of the text it is zeros, which nothing here looks for.
    #[inline(always)]
    fn at(simd: S, text: &[u8], at: usize) -> Self {
        let bytes = match text.get(at..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => *bytes,
            None => last_block(text.get(at..).unwrap_or_default()),
        };
        Self(u8x64::simd_from(simd, bytes))
    }

    /// One bit for each byte that is `wanted`.
    #[inline(always)]
    fn is(&self, wanted: u8) -> u64 {
        self.0.simd_eq(wanted).to_bitmask()
    }

    /// One bit for each byte that is `wanted` but for its sixth bit, by which `[` and `{` differ, and `]` and `}`.
    #[inline(always)]
    fn is_bracket(&self, wanted: u8) -> u64 {
        (self.0 | 0x20).simd_eq(wanted).to_bitmask()
    }
}

#[cold]
fn last_block(rest: &[u8]) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

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
        let block = Block::at(simd, text, from);
        let ends = block.is(b'"') & !literal(block.is(b'\\'), &mut carried);
        if ends != 0 {
            return Some(from + ends.trailing_zeros() as usize + 1);
        }
        from += BLOCK;
    }
    None
}

/// Where, at or behind `at`, the first byte stands that is more than text inside a string: a quote, a backslash, an
/// opening bracket, a control character. The text's end where there is none.
#[inline]
pub(crate) fn special(text: &[u8], mut at: usize) -> usize {
    while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk::<SHORT>()) {
        let hits = dispatch!(Level::baseline(), simd => {
            let lanes = u8x16::simd_from(simd, *bytes);
            let is = |wanted: u8| lanes.simd_eq(wanted);
            (is(b'"') | is(b'\\') | is(b'[') | lanes.simd_le(0x1F)).to_bitmask()
        });
        if hits != 0 {
            return at + hits.trailing_zeros() as usize;
        }
        at += SHORT;
    }
    let rest = text.get(at..).unwrap_or_default();
    let plain = rest
        .iter()
        .take_while(|b| !matches!(b, b'"' | b'\\' | b'[' | 0..=0x1F));
    at + plain.count()
}

/// Follows strings from block to block.
#[derive(Debug, Default, Clone, Copy)]
struct Strings {
    /// All ones inside a string, else zero.
    inside: u64,
    /// One where the first byte of the next block is made literal by a backslash.
    carried: u64,
}

/// What a block holds of strings.
struct Quoted {
    /// The quotes that begin or end one.
    quotes: u64,
    /// What stands inside, opening quotes included and closing ones not.
    inside: u64,
}

impl Strings {
    /// Goes over the block at `from`; `None` where all of it stands inside one string. Without a branch that depends on
    /// where an escape stands: text has one in every other block, and processors cannot guess which.
    #[inline(always)]
    fn over<S: Simd>(&mut self, block: &Block<S>, text: &[u8], floor: usize, from: usize) -> Option<Quoted> {
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
        Some(Quoted { quotes: kept, inside })
    }
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
        let block = Block::at(simd, text, from);
        if let Some(Quoted { inside, .. }) = strings.over(&block, text, at, from) {
            let (opens, closes) = (block.is_bracket(b'{') & !inside, block.is_bracket(b'}') & !inside);
            if let Some(bit) = close(&mut depth, opens, closes) {
                return Some(from + bit as usize + 1);
            }
        }
        from += BLOCK;
    }
    None
}

/// The bytes that an escape makes literal: those behind runs of backslashes of odd length. `carried` is one where such
/// a run ends with the block before, and then with this one. (The addition carries each run that begins at an odd place
/// to the place behind it; how it is done is known from simdjson.)
#[inline(always)]
fn literal(slashes: u64, carried: &mut u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let before = *carried;
    // Not by the addition: blocks would wait for each other. A block of nothing else goes on with the run.
    if slashes != u64::MAX {
        *carried = u64::from(slashes.leading_ones() & 1);
    }
    let slashes = slashes & !before;
    let follows = slashes << 1 | before;
    let odd_starts = slashes & !EVEN & !follows;
    let carried_over = odd_starts.wrapping_add(slashes);
    (EVEN ^ (carried_over << 1)) & follows
}

/// The quotes that begin or end a string, where backslashes stand outside of strings, too.
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

/// Whether an odd number of backslashes stands between `floor` and `at`.
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
