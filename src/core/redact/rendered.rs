//! Text as a reader sees it: without the escape sequences of terminals, and with letters that are spelled as
//! `\uXXXX`, as in JSON within JSON.

use std::ops::Range;

use super::run;

const ESC: char = '\u{1b}';

/// The rendered text, and the source of each of its parts.
#[derive(Default)]
pub(super) struct Rendered {
    pub(super) text: String,
    parts: Vec<RenderedPart>,
}

/// A part of the rendered text: a copy of its source, or a letter that is spelled out there.
struct RenderedPart {
    text: Range<usize>,
    source: Range<usize>,
}

impl Rendered {
    /// Renders a string. Returns `None` if that changes nothing.
    pub(super) fn new(source: &str) -> Option<Self> {
        let bytes = source.as_bytes();
        let mut rendered = Self::default();
        let (mut kept, mut at) = (0, 0);
        while let Some(next) = memchr::memchr2(0x1b, b'\\', &bytes[at..]) {
            let start = at + next;
            let (letter, len) = spelled(&bytes[start..]);
            at = start + len;
            let Some(letter) = letter else { continue };
            rendered.push(&source[kept..start], kept);
            if letter == ESC {
                at += sequence_len(&bytes[at..]);
            } else {
                rendered.push_letter(letter, start..at);
            }
            kept = at;
        }
        if kept == 0 {
            return None;
        }
        rendered.push(&source[kept..], kept);
        super::worked(source.len());
        Some(rendered)
    }

    fn push(&mut self, text: &str, source: usize) {
        self.part(text, source..source + text.len());
    }

    fn push_letter(&mut self, letter: char, source: Range<usize>) {
        self.part(letter.encode_utf8(&mut [0; 4]), source);
    }

    fn part(&mut self, text: &str, source: Range<usize>) {
        if !text.is_empty() {
            let start = self.text.len();
            self.text.push_str(text);
            let text = start..self.text.len();
            self.parts.push(RenderedPart { text, source });
        }
    }

    /// The source of a range that is not empty.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let holding = |at: usize| &self.parts[self.parts.partition_point(|part| part.text.end <= at)];
        let (first, last) = (holding(range.start), holding(range.end - 1));
        let start = match first.is_copy() {
            true => first.source.start + range.start - first.text.start,
            false => first.source.start,
        };
        let end = match last.is_copy() {
            true => last.source.start + range.end - last.text.start,
            false => last.source.end,
        };
        start..end
    }
}

impl RenderedPart {
    /// A letter that is spelled out is always longer in its source.
    fn is_copy(&self) -> bool {
        self.text.len() == self.source.len()
    }
}

/// The letter that begins with a backslash or an escape character at the start, and the length that was read.
///
/// Quotes, backslashes and other control characters stay spelled, because they have a meaning in the source.
fn spelled(bytes: &[u8]) -> (Option<char>, usize) {
    if bytes[0] == 0x1b {
        return (Some(ESC), 1);
    }
    let Some((unit, len)) = utf16(bytes) else {
        return (None, run(bytes, |b| b == b'\\'));
    };
    let (letter, len) = match (char::from_u32(unit), utf16(&bytes[len..])) {
        (None, Some((low, more))) => {
            let pair = [unit, low].map(|unit| u16::try_from(unit).unwrap_or_default());
            let decoded = char::decode_utf16(pair).next().and_then(Result::ok);
            (decoded, if decoded.is_some() { len + more } else { len })
        }
        (letter, _) => (letter, len),
    };
    let is_kept = |letter: &char| *letter == ESC || !letter.is_control() && !matches!(letter, '"' | '\\');
    (letter.filter(is_kept), len)
}

/// The value of `\uXXXX` at the start, and its length. JSON within JSON doubles the backslash.
fn utf16(bytes: &[u8]) -> Option<(u32, usize)> {
    let slashes = run(bytes, |b| b == b'\\');
    let digits = bytes.get(slashes..)?.strip_prefix(b"u")?.get(..4)?;
    let is_unit = slashes > 0 && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_unit)?;
    Some((u32::from_str_radix(digits, 16).ok()?, slashes + 5))
}

/// Length of the rest of an escape sequence, after its escape character (ECMA-48).
fn sequence_len(bytes: &[u8]) -> usize {
    /// Maximum length in bytes of a window title or a link.
    const MAX_STRING_BYTES: usize = 2048;
    let rest = bytes.get(1..).unwrap_or_default();
    if bytes.first() == Some(&b']') {
        let near = &rest[..rest.len().min(MAX_STRING_BYTES)];
        let end = near.iter().position(|b| matches!(b, 0x07 | 0x1b | b'\n'));
        super::worked(end.unwrap_or(near.len()));
        return end.map_or(1, |at| 1 + at + usize::from(near[at] == 0x07));
    }
    let control = usize::from(bytes.first() == Some(&b'['));
    let parameters = run(&bytes[control..], |b| (0x20..0x40).contains(&b));
    let end = control + parameters;
    let is_final = bytes.get(end).is_some_and(|b| (0x40..0x7f).contains(b));
    end + usize::from(is_final)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_dropped_and_spelled_letters_decoded_with_their_source() {
        for (source, expected) in [
            ("a\u{1b}[01;31m\u{1b}[Kb\u{1b}[m", "ab"),
            ("\u{1b}]0;title\u{7}a \u{1b}(Bb", "a b"),
            ("\u{1b}]8;;https://a.example\u{1b}\\a\u{1b}]8;;\u{1b}\\", "a"),
            (r"\u5bc6\u7801 a", "密码 a"),
            (r"\\u5bc6 \u0061 \u001b[1mb", "密 a b"),
            (r"\ud83d\udd11 \ud83d \u5bc6", "🔑 \\ud83d 密"),
            (r"\u0022 \u005c \u000a \u5bc6", "\\u0022 \\u005c \\u000a 密"),
            ("a\u{1b}", "a"),
        ] {
            let rendered = Rendered::new(source).unwrap();
            assert_eq!(rendered.text, expected, "{source:?}");
            let letter = rendered.text.char_indices().last().unwrap();
            let end = letter.0 + letter.1.len_utf8();
            let found = &source[rendered.source(&(letter.0..end))];
            let again = Rendered::new(found).map_or(found.to_owned(), |again| again.text);
            assert_eq!(again, letter.1.to_string(), "{source:?}");
        }
        for source in ["", "plain", r"C:\users\new", r"a\\b \n \u12", r"\u0022"] {
            assert!(Rendered::new(source).is_none(), "{source}");
        }
    }

    #[test]
    fn a_range_over_several_parts_has_all_of_their_source() {
        let source = "x pass\u{1b}[Kword=\u{1b}[1mab\u{1b}[mcd\u{1b}[m y";
        let rendered = Rendered::new(source).unwrap();
        assert_eq!(rendered.text, "x password=abcd y");
        assert_eq!(&source[rendered.source(&(11..15))], "ab\u{1b}[mcd");
        assert_eq!(&source[rendered.source(&(2..10))], "pass\u{1b}[Kword");
    }
}
