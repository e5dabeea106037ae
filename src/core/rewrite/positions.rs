//! Positions in a transcript: the number of elements before one, and a digest that identifies them.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;
use sha2::{Digest, Sha256};

use crate::record::Position;
use crate::text::json;
use crate::text::units::hex;
use crate::wire::view::View;

/// Length of a digest in bytes: 128 bits.
const DIGEST: usize = 16;

/// Position after everything in a transcript.
pub fn of(view: &View) -> Position {
    let turns = view.turns.len() - view.leading();
    Position {
        turns,
        digest: digests(view, &[turns]).pop().unwrap_or_default(),
    }
}

/// Whether a transcript contains everything before this position, unchanged.
pub fn is_in(view: &View, position: &Position) -> bool {
    // `digests` would otherwise give the digest of a shorter transcript.
    let enough = position.turns <= view.turns.len() - view.leading();
    enough && digests(view, &[position.turns]).pop().as_ref() == Some(&position.digest)
}

/// Digests of the first `n` elements after the leading system messages, for each `n` in `counts`.
///
/// `counts` must be ascending.
pub(super) fn digests(view: &View, counts: &[usize]) -> Vec<String> {
    if counts.is_empty() {
        return Vec::new();
    }
    let mut hash = Sha256::new();
    let previous = view.facts.previous.as_ref().map_or("", |p| p.id.as_str());
    // The id stands for the history that upstream stores.
    add(&mut hash, previous.as_bytes());
    let mut turns = view.turns[view.leading()..].iter();
    let mut done = 0;
    let mut out = Vec::new();
    for &count in counts {
        for turn in turns.by_ref().take(count - done) {
            add(&mut hash, &without_breakpoints(view.text(turn.span)));
        }
        done = count;
        out.push(hex(&hash.clone().finalize()[..DIGEST]));
    }
    out
}

fn add(hash: &mut Sha256, part: &[u8]) {
    // The length prefix keeps parts distinct.
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

/// Removes the members `cache_control` from JSON, because agents move them to the newest message.
pub fn without_breakpoints(raw: &[u8]) -> Cow<'_, [u8]> {
    const KEY: &[u8] = b"\"cache_control\"";
    // Built once: for a short string, building takes longer than searching.
    static FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(KEY));
    let mut kept: Vec<u8> = Vec::new();
    let mut done = 0;
    for at in FINDER.find_iter(raw) {
        let colon = json::blank(raw, at + KEY.len());
        // Inside a string the closing quote would be escaped. A string with exactly this word has no colon
        // after it.
        if at < done || raw.get(colon) != Some(&b':') {
            continue;
        }
        let Ok(end) = json::value_end(raw, json::blank(raw, colon + 1)) else {
            continue;
        };
        let before = raw[done..at].trim_ascii_end();
        // The member is removed with one comma, before or after it.
        match before.strip_suffix(b",") {
            Some(before) => {
                kept.extend_from_slice(before);
                done = end;
            }
            None => {
                kept.extend_from_slice(before);
                let next = json::blank(raw, end);
                done = if raw.get(next) == Some(&b',') {
                    next + 1
                } else {
                    end
                };
            }
        }
    }
    if done == 0 {
        return Cow::Borrowed(raw);
    }
    kept.extend_from_slice(&raw[done..]);
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breakpoints_are_taken_out_wherever_they_stand() {
        for (with, without) in [
            (r#"{"a":1,"cache_control":{"x":[","]}}"#, r#"{"a":1}"#),
            (r#"{"cache_control":null,"a":1}"#, r#"{"a":1}"#),
            (r#"{"cache_control" : {"t":1} }"#, r#"{ }"#),
            (
                r#"[{"a":1, "cache_control":{}},{"b":2,"cache_control":{}}]"#,
                r#"[{"a":1},{"b":2}]"#,
            ),
            (r#"{"a":"\"cache_control\":1"}"#, r#"{"a":"\"cache_control\":1"}"#),
            (r#"{"a":"cache_control"}"#, r#"{"a":"cache_control"}"#),
        ] {
            assert_eq!(without_breakpoints(with.as_bytes()), without.as_bytes());
        }
    }
}
