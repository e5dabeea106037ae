//! Errors in each provider's shape, and the header that carries the key.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::text::{Span, json};

/// An error raised by baton, to be reported in a wire's error shape.
#[derive(Debug, Clone, Copy)]
pub struct ProxyError<'a> {
    /// HTTP status.
    pub status: u16,
    /// Error code, the value of `x-baton-error`.
    pub code: &'a str,
    /// Cause and remedy, for the user.
    pub message: &'a str,
}

impl ProxyError<'_> {
    /// Replaces an upstream error body that is not JSON.
    pub fn unreadable(status: u16) -> Self {
        Self {
            status,
            code: "upstream_unreadable",
            message: "upstream answered with an error; try again",
        }
    }
}

/// A header that carries an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHeader {
    /// Header name in lower case.
    pub name: &'static str,
    /// Text before the key in the header's value.
    pub prefix: &'static str,
}

impl KeyHeader {
    /// A header whose value is only the key.
    pub(super) const fn plain(name: &'static str) -> Self {
        Self { name, prefix: "" }
    }
}

/// Bearer token (RFC 6750).
pub(super) const BEARER: KeyHeader = KeyHeader {
    name: "authorization",
    prefix: "Bearer ",
};

/// Headers that may carry a credential, for all wires.
pub const CREDENTIAL_HEADERS: &[&str] = &["x-api-key", "authorization", "x-goog-api-key", "api-key"];

/// Whether a complete reply is or contains an error.
///
/// All APIs use the member `error`, which may be present but null.
pub fn is_error(body: &[u8]) -> bool {
    static MEMBER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"error\""));
    // Most replies have no such member, and a search takes less than a walk.
    let found = MEMBER.find(body);
    let whole = found.and_then(|_| json::whole(body).ok());
    whole.and_then(|whole| error_in(body, whole)).is_some()
}

/// Error codes and types that mean the account has no quota left, so that a retry cannot help.
const QUOTA: [&str; 3] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_error",
];

/// Returns the error of a response or event as an error body if it means that the account has no quota left.
pub fn quota_error(data: &[u8]) -> Option<String> {
    let whole = json::whole(data).ok()?;
    let reported = error_in(data, whole);
    // The event `response.failed` carries the error inside its response object.
    let failed = || error_in(data, json::get(data, whole, "response")?);
    // The Responses API event `error` has no `error` member: the event itself is the error.
    let error = reported.or_else(failed).unwrap_or(whole);
    let is_quota = |key| json::get_string(data, error, key).is_some_and(|name| QUOTA.contains(&&*name));
    let body = match reported {
        Some(_) => whole.text(data),
        None => format!(r#"{{"error":{}}}"#, error.text(data)),
    };
    ["code", "type"].into_iter().any(is_quota).then_some(body)
}

/// Returns the message of an error response or of an error event, if it has one.
pub fn error_message(data: &[u8]) -> Option<String> {
    let whole = json::whole(data).ok()?;
    // Gemini sends a list if a stream was requested.
    let whole = json::elements(data, whole).first().copied().unwrap_or(whole);
    let failed = || error_in(data, json::get(data, whole, "response")?);
    // The event `error` of the Responses API is the error itself.
    let error = error_in(data, whole).or_else(failed).unwrap_or(whole);
    json::string(data, error)
        .map(Cow::into_owned)
        .or_else(|| json::get_string(data, error, "message").map(|message| message.into_owned()))
}

/// Returns the error in the object `whole`, if there is one.
pub(crate) fn error_in(data: &[u8], whole: Span) -> Option<Span> {
    let object = data.get(whole.start) == Some(&b'{');
    let error = json::get(data, whole, "error").filter(|_| object)?;
    (!matches!(error.of(data), b"null" | b"false" | b"\"\"" | b"{}")).then_some(error)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::record::WireId;
    use crate::wire::{Framing, wire};

    #[test]
    fn a_used_up_quota_is_known_in_every_shape() {
        let openai = r#"{"error":{"code":"insufficient_quota","message":"m"}}"#;
        let event = r#"{"type":"error","code":"insufficient_quota","message":"m","param":null}"#;
        let failed = r#"{"type":"response.failed","response":{"id":"r","error":{"code":"insufficient_quota","message":"m"}}}"#;
        let anthropic = r#"{"type":"error","error":{"type":"billing_error","message":"m"}}"#;
        let found = |data: &str| quota_error(data.as_bytes());
        assert_eq!(found(openai).as_deref(), Some(openai));
        assert_eq!(found(failed).as_deref(), Some(openai));
        assert_eq!(found(anthropic).as_deref(), Some(anthropic));
        assert_eq!(found(event), Some(format!(r#"{{"error":{event}}}"#)));
        for other in [
            r#"{"error":{"code":"rate_limit_exceeded"}}"#,
            r#"{"error":"insufficient_quota"}"#,
            "[]",
            "x",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn the_message_of_an_error_is_found_in_every_shape() {
        for body in [
            r#"{"error":{"message":"m","code":"c"}}"#,
            r#"[{"error":{"message":"m","code":429}}]"#,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            r#"{"type":"response.failed","response":{"id":"r","error":{"code":"c","message":"m"}}}"#,
            r#"{"type":"error","code":"c","message":"m"}"#,
            r#"{"error":"m"}"#,
        ] {
            assert_eq!(error_message(body.as_bytes()).as_deref(), Some("m"), "{body}");
        }
        for other in ["<html>", "", "{}", "[]", r#"{"error":{"code":1}}"#] {
            assert_eq!(error_message(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_error_ends_a_stream_in_the_streams_own_framing() {
        let error = r#"{"error":"x"}"#;
        let wire = wire(WireId::Gemini);
        let text = |framing, begun| wire.stream_error(framing, error, begun);
        assert_eq!(text(Framing::Lines, false), "{\"error\":\"x\"}\n");
        assert_eq!(text(Framing::Lines, true), "{\"error\":\"x\"}\n");
        // After an element, the error closes the array. Before any element, the error is the whole array.
        let whole: Value = serde_json::from_str(&text(Framing::JsonArray, false)).unwrap();
        let rest = text(Framing::JsonArray, true);
        let joined: Value = serde_json::from_str(&format!("[{{}}{rest}")).unwrap();
        assert_eq!(
            (whole.as_array().map(Vec::len), joined.as_array().map(Vec::len)),
            (Some(1), Some(2))
        );
        assert!(text(Framing::Sse, true).ends_with("\n\n"));
    }

    #[test]
    fn every_wire_has_an_error_for_an_answer_that_is_no_json() {
        for id in [
            WireId::Anthropic,
            WireId::OpenaiChat,
            WireId::OpenaiResponses,
            WireId::Gemini,
            WireId::Ollama,
        ] {
            let body = wire(id).error_body(ProxyError::unreadable(502));
            let body: Value = serde_json::from_str(&body).unwrap();
            assert!(
                body.to_string().contains("upstream answered with an error"),
                "{body}"
            );
        }
    }
}
