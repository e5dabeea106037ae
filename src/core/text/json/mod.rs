//! JSON text as spans: finds where values begin and end, and never builds a tree.
//!
//! Knows RFC 8259's structure well enough to walk it. It does not validate what it skips (numbers, literals, UTF-8):
//! upstream refuses invalid bodies. Every function takes offsets into the whole text, so that spans can be compared,
//! cut and spliced.

mod string;
mod walk;

pub use string::{char_at, escape_at, escape_into, quote, spelled, unescape};
pub use walk::{
    InvalidJson, WalkResult, array, at_path, blank, elements, get, get_inner, get_owned, get_string, get_u64,
    is_true, members, number, object, pick, pick_begun, pick_each, root, string, string_end, string_or_empty,
    value_end, whole,
};
