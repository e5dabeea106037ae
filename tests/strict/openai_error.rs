//! The error object of both OpenAI APIs.

use serde_json::{Value, json};

/// The body of an error response.
pub(crate) fn body(status: u16, message: &str) -> Value {
    let (kind, code) = kind_and_code(status);
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn kind_and_code(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("authentication_error", Some("invalid_api_key")),
        403 => ("permission_error", None),
        429 => ("rate_limit_error", Some("rate_limit_exceeded")),
        400..500 => ("invalid_request_error", None),
        _ => ("server_error", None),
    }
}
