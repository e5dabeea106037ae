//! Relay: passes requests that baton does not read, and their responses, through byte for byte.

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Body;

use super::exchange_recorder::Progress;
use super::fault::Fault;
use super::headers::{self, Sending};
use super::min_rate::MinRateBody;
use super::own_key::{self, KeylessBody};
use super::response_body::{AgentResponse, ResponseBody};
use super::upload::RopeBody;
use super::upstream::UpstreamResult;
use super::{RequestContext, fault, stated_usage};
use crate::state::config::Config;
use crate::state::telemetry::ExchangeOutcome;

/// Relays a request while the agent still sends it, and the response while upstream still sends it.
pub(super) async fn run(ctx: RequestContext, body: MinRateBody) -> AgentResponse {
    let sending = stated_usage::sending(&ctx);
    if body.is_end_stream() {
        // An empty body counts as buffered, so it can be sent again if the connection was stale.
        ctx.recorder.request_read(0);
        return send(&ctx, sending, RopeBody::default()).await;
    }
    let progress = Progress::start();
    ctx.recorder.request_streams(progress.clone());
    ctx.recorder.leg_sent(0);
    let headers = ctx.onward(sending);
    let sent = ctx
        .upstream
        .relay(&ctx.method, &ctx.target, headers, body, &progress)
        .await;
    answer(&ctx, sent)
}

/// Sends a buffered body and relays the response.
pub async fn send(ctx: &RequestContext, sending: Sending, body: RopeBody) -> AgentResponse {
    ctx.recorder.leg_sent(body.left());
    let headers = || ctx.onward(sending);
    let sent = ctx
        .upstream
        .send(&ctx.method, &ctx.target, headers(), headers, body)
        .await;
    answer(ctx, sent)
}

/// Relays upstream's response, whatever its status, or builds the response for the fault.
///
/// The response is unchanged but for the proxy's own key in an error.
pub fn answer(ctx: &RequestContext, sent: UpstreamResult) -> AgentResponse {
    let response = match sent {
        Ok(response) => response,
        Err(fault) => return ctx.refuse(fault),
    };
    ctx.recorder.first_byte();
    let (parts, body) = response.into_parts();
    let is_error = parts.status.is_client_error() || parts.status.is_server_error();
    if is_error {
        ctx.recorder.decide(ExchangeOutcome::UpstreamError);
    }
    if parts.status == StatusCode::TOO_MANY_REQUESTS {
        ctx.note_limit(&parts.headers, b"");
    }
    ctx.recorder
        .note(|e| e.streamed = headers::is_stream(&parts.headers));
    match is_error {
        true => failed(ctx, &parts, body, false),
        false => headed(&parts, false, ResponseBody::stream(body)),
    }
}

/// Creates an error response without the proxy's own key. `changed` is true if the body may differ from upstream's.
pub fn failed(
    ctx: &RequestContext,
    parts: &Parts,
    body: impl Body<Data = Bytes, Error = Fault> + Send + 'static,
    changed: bool,
) -> AgentResponse {
    let keys = own_key::keys(&ctx.upstream.config);
    if keys.is_empty() {
        return headed(parts, changed, ResponseBody::stream(body));
    }
    let shown = |(_, value): &(&HeaderName, &HeaderValue)| !own_key::is_in(&keys, value);
    let own = |(name, value): (&HeaderName, &HeaderValue)| (name.clone(), value.clone());
    // A compressed body is not read, so it stays as it is.
    let mut out = match !changed && parts.headers.contains_key(header::CONTENT_ENCODING) {
        true => headed(parts, false, ResponseBody::stream(body)),
        false => headed(
            parts,
            true,
            ResponseBody::stream(KeylessBody::new(body, keys.clone())),
        ),
    };
    *out.headers_mut() = out.headers().iter().filter(shown).map(own).collect();
    out
}

/// Creates a response with upstream's status and headers. `changed` is true if the body may differ from upstream's.
pub fn headed(upstream: &Parts, changed: bool, body: ResponseBody) -> AgentResponse {
    let mut out = Response::new(body);
    *out.status_mut() = upstream.status;
    *out.headers_mut() = headers::back(&upstream.headers, changed);
    out
}

/// Whether a request is for the line that [`welcome`] answers with.
pub(super) fn asks_for_welcome(parts: &http::request::Parts) -> bool {
    (parts.method == Method::GET || parts.method == Method::HEAD) && parts.uri.path() == "/"
}

/// Names the program that listens here. No provider has anything at this path, and agents probe it (Claude Code sends
/// `HEAD /` at each start).
pub(super) fn welcome(config: &Config) -> AgentResponse {
    let admin = &config.admin;
    // A listener on all addresses has no URL to show, only its port.
    let seen = match admin.at.listen.ip().is_unspecified() {
        true => format!("port {} of this machine", admin.at.listen.port()),
        false => format!("{}://{}/", admin.at.scheme(), admin.at.listen),
    };
    let line = format!("baton, a proxy for the APIs of language models; its inspector is at {seen}\n");
    let mut response = Response::new(ResponseBody::whole(line));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if config.requires_clients() {
        fault::close(response.headers_mut());
    }
    response
}
