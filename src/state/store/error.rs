//! The error of a store call.

use std::fmt;

/// A failed store call. The agent never caused it, and a retry may succeed.
#[derive(Debug, Clone)]
pub struct StoreError {
    /// The operation and its error, for the log.
    pub message: String,
}

/// The result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

impl StoreError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

/// Returns the error for writing to another principal's record. Ids are random, so this is a bug, not a race.
pub(super) fn foreign_record(what: &str) -> StoreError {
    StoreError::new(format!("{what}: the id belongs to another principal"))
}
