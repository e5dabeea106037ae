//! What the agent receives of chat's token counters for a response of several legs.

use crate::wire::openai::OpenaiUsage;

/// A response that ends with its sentinel: the output, and the input of the next request.
pub(super) fn stopped(legs: &[OpenaiUsage], next_input: u64) -> String {
    let (output, _) = OpenaiUsage::spent(legs);
    let total = next_input + output;
    format!(r#"{{"prompt_tokens":{next_input},"completion_tokens":{output},"total_tokens":{total}}}"#)
}
