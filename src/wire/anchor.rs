//! Names a call so that it is found again where ids are missing or were dropped on the way (DESIGN.md, 13.4):
//! by its id, its thought signature, and its name and arguments, whatever of them is left.
//!
//! An anchor is kept as text in a hidden pair's place: `~SIGNATURE.CALL.PLACE.ID`, the first three hashes in
//! hexadecimal or `-`. A sibling without the tilde is a plain id.

use std::collections::HashMap;

use crate::json::{self, Span};

/// Depth at which arguments are hashed as they are spelled: deeper ones are nobody's.
const DEPTH: u32 = 32;

/// What a call can be known by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Anchor {
    signature: Option<u64>,
    call: u64,
    place: Option<u64>,
    id: String,
}

/// Where in a transcript a message stands, for calls that have nothing else.
pub(super) type Place = u64;

/// The anchors of one message's calls, in order: equal calls are told apart by their order.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    seen: HashMap<u64, u64>,
}

/// A call's own spans.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traits {
    /// Its name, a JSON value.
    pub(super) name: Option<Span>,
    /// Its arguments, a JSON value.
    pub(super) arguments: Option<Span>,
    /// The inside of its id literal.
    pub(super) id: Option<Span>,
    /// The inside of its signature literal.
    pub(super) signature: Option<Span>,
}

impl Anchors {
    /// The next call of the message; `place` says where the message stands, asked only where nothing else
    /// tells the call from others.
    pub(super) fn next(&mut self, text: &[u8], call: Traits, place: impl FnOnce() -> Place) -> Anchor {
        let name = call.name.map_or(0, |n| digest(text, n, 0));
        let arguments = call.arguments.map_or(EMPTY, |a| digest(text, a, 0));
        let same = mix(name, arguments);
        let seen = self.seen.entry(same).or_default();
        let before = *seen;
        *seen += 1;
        let id = call
            .id
            .map_or(String::new(), |i| json::unescape(i.of(text)).into_owned());
        let signature = call.signature.map(|s| of_signature(&json::unescape(s.of(text))));
        let bare = id.is_empty() && signature.is_none();
        Anchor {
            signature,
            call: mix(same, before),
            place: bare.then(place),
            id,
        }
    }
}

impl Anchor {
    /// As a hidden pair's place keeps it.
    pub(super) fn text(&self) -> String {
        let hash = |h: Option<u64>| h.map_or("-".to_owned(), |h| format!("{h:016x}"));
        format!(
            "~{}.{:016x}.{}.{}",
            hash(self.signature),
            self.call,
            hash(self.place),
            self.id
        )
    }

    /// Reads it back; a text that is no anchor is an id.
    pub(super) fn read(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|| Self {
            id: text.to_owned(),
            ..Self::default()
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.strip_prefix('~')?.splitn(4, '.');
        let mut hash = || -> Option<Option<u64>> {
            match fields.next()? {
                "-" => Some(None),
                hex => Some(Some(u64::from_str_radix(hex, 16).ok()?)),
            }
        };
        let (signature, call, place) = (hash()?, hash()??, hash()?);
        Some(Self {
            signature,
            call,
            place,
            id: fields.next()?.to_owned(),
        })
    }

    /// How surely `found` is the same call: 0 not at all, more is better.
    pub(super) fn likeness(&self, found: &Self) -> u8 {
        let both_ids = !self.id.is_empty() && !found.id.is_empty();
        if both_ids && self.id == found.id {
            return 4;
        }
        let both_signed = self.signature.is_some() && found.signature.is_some();
        if both_signed && self.signature == found.signature {
            return 3;
        }
        match self.call == found.call && !both_ids && !both_signed {
            true if self.place.is_some() && self.place == found.place => 2,
            true => 1,
            false => 0,
        }
    }
}

/// The most alike of `found`, the first among equals.
pub(super) fn best<T>(wanted: &Anchor, found: impl Iterator<Item = (Anchor, T)>) -> Option<T> {
    let mut best: Option<(u8, T)> = None;
    for (anchor, what) in found {
        let likeness = wanted.likeness(&anchor);
        if likeness > best.as_ref().map_or(0, |b| b.0) {
            best = Some((likeness, what));
        }
    }
    best.map(|b| b.1)
}

/// Whether an id was drawn and not counted: it has a run of letters and digits that is long enough to be met once.
pub(super) fn is_random(id: &str) -> bool {
    /// `call_` and eight of them is the shortest that servers make.
    const LEAST: usize = 8;
    let mut runs = id.split(|c: char| !c.is_ascii_alphanumeric());
    runs.any(|run| {
        let digits = run.bytes().filter(u8::is_ascii_digit).count();
        run.len() >= LEAST && digits > 0 && digits < run.len()
    })
}

/// The place of the message at `index` of a transcript whose first words are `opening`.
pub(super) fn place(index: usize, opening: &str) -> Place {
    mix(index as u64, fnv(opening.as_bytes()))
}

/// Agents that decode signatures spell them again in either alphabet, padded or not.
fn of_signature(signature: &str) -> u64 {
    let plain = signature.trim_end_matches('=').bytes().map(|b| match b {
        b'-' => b'+',
        b'_' => b'/',
        b => b,
    });
    plain.fold(OFFSET, step)
}

/// FNV-1a, 64 bits: kept in records, so it must be the same in every build.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// What an absent object of arguments hashes to, as an empty one does.
const EMPTY: u64 = 1;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().copied().fold(OFFSET, step)
}

fn mix(a: u64, b: u64) -> u64 {
    b.to_le_bytes().into_iter().fold(a ^ OFFSET, step)
}

/// A hash of a JSON value that does not change with the order of keys, white space, escapes or the spelling
/// of numbers.
fn digest(text: &[u8], value: Span, depth: u32) -> u64 {
    let raw = value.of(text);
    match raw.first() {
        Some(b'"') => fnv(json::unescape(value.inner().of(text)).as_bytes()),
        Some(b'{') if depth < DEPTH => json::members(text, value).into_iter().fold(EMPTY, |sum, (k, v)| {
            let key = fnv(json::unescape(k.of(text)).as_bytes());
            sum.wrapping_add(mix(key, digest(text, v, depth + 1)))
        }),
        Some(b'[') if depth < DEPTH => json::elements(text, value)
            .into_iter()
            .fold(2, |all, v| mix(all, digest(text, v, depth + 1))),
        _ => match std::str::from_utf8(raw).ok().and_then(|n| n.parse::<f64>().ok()) {
            Some(number) => number.to_bits(),
            None => fnv(raw),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(call: &str) -> Anchor {
        let text = call.as_bytes();
        let whole = Span::new(0, text.len());
        let call = Traits {
            name: json::get(text, whole, "name"),
            arguments: json::get(text, whole, "args"),
            id: json::get(text, whole, "id").map(Span::inner),
            signature: json::get(text, whole, "signature").map(Span::inner),
        };
        Anchors::default().next(text, call, || place(3, "hello"))
    }

    #[test]
    fn an_anchor_is_read_back_as_it_was() {
        for call in [
            r#"{"name":"f","args":{"a":1},"id":"x.y~z","signature":"c2ln"}"#,
            r#"{"name":"f"}"#,
        ] {
            let made = anchor(call);
            assert_eq!(Anchor::read(&made.text()), made);
        }
        assert_eq!(Anchor::read("call_1").id, "call_1");
    }

    #[test]
    fn spelling_does_not_matter() {
        let one = anchor(r#"{"name":"f","args":{"a":[1.0,{"b":"\u0041"}],"c":null},"signature":"ab+/=="}"#);
        let two = anchor(r#"{"name":"f","args":{"c":null, "a":[1,{"b":"A"}]},"signature":"ab-_"}"#);
        assert_eq!(one, two);
        assert_eq!(anchor(r#"{"name":"f"}"#), anchor(r#"{"name":"f","args":{}}"#));
        assert_ne!(
            anchor(r#"{"name":"f","args":[1,2]}"#),
            anchor(r#"{"name":"f","args":[2,1]}"#)
        );
    }

    #[test]
    fn counted_ids_are_not_random() {
        for id in [
            "toolu_01A09q90qw90lq917835lq9",
            "call_a1b2c3d4",
            "chatcmpl-tool-0f2b7c1d9e",
            "call_0_7f1c2d3e-8a9b-4c5d-8e6f-000000000000",
            "D681PevKs",
        ] {
            assert!(is_random(id), "{id}");
        }
        for id in [
            "",
            "0",
            "call_0",
            "call_12345678",
            "functions.read_file:3",
            "read_file-2",
        ] {
            assert!(!is_random(id), "{id}");
        }
    }

    #[test]
    fn what_is_left_decides() {
        let whole = anchor(r#"{"name":"f","args":{"a":1},"id":"x","signature":"s"}"#);
        let likeness = |call: &str| whole.likeness(&anchor(call));
        assert_eq!(likeness(r#"{"name":"g","id":"x"}"#), 4);
        assert_eq!(likeness(r#"{"name":"g","id":"other","signature":"s"}"#), 3);
        assert_eq!(likeness(r#"{"name":"f","args":{"a":1}}"#), 1);
        assert_eq!(likeness(r#"{"name":"f","args":{"a":1},"id":"other"}"#), 0);
        assert_eq!(likeness(r#"{"name":"f","args":{"a":1},"signature":"other"}"#), 0);
        assert_eq!(likeness(r#"{"name":"f","args":{"a":2}}"#), 0);
        let bare = anchor(r#"{"name":"f"}"#);
        assert_eq!(bare.likeness(&anchor(r#"{"name":"f"}"#)), 2);
    }
}
