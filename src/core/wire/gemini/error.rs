//! Gemini's errors and its key header.

use memchr::memmem;
use serde_json::json;

use super::Gemini;
use crate::wire::error::{Errors, KeyHeader, OwnError};

impl Errors for Gemini {
    fn error_body(&self, error: OwnError<'_>) -> String {
        let status = error.status;
        json!({
            "error": {"code": status, "message": error.message, "status": name(status)},
        })
        .to_string()
    }

    fn key_variables(&self) -> &'static [&'static str] {
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"]
    }

    fn key_header(&self) -> KeyHeader {
        KeyHeader::plain("x-goog-api-key")
    }

    /// The prefix is not checked. What was signed for another model or by another service is refused.
    fn may_refuse_thinking(&self) -> bool {
        true
    }

    /// A signature that is missing is another matter.
    fn refuses_thinking(&self, body: &[u8]) -> bool {
        REFUSALS
            .iter()
            .any(|words| memmem::find(body, words.as_bytes()).is_some())
    }
}

/// How the Gemini API and Vertex refuse a signature.
const REFUSALS: [&str; 3] = [
    "Corrupted thought signature",
    "Thought signature is not valid",
    "Invalid thought signature",
];

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
