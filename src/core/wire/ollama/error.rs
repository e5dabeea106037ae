//! Ollama's errors: a text.

use serde_json::json;

use super::Ollama;
use crate::wire::error::{Errors, OwnError};

impl Errors for Ollama {
    fn error_body(&self, error: OwnError<'_>) -> String {
        json!({ "error": error.message }).to_string()
    }
}
