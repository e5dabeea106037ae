//! Stage after planning: sends a request's first leg upstream.
//!
//! Later legs (`later_leg`) and the requests for drafts use the same sender.

mod later_leg;
mod retry;
mod sender;

use http::StatusCode;

use super::value::Exchange;
use crate::proxy::response_body::AgentResponse;

pub(super) use self::later_leg::later_or_own;
pub(super) use self::sender::{LegKind, Sent, once, readable};

/// Sends the first leg, and retries it if upstream's refusal has a remedy.
///
/// # Errors
/// The agent's response, if it is already decided.
pub(super) async fn send(exchange: Exchange) -> Result<Sent, AgentResponse> {
    let (ctx, offered) = (&exchange.ctx, &exchange.offered);
    let make = || exchange.plan().first(offered.offer.tooled);
    let (request, answered) = sender::or_own(&exchange, make, LegKind::First).await;
    let response = answered.map_err(|fault| ctx.refuse(fault))?;
    ctx.recorder.first_byte();
    let may_retry = exchange.plan().may_be_retried() || retry::lacks_pairs(offered);
    let status = response.status();
    // Shadow mode sends nothing that the agent did not send.
    let is_shadow = exchange.app.is_shadow(ctx);
    let refused = status == StatusCode::BAD_REQUEST && may_retry && !is_shadow;
    let sent = Sent {
        exchange,
        request,
        response,
    };
    match status {
        _ if refused => Box::pin(retry::retry(sent)).await,
        StatusCode::TOO_MANY_REQUESTS if !is_shadow => Err(Box::pin(retry::relay_limited(sent)).await),
        _ => Ok(sent),
    }
}
