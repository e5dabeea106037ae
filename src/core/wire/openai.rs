//! What both of OpenAI's wires have in common.

use serde_json::json;

use super::error::OwnError;

/// An error of our own in OpenAI's shape.
pub(super) fn error_body(error: OwnError<'_>) -> String {
    json!({
        "error": {"message": error.message, "type": kind(error.status), "param": null, "code": error.code},
    })
    .to_string()
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}
