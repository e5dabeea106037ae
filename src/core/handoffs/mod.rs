//! Drafts and documents of handoffs, and recall of the history that they cut.
//!
//! - `carry` appends missing user rules and observed facts to a carry-over prompt.
//! - `draft` writes the prompt of a handoff from a transcript.
//! - `document` joins a handoff with the facts of its work.
//! - `yaml` writes the same as a file that other tools read.
//! - `recall` searches the part that a handoff cut off.

pub mod carry;
pub mod document;
pub mod draft;
mod field_error;
#[cfg(test)]
mod linear_tests;
pub mod recall;
#[cfg(test)]
mod testing;
pub mod yaml;

pub use field_error::FieldError;
