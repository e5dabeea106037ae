//! What the agent receives of the Responses API's token counters for a response of several legs.

use crate::wire::openai::OpenaiUsage;

/// A response that ends with its sentinel: the output, and the input of the next request.
pub(super) fn stopped(legs: &[OpenaiUsage], next_input: u64) -> String {
    let (output, reasoning) = OpenaiUsage::spent(legs);
    let total = next_input + output;
    format!(
        r#"{{"input_tokens":{next_input},"input_tokens_details":{{"cached_tokens":0}},"output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":{reasoning}}},"total_tokens":{total}}}"#
    )
}
