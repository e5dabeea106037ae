//! Anthropic's errors.

use serde_json::json;

use super::Anthropic;
use crate::wire::error::{Errors, OwnError};

impl Errors for Anthropic {
    fn error_body(&self, error: OwnError<'_>) -> String {
        json!({
            "type": "error", "error": {"type": kind(error.status), "message": error.message},
        })
        .to_string()
    }

    fn error_event(&self, body: &str) -> String {
        format!("event: error\ndata: {body}\n\n")
    }
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
