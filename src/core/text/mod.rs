//! JSON as bytes: the extent of values, and edits as slices.
//!
//! `words`, `stem` and `vocabulary` handle the words of plain text, `prose` its sentences, and `phrases`
//! finds lists of words in it. `visible` escapes control characters in printed output, and `cut` shortens
//! strings at character boundaries. `closest` finds the known word that a mistyped one resembles.
//!
//! The module knows JSON's structure, but nothing about requests or providers, and imports no other module.
//! No tree is built, and no byte outside an edit is copied.

pub mod closest;
pub mod cost;
pub mod cut;
pub mod date;
mod han;
pub mod json;
pub mod newest;
pub mod phrases;
pub mod prose;
pub(crate) mod scan;
mod span;
pub mod splice;
pub mod stem;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod tokens;
pub mod units;
pub mod visible;
pub mod vocabulary;
pub mod words;

pub use span::{Span, lossy};
