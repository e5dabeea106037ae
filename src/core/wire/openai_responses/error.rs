//! The Responses API's errors: OpenAI's shape.

use super::OpenaiResponses;
use crate::text::json;
use crate::wire::error::{Errors, OwnError};
use crate::wire::openai;

impl Errors for OpenaiResponses {
    fn error_body(&self, error: OwnError<'_>) -> String {
        openai::error_body(error)
    }

    /// Its code and its message are at the event's top.
    fn error_event(&self, body: &str) -> String {
        let text = body.as_bytes();
        let error = json::whole(text)
            .ok()
            .and_then(|whole| json::get(text, whole, "error"));
        let member = |key: &str| error.and_then(|error| json::get_string(text, error, key));
        let code = member("code").or(member("type")).unwrap_or("server_error".into());
        let message = member("message").unwrap_or(body.into());
        let (code, message) = (json::quote(&code), json::quote(&message));
        format!(
            "event: error\ndata: {{\"type\":\"error\",\"sequence_number\":0,\"code\":{code},\"message\":{message},\"param\":null}}\n\n"
        )
    }
}
