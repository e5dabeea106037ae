//! The history that a provider has cached.

/// A history as cached by the provider with its last request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CachedHistory {
    /// Start of the request, in milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    /// Model of the request.
    pub(super) model: String,
    /// Effort as stated by the request; empty without one.
    pub(super) effort: String,
    /// Input and output tokens, which the next request begins with.
    pub(super) tokens: u64,
    /// Tokens of the system prompt and the tools, included in `tokens`.
    pub(super) fixed: u64,
    /// Whether the provider's long-lived cache holds the history.
    pub(super) long: bool,
}
