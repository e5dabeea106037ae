//! JSON as spans: finds the extent of values without building a tree.
//!
//! The walks rely on the structure of RFC 8259. They do not validate skipped values (numbers, literals,
//! UTF-8), because upstream rejects invalid bodies. All offsets refer to the whole text, so that spans can be
//! compared, cut and spliced.

mod string;
mod walk;

pub use string::{char_at, escape_at, escape_into, quote, spelled, unescape};
pub use walk::{
    InvalidJson, WalkResult, array, at_path, blank, elements, get, get_inner, get_owned, get_string, get_u64,
    is_true, members, number, object, pick, pick_begun, pick_each, rest_of_object, root, string, string_end,
    string_or_empty, value_end, whole,
};
