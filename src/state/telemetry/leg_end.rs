//! What upstream reported at the end of a leg, and where upstream is.

use baton_core::wire::StopReason;

/// How a leg ended, as upstream reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegEnd {
    /// Upstream's id of the response; empty where it gave none.
    pub id: String,
    /// Why the model stopped.
    pub stop: StopReason,
    /// Output tokens that were spent on reasoning.
    pub reasoning: u64,
}

/// Host and port of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// Host name or address.
    pub host: String,
    /// Port, also where it is the scheme's own.
    pub port: u16,
}
