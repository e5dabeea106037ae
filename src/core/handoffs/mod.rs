//! Drafts and documents of handoffs, and recall of what they cut.
//!
//! `carry` puts behind a prompt what it lacks of the user's rules and of what was seen. `draft` makes the prompt of a handoff from a transcript. `document` is a handoff with the facts of its work, `yaml`
//! the same as a file that other tools read, and `recall` searches the part that a handoff cut off.

pub mod carry;
pub mod document;
pub mod draft;
mod field_error;
pub mod recall;
pub mod yaml;

pub use field_error::FieldError;
