//! One request whose transcript the proxy reads.

use std::sync::Arc;

use http::Response;

use super::body::Collected;
use super::headers::Sending;
use super::out::OutBody;
use super::{App, RequestContext, relay};

/// Sends the collected body on and relays the answer.
pub async fn run(_app: Arc<App>, ctx: RequestContext, body: Collected) -> Response<OutBody> {
    relay::send(&ctx, Sending::default(), body.untouched()).await
}
