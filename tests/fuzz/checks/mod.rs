//! What each target checks. An input's first bytes choose the wire and the pieces; the rest is the text.
//!
//! `resp` reads what only the Redis store sees, and is a child of it.

pub mod config;
pub mod document;
pub mod draft;
pub mod framer;
pub mod marks;
pub mod plan;
pub mod redaction;
pub mod reply;
pub mod request;
pub mod response;
pub mod returned;
pub mod speakers;
pub mod stream;
pub mod yaml;

#[cfg(test)]
mod replay;
#[cfg(test)]
mod replayed;

use baton_core::wire::{WIRES, Wire};
use bytes::Bytes;

/// The wire that a byte chooses.
pub fn wire_of(byte: u8) -> &'static Wire {
    WIRES[usize::from(byte) % WIRES.len()]
}

/// `text` in pieces, whose lengths repeat; two pieces of no bytes would not end.
pub fn pieces(text: &[u8], lengths: [u8; 2]) -> Vec<Bytes> {
    let mut rest = text;
    let mut all = Vec::new();
    for length in lengths.iter().cycle() {
        let length = usize::from(*length).clamp(1, rest.len().max(1));
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(length.min(rest.len()));
        all.push(Bytes::copy_from_slice(piece));
        rest = after;
    }
    all
}

/// Whether the text is JSON by a parser that is not ours. No tree is built: that would take longer than what is tried.
pub fn is_json(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok())
}
