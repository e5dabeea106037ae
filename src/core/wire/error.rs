//! Errors: a provider's shape of errors, our own errors in that shape, and the header that carries the key.

use crate::text::{Span, json};

/// An error of our own, to be reported in a wire's shape.
#[derive(Debug, Clone, Copy)]
pub struct OwnError<'a> {
    /// HTTP status.
    pub status: u16,
    /// Its name, the value of `x-baton-error`.
    pub code: &'a str,
    /// What happened and what to do about it.
    pub message: &'a str,
}

/// The form of errors.
pub trait Errors {
    /// The body of an error of our own, as JSON in the provider's error shape.
    fn error_body(&self, error: OwnError<'_>) -> String;

    /// The event of a stream (server-sent) that states an error of this body, on one line.
    fn error_event(&self, body: &str) -> String {
        format!("data: {body}\n\n")
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

/// The error in the object `whole`.
pub(crate) fn error_in(data: &[u8], whole: Span) -> Option<Span> {
    let object = data.get(whole.start) == Some(&b'{');
    let error = json::get(data, whole, "error").filter(|_| object)?;
    (!matches!(error.of(data), b"null" | b"false" | b"\"\"" | b"{}")).then_some(error)
}
