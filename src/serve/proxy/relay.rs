//! The relay: requests that the proxy does not read, and their responses, pass through byte for byte.

use http::Response;
use http::response::Parts;

use super::RequestContext;
use super::exchange_recorder::Progress;
use super::headers::{self, Sending};
use super::min_rate::MinRateBody;
use super::response_body::ResponseBody;
use super::upload::RopeBody;
use super::upstream::UpstreamResult;
use crate::state::telemetry::ExchangeOutcome;

/// Passes the request on while the agent still sends it, and the answer back while upstream still sends that.
pub(super) async fn run(ctx: RequestContext, body: MinRateBody) -> Response<ResponseBody> {
    if body.is_end_stream() {
        // An empty body is buffered at once, and can be sent again if the connection was stale.
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

/// Sends a buffered body and passes the answer back.
pub async fn send(ctx: &RequestContext, sending: Sending, body: RopeBody) -> Response<ResponseBody> {
    ctx.recorder.leg_sent(body.left());
    let headers = || ctx.onward(sending);
    let sent = ctx
        .upstream
        .send(&ctx.method, &ctx.target, headers(), headers, body)
        .await;
    answer(ctx, sent)
}

/// Upstream's answer unchanged, whatever it is; or the response for the fault.
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
    ctx.recorder
        .note(|e| e.streamed = headers::is_stream(&parts.headers));
    headed(&parts, false, ResponseBody::stream(body))
}

/// A response with the status and headers of upstream's. `changed`: the body may differ from what upstream sent.
pub fn headed(upstream: &Parts, changed: bool, body: ResponseBody) -> Response<ResponseBody> {
    let mut out = Response::new(body);
    *out.status_mut() = upstream.status;
    *out.headers_mut() = headers::back(&upstream.headers, changed);
    out
}
