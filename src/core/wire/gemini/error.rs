//! Gemini's errors.

use serde_json::json;

use super::Gemini;
use crate::wire::error::{Errors, OwnError};

impl Errors for Gemini {
    fn error_body(&self, error: OwnError<'_>) -> String {
        let status = error.status;
        json!({
            "error": {"code": status, "message": error.message, "status": name(status)},
        })
        .to_string()
    }
}

/// The status as Google's APIs name it.
fn name(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    }
}
