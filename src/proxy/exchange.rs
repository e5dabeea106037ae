//! One request whose transcript the proxy reads.

use std::sync::Arc;

use http::Response;

use super::body::Collected;
use super::headers::Sending;
use super::out::OutBody;
use super::{App, RequestContext, relay};

/// Sends the collected body on and relays the answer.
pub async fn run(_app: Arc<App>, ctx: RequestContext, body: Collected) -> Response<OutBody> {
    let rope = body.untouched();
    ctx.meter.leg_sent(rope.left());
    let headers = ctx.onward(Sending::default());
    let sent = ctx.place.send(&ctx.method, &ctx.target, headers, rope).await;
    relay::answer(&ctx, sent)
}
