//! ChatGPT's own server of the Responses API, which Codex calls when it is signed in with a ChatGPT plan.
//!
//! The API of this server is not documented. What is enforced here is what its users report in
//! `openai/codex#26173` (`store`), `askalf/dario#1009` (parameters), `diegosouzapw/OmniRoute#746`
//! (`instructions`), `openclaw/openclaw#91662` (no content type) and `sipeed/picoclaw#2437` (no output in the
//! last event).

use serde_json::{Value, json};

use super::response::{ResponseStatus, object, usage_object};
use super::{output, stream};
use crate::complaint::{Findings, Rule};
use crate::dialect::{Received, RenderedBody};
use crate::fields::text;
use crate::reply::Reply;
use crate::usage::{self, Usage};

/// How its paths begin.
pub(crate) const FOLDER: &str = "/backend-api/codex/";

/// Parameters of the public API that it refuses.
const UNSUPPORTED: [&str; 11] = [
    "temperature",
    "top_p",
    "max_output_tokens",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "metadata",
    "top_logprobs",
    "truncation",
    "previous_response_id",
    "background",
];

/// Sent by Codex with a body that has its instructions and tools among the input items.
const LITE: &str = "x-openai-internal-codex-responses-lite";

/// Checks what this server asks beyond the public API.
pub(super) fn check(request: &Received, findings: &mut Findings<'_>) {
    let token = request.header("authorization").unwrap_or("");
    let account = request.header("chatgpt-account-id").unwrap_or("");
    if !token.starts_with("Bearer ") || account.is_empty() {
        findings.add(Rule::SignIn, "Unauthorized");
    }
    let body = &request.body;
    for (key, wanted) in [("store", false), ("stream", true)] {
        if body.get(key).and_then(Value::as_bool) != Some(wanted) {
            let mut name = key.to_owned();
            name[..1].make_ascii_uppercase();
            findings.add(Rule::Parameter, format!("{name} must be set to {wanted}"));
        }
    }
    if text(body, "instructions").is_empty() && request.header(LITE) != Some("true") {
        findings.add(Rule::Required, "Instructions are required");
    }
    for key in UNSUPPORTED {
        if body.get(key).is_some() {
            findings.add(Rule::Parameter, format!("Unsupported parameter: {key}"));
        }
    }
}

/// A stream without a content type, whose last event has no output.
pub(super) fn render(request: &Received, reply: &Reply, usage: &Usage) -> RenderedBody {
    let ending = ResponseStatus::from_reply(reply);
    let usage = usage_object(usage, usage::thoughts(reply));
    let response = object(request, &ending, &[], &usage);
    let output = output::items(request, reply);
    let events = stream::events(request, reply, &output, &ending, &response);
    RenderedBody {
        content_type: None,
        ..RenderedBody::stream(events)
    }
}

pub(super) fn error(message: &str) -> Value {
    json!({"detail": message})
}

pub(super) fn models() -> Value {
    json!({"models": []})
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::api::Wire;

    const HEADERS: [(&str, &str); 2] = [("authorization", "Bearer x"), ("chatgpt-account-id", "x")];

    fn violations(headers: &[(&'static str, &'static str)], changes: Value) -> Vec<(Rule, String)> {
        let mut body = json!({
            "model": "gpt-strict-1", "store": false, "stream": true, "instructions": "You are an agent.",
            "input": [{"role": "user", "content": "Hello."}],
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        let mut request = Received::for_test(Wire::OpenAiResponses, "/backend-api/codex/responses", body);
        for (name, value) in headers {
            let name = HeaderName::from_static(name);
            request.headers.insert(name, HeaderValue::from_static(value));
        }
        request.violations()
    }

    #[test]
    fn refusals_use_the_servers_words() {
        assert_eq!(violations(&HEADERS, json!({})), []);
        for (changes, rule, message) in [
            (
                json!({"store": true}),
                Rule::Parameter,
                "Store must be set to false",
            ),
            (
                json!({"store": null}),
                Rule::Parameter,
                "Store must be set to false",
            ),
            (
                json!({"stream": false}),
                Rule::Parameter,
                "Stream must be set to true",
            ),
            (
                json!({"max_output_tokens": 9}),
                Rule::Parameter,
                "Unsupported parameter: max_output_tokens",
            ),
            (
                json!({"instructions": null}),
                Rule::Required,
                "Instructions are required",
            ),
        ] {
            let found = violations(&HEADERS, changes);
            assert_eq!(found, [(rule, message.to_owned())]);
        }
        for missing in 0..2 {
            let found = violations(&HEADERS[missing..=missing], json!({}));
            assert_eq!(found, [(Rule::SignIn, "Unauthorized".to_owned())]);
        }
    }

    #[test]
    fn codex_has_its_instructions_among_the_items() {
        let lite = [HEADERS[0], HEADERS[1], (LITE, "true")];
        assert_eq!(violations(&lite, json!({"instructions": null})), []);
    }
}
