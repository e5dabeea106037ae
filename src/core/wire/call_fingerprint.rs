//! Identifies calls whose ids may be missing, on wires where servers omit ids or agents drop them.
//!
//! Identification uses the id, the thought signature, the name, the arguments and the position, as far as
//! they are left.
//!
//! A hidden pair stores a fingerprint as a string: `~CALL.PLACE;SIGNATURE.ID`. The first three fields are
//! hashes in hexadecimal; the signature may be `-`. No agent drops the data before the semicolon, so that
//! part is the lookup key of pairs. A sibling without the tilde is a plain id.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::record::{FINGERPRINT, sibling_key};
use crate::text::{Span, json};
use crate::wire::TurnPart;

/// Placeholders that agents send for a missing signature. They do not identify a call.
///
/// Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>
const PLACEHOLDER_SIGNATURES: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// Nesting depth beyond which arguments are hashed as raw bytes. Real arguments are never deeper; the limit
/// bounds the recursion for hostile ones.
const DEPTH: u32 = 32;

/// Features that identify a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) signature: Option<u64>,
    /// Hash of the name, the arguments, and the number of equal calls before it in its message.
    pub(super) call: u64,
    pub(super) place: Option<MessageNumber>,
    pub(super) id: String,
}

/// Hash that identifies a message's position in a transcript.
pub(super) type MessageNumber = u64;

/// Computes the fingerprints of one message's calls, in order. Equal calls differ by their ordinal.
#[derive(Debug, Default)]
pub(super) struct Fingerprints {
    /// Number of calls so far, by the hash of their name and arguments.
    seen: HashMap<u64, u64>,
}

impl Fingerprints {
    /// Fingerprints the next call of the message at `place`.
    pub(super) fn next(&mut self, text: &[u8], call: &TurnPart, place: MessageNumber) -> Fingerprint {
        self.call(text, call, same(text, call), place)
    }

    /// Fingerprints the next call. `same` is the precomputed hash of its name and arguments.
    pub(super) fn call(
        &mut self,
        text: &[u8],
        call: &TurnPart,
        same: u64,
        place: MessageNumber,
    ) -> Fingerprint {
        // A model may make the same call twice in one message. Only the order tells them apart.
        let before = self.seen.entry(same).or_default();
        let nth = *before;
        *before += 1;
        let id = call
            .id
            .map_or(String::new(), |i| json::unescape(i.of(text)).into_owned());
        let signature = call.signature.map(|s| json::unescape(s.of(text)));
        let signature = signature.filter(|s| !PLACEHOLDER_SIGNATURES.contains(&&**s));
        Fingerprint {
            signature: signature.map(|s| of_signature(&s)),
            call: mix(same, nth),
            place: Some(place),
            id,
        }
    }
}

/// Hashes a call's name and arguments.
pub(super) fn same(text: &[u8], call: &TurnPart) -> u64 {
    let name = call.name.map_or(0, |n| of_text(&json::unescape(n.of(text))));
    let arguments = call.value.map_or(EMPTY, |a| digest(text, a, 0));
    mix(name, arguments)
}

/// Returns the globally unique part of a call's name, if it has one: a random id or a signature.
pub fn unique_part(sibling: &str) -> Option<&str> {
    if !sibling.starts_with(FINGERPRINT) {
        return is_random(sibling).then_some(sibling);
    }
    let fingerprint = Fingerprint::read(sibling);
    let place = sibling_key(sibling);
    // Equal positions occur in many conversations, so only the rest can be unique.
    let rest = sibling.strip_prefix(place).filter(|rest| !rest.is_empty());
    (fingerprint.signature.is_some() || is_random(&fingerprint.id)).then_some(rest.unwrap_or(place))
}

/// Names a visible call of a response by its id, or by its number among the calls if the id may repeat.
///
/// [`View::placed`](super::View::placed) adds the position of the response.
pub fn in_answer(id: &str, number: usize) -> String {
    if id.starts_with(FINGERPRINT) || is_random(id) {
        return id.to_owned();
    }
    let numbered = Fingerprint {
        call: mix(0, number as u64),
        id: id.to_owned(),
        ..Fingerprint::default()
    };
    numbered.text()
}

/// Whether a name of [`in_answer`] lacks the position of the response.
pub fn lacks_place(name: &str) -> bool {
    name.starts_with(FINGERPRINT) && Fingerprint::read(name).place == Some(0)
}

/// Adds the position to a name that lacks it.
pub(super) fn placed(name: &str, place: MessageNumber) -> String {
    let numbered = Fingerprint {
        place: Some(place),
        ..Fingerprint::read(name)
    };
    numbered.text()
}

/// The id in the name of a call.
pub fn id_in(sibling: &str) -> Cow<'_, str> {
    match sibling.starts_with(FINGERPRINT) {
        true => Fingerprint::read(sibling).id.into(),
        false => sibling.into(),
    }
}

impl Fingerprint {
    /// Returns the part that no agent drops: call and position.
    pub(super) fn key(&self) -> String {
        let place = self.place.unwrap_or_default();
        format!("{FINGERPRINT}{:016x}.{place:016x}", self.call)
    }

    /// Returns the form that hidden pairs store.
    pub(super) fn text(&self) -> String {
        let signature = self.signature.map_or("-".to_owned(), |h| format!("{h:016x}"));
        format!("{};{signature}.{}", self.key(), self.id)
    }

    /// Parses the stored form. Any string other than a fingerprint is a plain id.
    pub(super) fn read(text: &str) -> Self {
        let read = text.strip_prefix(FINGERPRINT).and_then(Self::parse);
        read.unwrap_or_else(|| Self {
            id: text.to_owned(),
            ..Self::default()
        })
    }

    fn parse(text: &str) -> Option<Self> {
        // A lookup key ends before the semicolon, without signature and id.
        let (key, rest) = text.split_once(';').unwrap_or((text, "-."));
        let (call, place) = key.split_once('.')?;
        let (signature, id) = rest.split_once('.')?;
        Some(Self {
            signature: hash(signature)?,
            call: hash(call)??,
            place: hash(place)?,
            id: id.to_owned(),
        })
    }

    /// Whether `found`, a call with the same name, arguments and position, can be this call. Ids and
    /// signatures must not contradict it.
    pub(super) fn may_be(&self, found: &Self) -> bool {
        // Agents drop signatures but never add one, so a signed call is not the call that was stored
        // unsigned.
        (self.id.is_empty() || found.id.is_empty()) && found.signature.is_none()
    }
}

/// Parses a hash in hexadecimal; `-` stands for an absent one.
fn hash(field: &str) -> Option<Option<u64>> {
    match field {
        "-" => Some(None),
        hex => Some(Some(u64::from_str_radix(hex, 16).ok()?)),
    }
}

/// Whether an id is random rather than a counter: it contains a run of letters and digits long enough to be
/// unique.
pub(super) fn is_random(id: &str) -> bool {
    /// Minimum length of such a run. The shortest ids that servers create are `call_` and eight characters.
    const LEAST: usize = 8;
    let mut runs = id.as_bytes().split(|b| !b.is_ascii_alphanumeric());
    runs.any(|run| {
        run.len() >= LEAST && run.iter().any(u8::is_ascii_digit) && !run.iter().all(u8::is_ascii_digit)
    })
}

/// Hashes the position of a message: its number among the model's messages, the transcript's opening, and the
/// calls or user words that led to it.
pub(super) fn place(message: u64, opening: u64, lead: u64) -> MessageNumber {
    mix(mix(message, opening), lead)
}

/// Hashes a string.
pub(super) fn of_text(text: &str) -> u64 {
    fnv(text.as_bytes())
}

/// Hashes a signature independently of its base64 spelling: agents that decode signatures re-encode them in
/// either alphabet, with or without padding.
fn of_signature(signature: &str) -> u64 {
    let plain = signature.trim_end_matches('=').bytes().map(|b| match b {
        b'-' => b'+',
        b'_' => b'/',
        b => b,
    });
    plain.fold(OFFSET, step)
}

/// Offset basis of 64-bit FNV-1a. Stored records contain these hashes, so they must not change between
/// builds.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// Hash of an object without members. Absent arguments have the same hash as `{}`.
const EMPTY: u64 = 1;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().copied().fold(OFFSET, step)
}

pub(super) fn mix(a: u64, b: u64) -> u64 {
    b.to_le_bytes().into_iter().fold(a ^ OFFSET, step)
}

/// Hashes a JSON value independently of key order, whitespace, escapes and number spelling.
fn digest(text: &[u8], value: Span, depth: u32) -> u64 {
    let raw = value.of(text);
    match raw.first() {
        Some(b'"') => fnv(json::unescape(value.inner().of(text)).as_bytes()),
        // A sum does not depend on the order of the members.
        Some(b'{') if depth < DEPTH => json::members(text, value).into_iter().fold(EMPTY, |sum, (k, v)| {
            let key = fnv(json::unescape(k.of(text)).as_bytes());
            sum.wrapping_add(mix(key, digest(text, v, depth + 1)))
        }),
        Some(b'[') if depth < DEPTH => json::elements(text, value)
            .into_iter()
            .fold(2, |all, v| mix(all, digest(text, v, depth + 1))),
        // Numbers are compared by value, because agents may rewrite `1` as `1.0`.
        _ => match std::str::from_utf8(raw).ok().and_then(|n| n.parse::<f64>().ok()) {
            Some(number) => number.to_bits(),
            None => fnv(raw),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::fingerprints::FingerprintIndex;
    use super::*;

    fn best<T: Copy>(wanted: &Fingerprint, found: impl IntoIterator<Item = (Fingerprint, T)>) -> Option<T> {
        FingerprintIndex::new(found.into_iter().collect())
            .find(wanted)
            .copied()
    }

    fn is_surely(wanted: &Fingerprint, found: &Fingerprint) -> bool {
        FingerprintIndex::new(vec![(found.clone(), ())]).proves(wanted)
    }

    fn fingerprint_at(call: &str, place: MessageNumber) -> Fingerprint {
        let text = call.as_bytes();
        let whole = Span::new(0, text.len());
        let call = TurnPart {
            name: json::get(text, whole, "name"),
            value: json::get(text, whole, "args"),
            id: json::get(text, whole, "id").map(Span::inner),
            signature: json::get(text, whole, "signature").map(Span::inner),
            ..TurnPart::default()
        };
        Fingerprints::default().next(text, &call, place)
    }

    fn fingerprint(call: &str) -> Fingerprint {
        fingerprint_at(call, 3)
    }

    const WHOLE: &str = r#"{"name":"f","args":{"a":1},"id":"x.y~z;","signature":"c2ln"}"#;

    #[test]
    fn a_fingerprint_is_read_back_as_it_was() {
        for call in [WHOLE, r#"{"name":"f"}"#] {
            let made = fingerprint(call);
            assert_eq!(Fingerprint::read(&made.text()), made);
            assert_eq!(sibling_key(&made.text()), made.key());
            let bare = Fingerprint::read(&made.key());
            assert_eq!(
                (bare.call, bare.place, bare.id.as_str()),
                (made.call, made.place, "")
            );
        }
        assert_eq!(Fingerprint::read("call_1").id, "call_1");
        assert_eq!(sibling_key("call;1"), "call;1");
    }

    #[test]
    fn spelling_does_not_matter() {
        let one =
            fingerprint(r#"{"name":"f","args":{"a":[1.0,{"b":"\u0041"}],"c":null},"signature":"ab+/=="}"#);
        let two = fingerprint(r#"{"name":"f","args":{"c":null, "a":[1,{"b":"A"}]},"signature":"ab-_"}"#);
        assert_eq!(one, two);
        assert_eq!(
            fingerprint(r#"{"name":"f"}"#),
            fingerprint(r#"{"name":"f","args":{}}"#)
        );
        assert_ne!(
            fingerprint(r#"{"name":"f","args":[1,2]}"#),
            fingerprint(r#"{"name":"f","args":[2,1]}"#)
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
        let whole = fingerprint(r#"{"name":"f","args":{"a":1},"id":"x","signature":"s"}"#);
        let found = [
            r#"{"name":"f","args":{"a":1},"id":"other","signature":"s"}"#,
            r#"{"name":"f","args":{"a":1}}"#,
            r#"{"name":"g","id":"x"}"#,
        ];
        let best_of = |calls: &[&str], place| {
            let all = calls.iter().enumerate();
            best(&whole, all.map(|(i, call)| (fingerprint_at(call, place), i)))
        };
        assert_eq!(best_of(&found, 3), Some(2), "the id");
        assert_eq!(best_of(&found, 4), Some(2), "wherever it stands");
        assert_eq!(best_of(&found[..2], 4), Some(0), "the signature");
        assert_eq!(best_of(&found[1..2], 3), Some(0), "name, arguments and place");
        assert_eq!(best_of(&found[1..2], 4), None, "at another place");
        for other in [
            r#"{"name":"f","args":{"a":1},"id":"other"}"#,
            r#"{"name":"f","args":{"a":1},"signature":"other"}"#,
            r#"{"name":"f","args":{"a":2}}"#,
        ] {
            assert_eq!(best_of(&[other], 3), None, "{other}");
        }
        // A call stored without a signature never matches a signed one, and a placeholder does not count as a
        // signature.
        let unsigned = fingerprint(r#"{"name":"f","args":{"a":1}}"#);
        let matches = |call: &str| best(&unsigned, [(fingerprint(call), ())]).is_some();
        assert!(!matches(r#"{"name":"f","args":{"a":1},"signature":"s"}"#));
        for placeholder in PLACEHOLDER_SIGNATURES {
            let call = format!(r#"{{"name":"f","args":{{"a":1}},"signature":"{placeholder}"}}"#);
            assert!(matches(&call), "{placeholder}");
            assert_eq!(unique_part(&fingerprint(&call).text()), None);
        }
        let surely = |call: &str| is_surely(&whole, &fingerprint(call));
        assert!(surely(found[0]) && !surely(found[1]));
        assert!(!surely(found[2]), "an id that may be counted");
        let drawn = |name: &str| fingerprint(&format!(r#"{{"name":"{name}","id":"call_a1b2c3d4"}}"#));
        assert!(is_surely(&drawn("f"), &drawn("g")));
    }
}
