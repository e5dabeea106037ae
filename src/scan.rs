//! The two walks over JSON that see every byte of a body, sixty-four bytes at a time: where a string ends and
//! where an object or array ends.
//!
//! Nearly all of an agent's history is text inside strings, so a block without a quote costs one comparison of
//! all its bytes and no more. Safe SIMD (`fearless_simd`), as wide as the processor has it; what is found is the same
//! as byte by byte, also in text that is no JSON.
//!
//! What walks blocks is generic over the processor's vectors and inlined into the one place that chooses among
//! them (`dispatch!`): vector code in a function of its own would be compiled for the oldest processor.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x16, u8x64};

use crate::json::Span;

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

/// Containers up to this depth are noted: the root, the members of a request, its messages, and their parts' lists.
const NOTED_DEPTH: u32 = 4;

/// Follows a text that grows, block by block, and notes where the containers near its root begin and end, and the
/// strings in them that do not end in the block they begin in.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    place: Place,
    notes: Notes,
}

/// How far it is. Small enough to stay in registers from block to block.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    /// Where the next block begins.
    at: usize,
    depth: u32,
    strings: Strings,
}

#[derive(Debug, Default)]
struct Notes {
    all: Vec<Span>,
    /// Noted containers that are open.
    open: Vec<usize>,
    /// The noted string that is open.
    string: Option<usize>,
}

impl Follow {
    /// Goes on to the last whole block of `text`.
    pub(crate) fn advance(&mut self, text: &[u8]) {
        let Self { place, notes } = self;
        *place = dispatch!(Level::new(), simd => place.blocks(simd, text, notes));
    }

    /// The rest. Spans by their start; an end of zero was not found.
    pub(crate) fn finish(mut self, text: &[u8]) -> Vec<Span> {
        self.advance(text);
        if self.place.at < text.len() {
            dispatch!(Level::baseline(), simd => self.place.block(simd, text, &mut self.notes));
        }
        self.notes.all
    }
}

impl Place {
    /// Goes over all whole blocks.
    #[inline(always)]
    fn blocks<S: Simd>(mut self, simd: S, text: &[u8], notes: &mut Notes) -> Self {
        while text.len() - self.at >= BLOCK {
            self.block(simd, text, notes);
        }
        self
    }

    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, text: &[u8], notes: &mut Notes) {
        let from = self.at;
        self.at += BLOCK;
        let block = Block::at(simd, text, from);
        let was_inside = self.strings.inside != 0;
        let Some(Quoted { quotes, inside }) = self.strings.over(&block, text, 0, from) else {
            return;
        };
        if was_inside && let Some(i) = notes.string.take() {
            notes.all[i].end = from + quotes.trailing_zeros() as usize + 1;
        }
        let (opens, closes) = (block.is_bracket(b'{') & !inside, block.is_bracket(b'}') & !inside);
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

impl Notes {
    /// Follows the brackets of one block near the root; the depth behind it.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Byte by byte, as the format is written down.
    fn slow_string_end(text: &[u8], at: usize) -> Option<usize> {
        let mut from = at + 1;
        loop {
            match text.get(from)? {
                b'"' => return Some(from + 1),
                b'\\' => from += 2,
                _ => from += 1,
            }
        }
    }

    fn slow_container_end(text: &[u8], at: usize) -> Option<usize> {
        let (mut depth, mut from) = (0, at);
        loop {
            match text.get(from)? {
                b'"' => {
                    from = slow_string_end(text, from)?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            from += 1;
            if depth == 0 {
                return Some(from);
            }
        }
    }

    /// The vectors of this processor, and those of older ones of its kind.
    fn levels() -> Vec<Level> {
        let best = Level::new();
        #[cfg(target_arch = "x86_64")]
        let older = [
            best.as_sse2().map(Level::Sse2),
            best.as_sse4_2().map(Level::Sse4_2),
            best.as_avx2().map(Level::Avx2),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let older = [None];
        older.into_iter().flatten().chain([best]).collect()
    }

    fn agree(text: &[u8]) {
        for at in 0..text.len() {
            match text[at] {
                b'"' => {
                    let end = slow_string_end(text, at);
                    assert_eq!(string_end(text, at), end, "{at}");
                    for level in levels() {
                        let found = dispatch!(level, simd => long_string_end(simd, text, at + 1));
                        assert_eq!(found, end, "{at} {level:?}");
                    }
                }
                b'{' | b'[' => {
                    let end = slow_container_end(text, at);
                    for level in levels() {
                        let found = dispatch!(level, simd => container_end_by(simd, text, at));
                        assert_eq!(found, end, "{at} {level:?}");
                    }
                }
                _ => {}
            }
        }
        let noted = levels().into_iter().map(|level| {
            let mut notes = Notes::default();
            dispatch!(level, simd => Place::default().blocks(simd, text, &mut notes));
            notes.all
        });
        let noted: Vec<_> = noted.collect();
        assert!(noted.iter().all(|all| *all == noted[0]), "{noted:?}");
    }

    #[test]
    fn every_place_of_a_string_in_its_block_is_the_same() {
        for pad in 0..2 * BLOCK {
            for slashes in 0..6 {
                let text = format!(
                    r#"{{"k":"{}{}" ]","l":[{{"m":"\""}}]}}"#,
                    "x".repeat(pad),
                    r"\".repeat(slashes)
                );
                for cut in [text.len(), text.len() - 1, text.len() - 5] {
                    agree(&text.as_bytes()[..cut]);
                }
            }
        }
    }

    #[test]
    fn runs_of_backslashes_over_whole_blocks_are_counted() {
        for slashes in 60..70 {
            for more in [0, 64, 128] {
                let text = format!(r#"["{}" , "]"]"#, r"\".repeat(slashes + more));
                agree(text.as_bytes());
            }
        }
    }

    #[test]
    fn depth_is_followed_through_many_blocks() {
        for depth in [1, 31, 63, 64, 65, 200, 1000] {
            let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(container_end(text.as_bytes(), 0), Some(text.len()));
            assert_eq!(container_end(&text.as_bytes()[..text.len() - 1], 0), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn text_that_is_no_json_is_walked_alike(pieces in proptest::collection::vec(prop_oneof![
            4 => Just("\""), 3 => Just("\\"), 1 => Just("\\\\"), 2 => Just("{"), 2 => Just("}"), 1 => Just("["),
            1 => Just("]"), 1 => Just(","), 1 => Just("é"), 2 => Just("xxxxxxxxxxxxxxxxxxxxxxxxxxxxx")], 0..60)) {
            agree(pieces.concat().as_bytes());
        }

        #[test]
        fn values_end_where_serde_json_ends_them(
            texts in proptest::collection::vec(any::<String>(), 0..12),
            pad in 0usize..70,
            cut in any::<proptest::sample::Index>(),
        ) {
            let value = serde_json::json!({ "pad": "x".repeat(pad), "all": texts, "deep": [[{"a": texts.first()}]] });
            let text = format!("{value} tail\"}}]");
            let bytes = text.as_bytes();
            let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<serde::de::IgnoredAny>();
            prop_assert!(stream.next().is_some_and(|v| v.is_ok()));
            prop_assert_eq!(container_end(bytes, 0), Some(stream.byte_offset()));
            agree(&bytes[..cut.index(bytes.len())]);
        }
    }
}
