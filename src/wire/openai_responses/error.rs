//! The Responses API's errors: OpenAI's shape.

use super::OpenaiResponses;
use crate::wire::error::{Errors, OwnError};
use crate::wire::openai;

impl Errors for OpenaiResponses {
    fn error_body(&self, error: OwnError<'_>) -> String {
        openai::error_body(error)
    }
}
