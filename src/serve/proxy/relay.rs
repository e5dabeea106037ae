//! Relay: passes requests that baton does not read, and their responses, through byte for byte.

use http::response::Parts;
use http::{Response, StatusCode};

use super::RequestContext;
use super::exchange_recorder::Progress;
use super::headers::{self, Sending};
use super::min_rate::MinRateBody;
use super::response_body::ResponseBody;
use super::upload::RopeBody;
use super::upstream::UpstreamResult;
use crate::state::telemetry::ExchangeOutcome;

/// Relays a request while the agent still sends it, and the response while upstream still sends it.
pub(super) async fn run(ctx: RequestContext, body: MinRateBody) -> Response<ResponseBody> {
    if body.is_end_stream() {
        // An empty body counts as buffered, so it can be sent again if the connection was stale.
        ctx.recorder.request_read(0);
        return send(&ctx, Sending::default(), RopeBody::default()).await;
    }
    let progress = Progress::start();
    ctx.recorder.request_streams(progress.clone());
    ctx.recorder.leg_sent(0);
    let headers = ctx.onward(Sending::default());
    let sent = ctx
        .upstream
        .relay(&ctx.method, &ctx.target, headers, body, &progress)
        .await;
    answer(&ctx, sent)
}

/// Sends a buffered body and relays the response.
pub async fn send(ctx: &RequestContext, sending: Sending, body: RopeBody) -> Response<ResponseBody> {
    ctx.recorder.leg_sent(body.left());
    let headers = || ctx.onward(sending);
    let sent = ctx
        .upstream
        .send(&ctx.method, &ctx.target, headers(), headers, body)
        .await;
    answer(ctx, sent)
}

/// Relays upstream's response unchanged, whatever its status, or builds the response for the fault.
pub fn answer(ctx: &RequestContext, sent: UpstreamResult) -> Response<ResponseBody> {
    let response = match sent {
        Ok(response) => response,
        Err(fault) => return ctx.refuse(fault),
    };
    ctx.recorder.first_byte();
    let (parts, body) = response.into_parts();
    if parts.status.is_client_error() || parts.status.is_server_error() {
        ctx.recorder.decide(ExchangeOutcome::UpstreamError);
    }
    if parts.status == StatusCode::TOO_MANY_REQUESTS {
        ctx.note_limit(&parts.headers, b"");
    }
    ctx.recorder
        .note(|e| e.streamed = headers::is_stream(&parts.headers));
    headed(&parts, false, ResponseBody::stream(body))
}

/// Creates a response with upstream's status and headers. `changed` is true if the body may differ from upstream's.
pub fn headed(upstream: &Parts, changed: bool, body: ResponseBody) -> Response<ResponseBody> {
    let mut out = Response::new(body);
    *out.status_mut() = upstream.status;
    *out.headers_mut() = headers::back(&upstream.headers, changed);
    out
}
