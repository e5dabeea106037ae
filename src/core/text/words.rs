//! Words of a string, and the BM25 weight of a word for a document.

use super::prose::is_unspaced;

/// Maximum length of a word in bytes. A longer run of letters is data, such as base64.
const LONGEST: usize = 64;

/// Maximum length of a path in bytes. Longer ones are lists.
const LONGEST_PATH: usize = 128;

/// Parameters of BM25 with their usual values: saturation of repeated words, and normalization by document
/// length.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Kind of a word that [`each`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordKind {
    /// A run of letters, digits and underscores.
    Whole,
    /// A part of an identifier, such as `Merge` of `StreamMerge`, or a pair of letters of a script without spaces.
    Part,
    /// A path, a file name or a version: words joined by dots, dashes and slashes.
    Path,
}

/// Visits every word of a string, except for words of one byte.
///
/// For example, `src/StreamMerge.rs` yields `src`, `StreamMerge`, `Stream`, `Merge`, `rs`, the whole path,
/// and the file name.
pub fn each<'t>(text: &'t str, found: &mut impl FnMut(WordKind, &'t str)) {
    let bytes = text.as_bytes();
    let mut run = WordRun::default();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        let mut seen = 0;
        while let Some(byte) = bytes.get(at) {
            let class = CLASSES[usize::from(*byte)];
            if class == GAP {
                break;
            }
            seen |= class;
            if class != WIDE {
                at += 1;
                continue;
            }
            // Decoding a character is slow, so it happens only for non-ASCII bytes.
            let wide = text[at..].chars().next().filter(|c| c.is_alphanumeric());
            let Some(c) = wide else { break };
            at += c.len_utf8();
        }
        if at > from {
            run.join(text, from, found);
            run.end = at;
            word(&text[from..at], seen & DIVIDED != 0, found);
            if seen & WIDE != 0 {
                pairs(&text[from..at], found);
            }
        } else {
            // A character that belongs to no word: one byte, or the rest of a multi-byte character.
            at += 1;
            while !text.is_char_boundary(at) {
                at += 1;
            }
        }
    }
    run.close(text, found);
}

/// Classes of bytes: outside a word, inside a word, possible start of an identifier's part, and start of a
/// multi-byte character to decode.
const GAP: u8 = 0;
const PLAIN: u8 = 1;
const DIVIDED: u8 = 2;
const WIDE: u8 = 4;

const CLASSES: [u8; 256] = {
    let mut classes = [GAP; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => PLAIN,
            b'A'..=b'Z' | b'_' => DIVIDED,
            0x80.. => WIDE,
            _ => GAP,
        };
        byte += 1;
    }
    classes
};

/// Words joined by single characters.
#[derive(Default)]
struct WordRun {
    start: usize,
    end: usize,
    /// Offset of the part after the last slash.
    file: usize,
    /// Whether one of the joining characters is a slash or a dot.
    is_path: bool,
}

impl WordRun {
    /// Adds the word that begins at `from`, or starts a new run.
    fn join<'t>(&mut self, text: &'t str, from: usize, found: &mut impl FnMut(WordKind, &'t str)) {
        let by = text.as_bytes()[self.end..from].first().copied();
        let joined = from == self.end + 1 && from > 1 && matches!(by, Some(b'/' | b'.' | b'-'));
        if !joined {
            self.close(text, found);
            *self = Self {
                start: from,
                file: from,
                ..Self::default()
            };
        } else {
            self.is_path |= by != Some(b'-');
            if by == Some(b'/') {
                self.file = from;
            }
        }
    }

    fn close<'t>(&self, text: &'t str, found: &mut impl FnMut(WordKind, &'t str)) {
        if !self.is_path || self.end - self.start > LONGEST_PATH {
            return;
        }
        found(WordKind::Path, &text[self.start..self.end]);
        let file = &text[self.file..self.end];
        if self.file > self.start && file.contains('.') {
            found(WordKind::Path, file);
        }
    }
}

/// Visits a word and the parts of an identifier. `divided` tells whether the word contains a possible start
/// of a part.
fn word<'t>(word: &'t str, divided: bool, found: &mut impl FnMut(WordKind, &'t str)) {
    if word.len() < 2 || word.len() > LONGEST {
        return;
    }
    found(WordKind::Whole, word);
    if !divided {
        return;
    }
    let bytes = word.as_bytes();
    let mut start = 0;
    for at in 1..=bytes.len() {
        if at < bytes.len() && !begins_part(bytes, at) {
            continue;
        }
        let part = word.get(start..at).unwrap_or_default().trim_matches('_');
        if part.len() > 1 && part.len() < word.len() {
            found(WordKind::Part, part);
        }
        start = at;
    }
}

/// Visits the pairs of neighboring letters of a script without spaces, which are most of its words: `数据`, `据库` of `数据库`.
fn pairs<'t>(word: &'t str, found: &mut impl FnMut(WordKind, &'t str)) {
    let mut before = None;
    for (at, c) in word.char_indices() {
        let here = is_unspaced(c).then_some(at);
        let end = at + c.len_utf8();
        if let (Some(start), Some(_)) = (before, here)
            && end - start < word.len()
        {
            found(WordKind::Part, &word[start..end]);
        }
        before = here;
    }
}

/// Whether a part of an identifier begins at `at`: `stream_merge`, `StreamMerge`, `HTTPServer`.
fn begins_part(word: &[u8], at: usize) -> bool {
    let upper = |at: usize| word[at].is_ascii_uppercase();
    let lower = |at: usize| word.get(at).is_some_and(u8::is_ascii_lowercase);
    word[at] == b'_' || upper(at) && (lower(at - 1) || upper(at - 1) && lower(at + 1))
}

/// Hash of a word in lower case. Must not be stored, because another version may compute a different one.
pub fn hash(word: &str) -> u64 {
    match word.is_ascii() {
        // For the characters of words and paths, setting this bit lowers letters and merges no other two.
        true => folded(word.as_bytes(), 0x2020_2020_2020_2020),
        false => folded(word.to_lowercase().as_bytes(), 0),
    }
}

/// Hashes eight bytes per step by a full multiplication. `mask` is set in every byte.
fn folded(bytes: &[u8], mask: u64) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, bytes: u64| {
        let product = u128::from(hash ^ bytes) * u128::from(MIX);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let blocks = bytes.chunks_exact(8);
    let rest = blocks.remainder();
    let block = |block: &[u8]| block.try_into().map_or(0, u64::from_le_bytes) | mask;
    let hash = blocks.fold(bytes.len() as u64 ^ MIX, |hash, bytes| mix(hash, block(bytes)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash, u64::from_le_bytes(last) | mask), MIX)
}

/// Weight of a word that occurs in `containing` of `count` documents.
pub fn rarity(count: f32, containing: f32) -> f32 {
    // Adding one keeps the weight of a word in most documents positive.
    ((count - containing + 0.5) / (containing + 0.5) + 1.0).ln()
}

/// Weight of a word that occurs `found` times in a document of `length` words. `mean` is the average length.
pub fn weight(found: f32, length: f32, mean: f32) -> f32 {
    let norm = K1 * (1.0 - B + B * length / mean);
    found * (K1 + 1.0) / (found + norm)
}

/// Formats a number with thousands separators: `123,456`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 turn`, `3 turns`.
pub fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Vec<(WordKind, &str)> {
        let mut out = Vec::new();
        each(text, &mut |kind, word| out.push((kind, word)));
        out
    }

    fn of(kind: WordKind, text: &str) -> Vec<&str> {
        let all = all(text).into_iter();
        all.filter(|(k, _)| *k == kind).map(|(_, word)| word).collect()
    }

    #[test]
    fn identifiers_have_parts_and_paths_are_words() {
        assert_eq!(
            of(WordKind::Part, "StreamMerge_two HTTPServer x"),
            ["Stream", "Merge", "two", "HTTP", "Server"]
        );
        assert_eq!(
            of(WordKind::Path, "see src/a/prepare.rs, v1.2.3; follow-up."),
            ["src/a/prepare.rs", "prepare.rs", "v1.2.3"]
        );
        assert_eq!(
            of(WordKind::Whole, "Größe: 3 x 45s -> ok"),
            ["Größe", "45s", "ok"]
        );
        assert_eq!(of(WordKind::Part, "数据库 用户 Go言語"), ["数据", "据库", "言語"]);
        assert_eq!(of(WordKind::Whole, "数据库 用户"), ["数据库", "用户"]);
        assert_eq!(hash("GRÖSSE"), hash("grösse"));
        assert_eq!(hash("Stream_Merge.RS"), hash("stream_merge.rs"));
        let words = [
            "ab",
            "a_",
            "a",
            "a-b",
            "a.b",
            "a/b",
            "12345678",
            "123456789",
            "1234567_",
            "größe",
            "grösse",
        ];
        let all: std::collections::HashSet<u64> = words.iter().map(|word| hash(word)).collect();
        assert_eq!(all.len(), words.len());
        assert!(of(WordKind::Whole, &"a".repeat(65)).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_split(text in any::<String>()) {
            for (_, word) in all(&text) {
                prop_assert!(text.contains(word) && word.len() > 1);
            }
        }
    }
}
