//! The value of the sixth stage.

use std::sync::Arc;

use http::response::Parts;

use crate::serve::exchange::Exchange;
use crate::serve::proxy::download::UpstreamBody;
use baton_core::course::VerdictInput;
use baton_core::record::Handoff;

/// An answer of upstream's that the agent is shown.
pub(super) struct Answered {
    pub(super) exchange: Exchange,
    /// Head of upstream's response.
    pub(super) parts: Parts,
    pub(super) body: UpstreamBody,
    /// What the verdict on the answer's first leg takes into account.
    pub(super) verdict: VerdictInput,
    /// The handoff whose sentinel begins the answer.
    pub(super) sentinel_of: Option<Arc<Handoff>>,
}
