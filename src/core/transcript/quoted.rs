//! Finds user sentences that only repeat earlier words of the model or of a tool.

use std::borrow::Cow;
use std::collections::HashMap;

use super::Transcript;
use crate::text::Span;

/// Size of the compared pieces in bytes.
///
/// Sentences are compared by pieces of one size, so that the time depends only on the size of the transcript, not on how
/// often a sentence occurs, or how many of them begin or end alike.
const PIECE: usize = 32;

/// Random numbers for the bytes of a piece. A hash that rotates takes less time than one that multiplies.
const NUMBERS: [u64; 256] = {
    let mut numbers = [0; 256];
    let mut at = 0;
    while at < numbers.len() {
        // SplitMix64.
        let mut number = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        numbers[at] = number ^ (number >> 31);
        at += 1;
    }
    numbers
};

impl Transcript<'_> {
    /// For each sentence with its turn, whether the model or a tool said it verbatim in earlier turns.
    ///
    /// `others` has the ranges of the body with their words, each with its turn. Marks of emphasis and code do not count:
    /// a terminal shows the model's output without them.
    pub fn said_before(&self, sentences: &[(usize, &str)], others: &[(usize, Span)]) -> Vec<bool> {
        let pieces: Vec<Vec<SentencePiece>> = sentences
            .iter()
            .map(|(_, sentence)| pieces_of(sentence))
            .collect();
        let all = || pieces.iter().flatten();
        let mut first_turns = FirstTurns::of_hashes(all().map(|piece| piece.hash));
        // A piece without a space near its beginning may be anywhere.
        let probes: Option<Vec<u64>> = all().map(|piece| piece.probe).collect();
        let probes = probes.map(|probes| FirstTurns::of_hashes(probes.into_iter()));
        // Only earlier turns count, because the sentence itself occurs in its own turn.
        let last = sentences.iter().map(|(turn, _)| *turn).max().unwrap_or_default();
        for (at, span) in others.iter().take_while(|(at, _)| *at < last) {
            let text = without_marks(span.of(self.view.text_of(*at)));
            let may_have = |probes: &FirstTurns| probes_of(&text).any(|probe| probes.has(probe));
            if probes.as_ref().is_none_or(may_have) {
                each_hash(&text, |hash| first_turns.note(hash, *at));
            }
        }
        let said = pieces.iter().zip(sentences).map(|(pieces, (turn, _))| {
            let mut first = pieces.iter().map(|piece| first_turns.of(piece.hash));
            !pieces.is_empty() && first.all(|first| first < *turn)
        });
        said.collect()
    }
}

/// A piece of a sentence.
struct SentencePiece {
    hash: u64,
    /// Hash of the bytes after its first space, if there are enough: a string that lacks them lacks the piece.
    probe: Option<u64>,
}

/// Number of entries in the filter of hashes: a power of two.
const FILTER: usize = 1 << 17;

/// For each piece of the sentences, the first turn that has it in the words of others.
struct FirstTurns {
    by_hash: HashMap<u64, usize>,
    /// Whether a hash with the same highest bits is in the map, since most pieces of a string are not.
    filter: Box<[bool; FILTER]>,
}

impl FirstTurns {
    fn of_hashes(hashes: impl Iterator<Item = u64>) -> Self {
        let by_hash: HashMap<u64, usize> = hashes.map(|hash| (hash, usize::MAX)).collect();
        let mut filter = Box::new([false; FILTER]);
        by_hash.keys().for_each(|hash| filter[place(*hash)] = true);
        Self { by_hash, filter }
    }

    fn note(&mut self, hash: u64, turn: usize) {
        if self.filter[place(hash)]
            && let Some(first) = self.by_hash.get_mut(&hash)
        {
            *first = turn.min(*first);
        }
    }

    fn has(&self, hash: u64) -> bool {
        self.filter[place(hash)] && self.by_hash.contains_key(&hash)
    }

    fn of(&self, hash: u64) -> usize {
        self.by_hash.get(&hash).copied().unwrap_or(usize::MAX)
    }
}

/// Index of a hash in the filter.
fn place(hash: u64) -> usize {
    (hash >> (u64::BITS - FILTER.ilog2())) as usize
}

/// Pieces that cover a sentence. Empty if it is shorter than one.
fn pieces_of(sentence: &str) -> Vec<SentencePiece> {
    // The raw body is searched, which has the sentence with its JSON escapes.
    let literal = serde_json::Value::from(sentence).to_string();
    let text = without_marks(&literal.as_bytes()[1..literal.len() - 1]);
    let end = text.len().checked_sub(PIECE);
    let mut at = 0;
    let mut pieces = Vec::new();
    each_hash(&text, |hash| {
        if at % PIECE == 0 || Some(at) == end {
            let probe = probes_of(&text[at..at + PIECE]).next();
            pieces.push(SentencePiece { hash, probe });
        }
        at += 1;
    });
    pieces
}

/// Hashes of the bytes after each space, for spaces with enough bytes after them.
fn probes_of(text: &[u8]) -> impl Iterator<Item = u64> {
    let places = memchr::memchr_iter(b' ', text);
    places.filter_map(|at| {
        let probe = u128::from_le_bytes(*text[at + 1..].first_chunk()?);
        let (low, high) = (probe as u64, (probe >> 64) as u64);
        Some((low ^ high.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

/// Calls `found` with the hash of the piece at each position of a string.
fn each_hash(text: &[u8], mut found: impl FnMut(u64)) {
    let Some((first, rest)) = text.split_at_checked(PIECE) else {
        return;
    };
    let number = |byte: &u8| NUMBERS[usize::from(*byte)];
    let mut hash = first
        .iter()
        .fold(0_u64, |hash, byte| hash.rotate_left(1) ^ number(byte));
    found(hash);
    for (before, byte) in text.iter().zip(rest) {
        hash = hash.rotate_left(1) ^ number(before).rotate_left(PIECE as u32) ^ number(byte);
        found(hash);
    }
}

/// Removes the marks of emphasis and code in Markdown.
fn without_marks(text: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    let mut copied = 0;
    for at in memchr::memchr2_iter(b'*', b'`', text) {
        out.extend_from_slice(&text[copied..at]);
        copied = at + 1;
    }
    match copied {
        0 => text.into(),
        _ => {
            out.extend_from_slice(&text[copied..]);
            out.into()
        }
    }
}
