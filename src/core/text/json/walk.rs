//! Finds the extent of JSON values.

use std::borrow::Cow;

use super::string::unescape;
use crate::text::{Span, cost, scan};

/// Invalid JSON at this byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidJson(pub usize);

/// Result of a walk: an offset, or the position of invalid JSON.
pub type WalkResult = Result<usize, InvalidJson>;

/// Offset of the first non-whitespace byte at or after `at`.
pub fn blank(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// End of the value that begins at `at`, without whitespace before it.
///
/// # Errors
/// There is no value at `at`, or it does not end.
pub fn value_end(text: &[u8], at: usize) -> WalkResult {
    match text.get(at) {
        Some(b'"') => string_end(text, at),
        Some(b'{' | b'[') => container_end(text, at),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => Ok(scalar_end(text, at)),
        _ => Err(InvalidJson(at)),
    }
}

/// End of the string literal that begins at `at`, including the closing quote.
///
/// # Errors
/// The closing quote is missing.
#[inline]
pub fn string_end(text: &[u8], at: usize) -> WalkResult {
    let end = scan::string_end(text, at).ok_or(InvalidJson(at))?;
    cost::add(end - at);
    Ok(end)
}

fn container_end(text: &[u8], at: usize) -> WalkResult {
    let end = scan::container_end(text, at).ok_or(InvalidJson(at))?;
    cost::add(end - at);
    Ok(end)
}

fn scalar_end(text: &[u8], at: usize) -> usize {
    // Numbers and literals are not validated.
    let len = text[at..]
        .iter()
        .take_while(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
    at + len.count()
}

/// Walks the object at `at` and returns its end.
///
/// `member` receives the key (inside its quotes) and the offset of the value, and returns the end of the
/// value.
///
/// # Errors
/// There is no object at `at`, it is malformed, or `member` fails.
pub fn object(text: &[u8], at: usize, member: impl FnMut(Span, usize) -> WalkResult) -> WalkResult {
    if text.get(at) != Some(&b'{') {
        return Err(InvalidJson(at));
    }
    let from = blank(text, at + 1);
    if text.get(from) == Some(&b'}') {
        return Ok(from + 1);
    }
    members_from(text, from, member)
}

/// Walks the members of an object after a value that ends at `at`. Otherwise like [`object`].
///
/// # Errors
/// Like those of [`object`].
pub fn rest_of_object(text: &[u8], at: usize, member: impl FnMut(Span, usize) -> WalkResult) -> WalkResult {
    match after_value(text, at)? {
        (from, true) => members_from(text, from, member),
        (end, false) => Ok(end),
    }
}

#[inline]
fn members_from(
    text: &[u8],
    mut from: usize,
    mut member: impl FnMut(Span, usize) -> WalkResult,
) -> WalkResult {
    loop {
        if text.get(from) != Some(&b'"') {
            return Err(InvalidJson(from));
        }
        let end = string_end(text, from)?;
        let key = Span::new(from + 1, end - 1);
        cost::add(1);
        let colon = blank(text, end);
        if text.get(colon) != Some(&b':') {
            return Err(InvalidJson(colon));
        }
        match after_value(text, member(key, blank(text, colon + 1))?)? {
            (next, true) => from = next,
            (end, false) => return Ok(end),
        }
    }
}

/// Offset of the key after a value that ends at `at`, and `true`, or the end of the object.
#[inline]
fn after_value(text: &[u8], at: usize) -> Result<(usize, bool), InvalidJson> {
    let after = blank(text, at);
    match text.get(after) {
        Some(b',') => Ok((blank(text, after + 1), true)),
        Some(b'}') => Ok((after + 1, false)),
        _ => Err(InvalidJson(after)),
    }
}

/// Walks the array at `at` and returns its end.
///
/// `element` receives the offset of an element and returns its end.
///
/// # Errors
/// There is no array at `at`, it is malformed, or `element` fails.
pub fn array(text: &[u8], at: usize, mut element: impl FnMut(usize) -> WalkResult) -> WalkResult {
    if text.get(at) != Some(&b'[') {
        return Err(InvalidJson(at));
    }
    let mut from = blank(text, at + 1);
    if text.get(from) == Some(&b']') {
        return Ok(from + 1);
    }
    loop {
        cost::add(1);
        let after = blank(text, element(from)?);
        match text.get(after) {
            Some(b',') => from = blank(text, after + 1),
            Some(b']') => return Ok(after + 1),
            _ => return Err(InvalidJson(after)),
        }
    }
}

/// Span of the single JSON value in `text`, without the whitespace around it.
///
/// # Errors
/// There is no value, or something follows it.
pub fn whole(text: &[u8]) -> Result<Span, InvalidJson> {
    let start = blank(text, 0);
    let end = value_end(text, start)?;
    if blank(text, end) != text.len() {
        return Err(InvalidJson(end));
    }
    Ok(Span::new(start, end))
}

/// Span from the first non-whitespace byte to the end of the text. Sufficient for a walk over members or
/// elements.
pub fn root(text: &[u8]) -> Span {
    Span::new(blank(text, 0), text.len())
}

/// Value of `key` in the object at `object_at`. If the key is repeated, the last one counts.
pub fn get(text: &[u8], object_at: Span, key: &str) -> Option<Span> {
    let [found] = pick(text, object_at, [key]);
    found
}

/// Values of several keys of the object at `object_at`, in the order of `keys`, from a single walk.
///
/// If a key is repeated, the last one counts. All are `None` if there is no object.
pub fn pick<const N: usize>(text: &[u8], object_at: Span, keys: [&str; N]) -> [Option<Span>; N] {
    let mut found = [None; N];
    // All or nothing: a malformed object yields no values.
    pick_into(text, object_at.start, keys, &mut found).map_or([None; N], |_| found)
}

/// Values of these keys in an object that may be truncated, as far as they precede the truncation.
pub fn pick_begun<const N: usize>(text: &[u8], keys: [&str; N]) -> [Option<Span>; N] {
    let mut found = [None; N];
    // A truncation ends the walk with an error, but the values before it are complete.
    let _ = pick_into(text, blank(text, 0), keys, &mut found);
    found
}

/// Values of these keys for each element of the array at `list`, from a single walk.
///
/// An element that is not an object has none of them. The result is empty if there is no array.
pub fn pick_each<const N: usize>(text: &[u8], list: Span, keys: [&str; N]) -> Vec<[Option<Span>; N]> {
    let mut all = Vec::new();
    let walked = array(text, list.start, |at| {
        let mut found = [None; N];
        let end = match text.get(at) {
            Some(b'{') => pick_into(text, at, keys, &mut found)?,
            _ => value_end(text, at)?,
        };
        all.push(found);
        Ok(end)
    });
    if walked.is_err() {
        all.clear();
    }
    all
}

/// Fills `found` from the object that begins at `at`, and returns its end.
fn pick_into<const N: usize>(
    text: &[u8],
    at: usize,
    keys: [&str; N],
    found: &mut [Option<Span>; N],
) -> WalkResult {
    object(text, at, |k, at| {
        let end = value_end(text, at)?;
        if let Some(i) = keys.iter().position(|key| key.as_bytes() == k.of(text)) {
            found[i] = Some(Span::new(at, end));
        }
        Ok(end)
    })
}

/// Value at a path of keys.
pub fn at_path(text: &[u8], from: Span, path: &[&str]) -> Option<Span> {
    path.iter().try_fold(from, |span, key| get(text, span, key))
}

/// Members of the object at `span`: key (inside its quotes) and value.
pub fn members(text: &[u8], span: Span) -> Vec<(Span, Span)> {
    let mut out = Vec::new();
    let walked = object(text, span.start, |key, at| {
        let end = value_end(text, at)?;
        out.push((key, Span::new(at, end)));
        Ok(end)
    });
    if walked.is_err() {
        out.clear();
    }
    out
}

/// Elements of the array at `span`, or nothing if there is no array.
pub fn elements(text: &[u8], span: Span) -> Vec<Span> {
    let mut out = Vec::new();
    let walked = array(text, span.start, |at| {
        let end = value_end(text, at)?;
        out.push(Span::new(at, end));
        Ok(end)
    });
    if walked.is_err() {
        out.clear();
    }
    out
}

/// Unescaped string literal at `span`, or `None` if there is a different value.
pub fn string(text: &[u8], span: Span) -> Option<Cow<'_, str>> {
    (text.get(span.start) == Some(&b'"')).then(|| unescape(span.inner().of(text)))
}

/// Unescaped string literal at `span`, or an empty string if there is none.
pub fn string_or_empty(text: &[u8], span: Option<Span>) -> Cow<'_, str> {
    span.and_then(|span| string(text, span)).unwrap_or_default()
}

/// String under `key` of the object at `span`.
pub fn get_string<'a>(text: &'a [u8], span: Span, key: &str) -> Option<Cow<'a, str>> {
    string(text, get(text, span, key)?)
}

/// Span of the inside of the string under `key`, not unescaped.
pub fn get_inner(text: &[u8], span: Span, key: &str) -> Option<Span> {
    let string = get(text, span, key).filter(|value| text[value.start] == b'"');
    string.map(Span::inner)
}

/// Owned string under `key`, or an empty string if there is none.
pub fn get_owned(text: &[u8], span: Span, key: &str) -> String {
    get_string(text, span, key).unwrap_or_default().into_owned()
}

/// Unsigned number under `key` of the object at `span`. Fractions are truncated.
pub fn get_u64(text: &[u8], span: Span, key: &str) -> Option<u64> {
    number(get(text, span, key)?.of(text))
}

/// Upper bound for counts of tokens, parts or choices, above any real one. Sums over many responses still fit
/// into a signed 64-bit integer.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// Parses an unsigned number and clamps it to a trillion, because upstream data is not trusted.
pub fn number(raw: &[u8]) -> Option<u64> {
    // A fraction or an exponent ends the digits.
    let digits = raw.iter().take_while(|b| b.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(raw.get(..digits)?).ok()?.parse().ok()?;
    Some(number.min(MAX_COUNT))
}

/// Whether the literal `raw` is exactly `true`.
pub fn is_true(raw: &[u8]) -> bool {
    raw == b"true"
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_of_members_and_elements_are_exact() {
        let text = br#" { "a" : [1, "x]\"", {"b":null}] , "a\n":true }"#;
        let span = whole(text).unwrap();
        let all = members(text, span);
        assert_eq!(all[0].0.of(text), b"a");
        assert_eq!(all[0].1.of(text), br#"[1, "x]\"", {"b":null}]"#);
        assert_eq!(all[1].1.of(text), b"true");
        let parts: Vec<_> = elements(text, all[0].1)
            .into_iter()
            .map(|s| s.of(text).to_vec())
            .collect();
        assert_eq!(
            parts,
            [b"1".to_vec(), br#""x]\"""#.to_vec(), br#"{"b":null}"#.to_vec()]
        );
    }

    #[test]
    fn text_cut_anywhere_is_malformed_and_never_panics() {
        let text = br#"{"messages":[{"role":"user","content":"a\"b\\"},[1,2.5e3,true]],"x":{}}"#;
        assert!(whole(text).is_ok());
        for cut in 0..text.len() {
            assert!(whole(&text[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn the_last_of_repeated_keys_is_taken() {
        let text = br#"{"a":1,"a":2,"b":3}"#;
        let all = whole(text).unwrap();
        assert_eq!(get_u64(text, all, "a"), Some(2));
        let picked = pick(text, all, ["b", "c", "a"]).map(|span| span.map(|s| s.of(text)));
        assert_eq!(picked, [Some(&b"3"[..]), None, Some(&b"2"[..])]);
        assert_eq!(pick(&text[..8], all, ["a"]), [None], "no object, no values");
        let broken = br#"{"a":1,"b":}"#;
        let begun = pick_begun(broken, ["b", "a"]).map(|span| span.map(|s| s.of(broken)));
        assert_eq!(begun, [None, Some(&b"1"[..])], "what is in front of the break");
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = whole(&text);
        }
    }
}
