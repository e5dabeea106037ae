//! Escaping and unescaping of string literals.

use std::borrow::Cow;

use crate::text::{cost, lossy};

/// Unescapes the inside of a string literal. Lone surrogates and invalid UTF-8 become U+FFFD.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    cost::add(raw.len());
    let mut next = memchr::memchr(b'\\', raw);
    if next.is_none() {
        return lossy(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = next {
        out.extend_from_slice(&rest[..at]);
        let (c, used) = escape_at(&rest[at..]);
        match c.is_ascii() {
            true => out.push(c as u8),
            false => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = rest.get(at + used..).unwrap_or_default();
        next = memchr::memchr(b'\\', rest);
    }
    out.extend_from_slice(rest);
    let text = String::from_utf8(out);
    Cow::Owned(text.unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned()))
}

/// Decodes the escape at the start of `raw`. Returns the character and the length of the escape in bytes.
pub fn escape_at(raw: &[u8]) -> (char, usize) {
    match raw.get(1) {
        Some(b'n') => ('\n', 2),
        Some(b't') => ('\t', 2),
        Some(b'r') => ('\r', 2),
        Some(b'b') => ('\u{8}', 2),
        Some(b'f') => ('\u{c}', 2),
        Some(b'u') => unicode_escape_at(raw),
        Some(&c) if c.is_ascii() => (c as char, 2),
        _ => (char::REPLACEMENT_CHARACTER, 1),
    }
}

fn unicode_escape_at(raw: &[u8]) -> (char, usize) {
    let Some(first) = hex4(raw, 2) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    // A high surrogate needs the low surrogate after it.
    if let 0xD800..=0xDBFF = first
        && raw.get(6..8) == Some(b"\\u")
        && let Some(second @ 0xDC00..=0xDFFF) = hex4(raw, 8)
    {
        let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// Decodes the first character inside a string literal, with its length in bytes. `None` at the end and for
/// invalid UTF-8.
pub fn char_at(raw: &[u8]) -> Option<(char, usize)> {
    match raw.first()? {
        b'\\' => Some(escape_at(raw)),
        byte if byte.is_ascii() => Some((*byte as char, 1)),
        _ => {
            let chunk = raw[..raw.len().min(4)].utf8_chunks().next()?;
            chunk.valid().chars().next().map(|c| (c, c.len_utf8()))
        }
    }
}

/// Number of bytes at the start of `raw` that spell `prefix`, or `None` if `raw` begins differently. `raw` is
/// the inside of a string literal.
pub fn spelled(raw: &[u8], prefix: &str) -> Option<usize> {
    let mut at = 0;
    for c in prefix.chars() {
        let rest = raw.get(at..)?;
        if rest.first() == Some(&b'\\') {
            let (found, used) = escape_at(rest);
            if found != c {
                return None;
            }
            at += used;
        } else {
            let mut utf8 = [0; 4];
            let bytes = c.encode_utf8(&mut utf8).as_bytes();
            if !rest.starts_with(bytes) {
                return None;
            }
            at += bytes.len();
        }
    }
    Some(at)
}

fn hex4(raw: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(raw.get(at..at + 4)?).ok()?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

/// Formats `text` as a JSON string literal with quotes.
///
/// Escapes U+2028, U+2029 and U+0085 as well. Some SSE clients treat them as line breaks and would cut the
/// JSON there.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape_into(text, &mut out);
    out.push('"');
    out
}

/// Appends `text` with JSON escapes to `out`.
pub fn escape_into(text: &str, out: &mut String) {
    let (mut copied, mut at) = (0, 0);
    loop {
        // Most characters are copied in runs.
        at += plain_run(&text.as_bytes()[at..]);
        let Some(c) = text[at..].chars().next() else { break };
        let from = at;
        at += c.len_utf8();
        let short = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{85}' | '\u{2028}' | '\u{2029}' => "",
            _ => continue,
        };
        out.push_str(&text[copied..from]);
        out.push_str(short);
        if short.is_empty() {
            out.push_str(&format!("\\u{:04x}", c as u32));
        }
        copied = at;
    }
    out.push_str(&text[copied..]);
}

/// Number of bytes before the first one that needs an escape or may begin such a character. 0xC2 and 0xE2
/// begin U+0085, U+2028 and U+2029.
///
/// Works in blocks whose bytes are compared at once.
fn plain_run(text: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let special = |byte: u8| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f | 0xC2 | 0xE2);
    let is_plain = |block: &&[u8]| !block.iter().fold(false, |any, byte| any | special(*byte));
    let plain = text.chunks_exact(BLOCK).take_while(is_plain).count() * BLOCK;
    let rest = &text[plain..];
    plain + rest.iter().position(|byte| special(*byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        assert_eq!(
            unescape(br"a\ud83d\ude00b\ud83dc\uZZ"),
            "a\u{1F600}b\u{FFFD}c\u{FFFD}ZZ"
        );
    }

    proptest! {
        #[test]
        fn quoting_is_what_serde_json_reads_back(text in any::<String>()) {
            let quoted = quote(&text);
            let back: String = serde_json::from_str(&quoted).unwrap();
            prop_assert_eq!(&back, &text);
            prop_assert_eq!(unescape(&quoted.as_bytes()[1..quoted.len() - 1]), text);
        }

        #[test]
        fn any_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = unescape(&text);
        }
    }
}
