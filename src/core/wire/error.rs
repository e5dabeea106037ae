//! Errors: a provider's shape of errors, our own errors in that shape, and the header that carries the key.

use crate::text::{Span, json};

/// An error of our own, to be reported in a wire's shape.
#[derive(Debug, Clone, Copy)]
pub struct ProxyError<'a> {
    /// HTTP status.
    pub status: u16,
    /// Its name, the value of `x-baton-error`.
    pub code: &'a str,
    /// What happened and what to do about it.
    pub message: &'a str,
}

impl ProxyError<'_> {
    /// Replaces an error answer of upstream's that is no JSON.
    pub fn unreadable(status: u16) -> Self {
        Self {
            status,
            code: "upstream_unreadable",
            message: "upstream answered with an error; try again",
        }
    }
}

/// A header for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHeader {
    /// Its name, in lower case.
    pub name: &'static str,
    /// What is in front of the key.
    pub prefix: &'static str,
}

impl KeyHeader {
    /// A header that holds the key alone.
    pub(super) const fn plain(name: &'static str) -> Self {
        Self { name, prefix: "" }
    }
}

/// A bearer token (RFC 6750).
pub(super) const BEARER: KeyHeader = KeyHeader {
    name: "authorization",
    prefix: "Bearer ",
};

/// Headers that may carry a credential, of whichever wire.
pub const CREDENTIAL_HEADERS: &[&str] = &["x-api-key", "authorization", "x-goog-api-key", "api-key"];

/// Whether a reply in one piece is or contains an error: all APIs have it in a member of the same name, which may be
/// there and null.
pub fn is_error(body: &[u8]) -> bool {
    let whole = json::whole(body).ok();
    whole.and_then(|whole| error_in(body, whole)).is_some()
}

/// Codes and types of errors that no retry helps: the account has no quota left.
const QUOTA: [&str; 3] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_error",
];

/// The error of an answer or of an event, as the body of an error, if the account has no quota left.
pub fn quota_error(data: &[u8]) -> Option<String> {
    let whole = json::whole(data).ok()?;
    let reported = error_in(data, whole);
    let failed = || error_in(data, json::get(data, whole, "response")?);
    // The event `error` of the Responses API is the error itself.
    let error = reported.or_else(failed).unwrap_or(whole);
    let is_quota = |key| json::get_string(data, error, key).is_some_and(|name| QUOTA.contains(&&*name));
    let body = match reported {
        Some(_) => whole.text(data),
        None => format!(r#"{{"error":{}}}"#, error.text(data)),
    };
    ["code", "type"].into_iter().any(is_quota).then_some(body)
}

/// The error in the object `whole`.
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
    fn an_error_ends_a_stream_in_the_streams_own_framing() {
        let error = r#"{"error":"x"}"#;
        let wire = wire(WireId::Gemini);
        let text = |framing, begun| wire.stream_error(framing, error, begun);
        assert_eq!(text(Framing::Lines, false), "{\"error\":\"x\"}\n");
        assert_eq!(text(Framing::Lines, true), "{\"error\":\"x\"}\n");
        // An array that has begun is closed after its next element; one that has not is whole.
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
