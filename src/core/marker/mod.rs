//! The texts that baton puts into an agent's transcript: sentinels, asides and notes, the seals, and the escaping that
//! keeps other text from being taken for them.
//!
//! Writes, finds and reads them. `rewrite` decides whether a mark is valid: whose text contains it, whether its id is
//! known. Knows no wire, store or clock.

pub mod aside;
pub mod escape;
mod find;
pub mod gap;
pub mod note;
pub(crate) mod paste_tag;
pub mod pasted;
pub mod seal;
pub mod sentinel;

pub use find::{MarkerKind, RawMarker, marks, stems};
pub(crate) use find::{STEM, closing_end, marks_in};
