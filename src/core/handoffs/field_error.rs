//! An error in a member of a document or of a handoff file.

use serde::Serialize;

use crate::text::cut::cut;

/// An error in a member. The names are API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The member, as in `files.created`, or the Markdown's heading; empty for the whole document.
    pub field: String,
    /// The expected value, in words.
    pub message: String,
    /// The value that was found.
    pub value: String,
}

impl FieldError {
    /// Creates an error that quotes at most this many bytes of the found value.
    pub(super) fn quoting(bytes: usize, field: &str, message: impl Into<String>, value: &str) -> Self {
        Self {
            field: field.to_owned(),
            message: message.into(),
            value: cut(value, bytes).to_owned(),
        }
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        match self.value.as_str() {
            "" => write!(f, "{}", self.message),
            value => write!(f, "{} (found {value:?})", self.message),
        }
    }
}
