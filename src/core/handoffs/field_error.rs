//! What is wrong with a member of a document or of a handoff file.

use serde::Serialize;

use crate::text::cut::cut;

/// An error in a member. The names are API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The member, as in `files.created`, or the Markdown's heading; empty for the whole.
    pub field: String,
    /// What is expected.
    pub message: String,
    /// What is there.
    pub value: String,
}

impl FieldError {
    /// An error that quotes this many bytes of what is there.
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
