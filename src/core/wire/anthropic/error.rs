//! Anthropic's errors and its key header.

use memchr::memmem;
use serde_json::json;

use super::Anthropic;
use crate::wire::error::{Errors, KeyHeader, OwnError};

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

    fn key_variables(&self) -> &'static [&'static str] {
        &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::plain("x-api-key")
    }

    fn binds_prefixes(&self) -> bool {
        true
    }

    /// Recognised by the error's wording for signed thinking.
    fn is_prefix_mismatch(&self, body: &[u8]) -> bool {
        let has = |needle: &str| memmem::find(body, needle.as_bytes()).is_some();
        has("thinking") && has("signature") && has("bound to a different conversation")
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
