//! Markers that baton puts into an agent's transcript: sentinels, asides and notes, with seals and the
//! escaping of look-alikes.
//!
//! The module writes, finds and parses them. `rewrite` decides whether a marker is valid: who wrote the text
//! around it, and whether its id exists. There is no dependency on a wire, the store or the clock.

pub mod aside;
pub mod escape;
mod find;
pub mod gap;
pub mod note;
pub mod pasted;
pub mod seal;
pub mod sentinel;
pub mod shown;
pub mod tags;

pub use find::{MarkerKind, RawMarker, marks, stems};
pub(crate) use find::{STEM, WORD, closing_end, marks_in, stem_at};
