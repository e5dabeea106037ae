//! JSON text as bytes: where values begin and end, and edits as slices.
//!
//! `words`, `stem` and `vocabulary` are of plain texts, `prose` has the sentences of one, and `phrases` finds lists of words in
//! it. `visible` makes control characters visible in whatever is printed, and `cut` cuts texts between characters.
//!
//! Knows JSON's structure and nothing of requests or providers; imports nothing from the other modules. No tree is
//! built, and no byte outside an edit is copied.

pub mod cost;
pub mod cut;
pub mod date;
pub mod json;
pub mod phrases;
pub mod prose;
pub(crate) mod scan;
mod span;
pub mod splice;
pub mod stem;
pub mod table;
pub mod units;
pub mod visible;
pub mod vocabulary;
pub mod words;

pub use span::{Span, lossy};
