//! The value of the fifth stage.

use http::Response;

use crate::serve::exchange::Exchange;
use crate::serve::proxy::download::UpstreamBody;
use crate::serve::proxy::response_body::ResponseBody;
use baton_core::rewrite::RewriteOutcome;

/// A request whose first leg upstream has answered.
pub(in crate::serve::exchange) struct Sent {
    pub(in crate::serve::exchange) exchange: Exchange,
    /// The request as it was sent.
    pub(in crate::serve::exchange) request: RewriteOutcome,
    pub(in crate::serve::exchange) response: Response<UpstreamBody>,
}

/// The outcome of the first leg.
#[expect(clippy::large_enum_variant, reason = "it is destructured at once")]
pub(in crate::serve::exchange) enum FirstLeg {
    Sent(Sent),
    /// The agent's answer is known already.
    Refused(Response<ResponseBody>),
}
