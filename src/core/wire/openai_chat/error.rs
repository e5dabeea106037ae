//! Chat Completions' errors: OpenAI's shape.

use super::OpenaiChat;
use crate::wire::error::{Errors, OwnError};
use crate::wire::openai;

impl Errors for OpenaiChat {
    fn error_body(&self, error: OwnError<'_>) -> String {
        openai::error_body(error)
    }
}
