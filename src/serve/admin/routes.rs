//! Routes of the admin listener.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::error::{AnyResponse, ApiError, ApiResult, FullResponse, JSON, TEXT, boxed, respond};
use super::guard::{METRICS, admit, one_host};
use super::readiness::{CONFIG, Report, STORE_READ, STORE_WRITE};
use super::{AdminState, api, api_drafts, page};
use crate::connections::Peer;
use crate::state::telemetry::prometheus;

/// Maximum bytes of a request's body: the largest carry-over prompt, escaped.
const BODY_BYTES: usize = 8 << 20;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request of `peer`. `closing` becomes true when the listener stops.
pub(super) async fn answer(
    state: &AdminState,
    bound: SocketAddr,
    closing: watch::Receiver<bool>,
    peer: &Peer,
    request: Request<Incoming>,
) -> AnyResponse {
    // The body is read only by requests that change something.
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, ());
    let answer = found(state, bound, closing, peer, &request, body).await;
    let mut answer = answer.unwrap_or_else(|error| boxed(error.response()));
    let headers = answer.headers_mut();
    // Assets have set their own `cache-control`.
    for (name, value) in page::SAFETY.into_iter().chain([(CACHE_CONTROL, "no-store")]) {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

async fn found(
    state: &AdminState,
    bound: SocketAddr,
    closing: watch::Receiver<bool>,
    peer: &Peer,
    request: &Request<()>,
    body: Incoming,
) -> ApiResult<AnyResponse> {
    let path = request.uri().path();
    match path {
        // Open to everybody, because orchestrators have no token and use the address as host.
        "/healthz" | "/readyz" => one_host(request.headers())?,
        _ => {
            admit(request, &state.config.admin, bound)?;
            peer.admit();
        }
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return change(state, request, body).await.map(boxed);
    }
    let accept = request.headers().get_all(ACCEPT);
    let accept: Vec<_> = accept.iter().filter_map(|value| value.to_str().ok()).collect();
    let answer = match path {
        "/healthz" => respond(StatusCode::OK, TEXT, "ok\n"),
        "/readyz" => {
            let strict = request.uri().query() == Some("strict=1");
            readiness(&(state.ready)().await, asks_for_json(&accept), strict)
        }
        METRICS => metrics(state, asks_for_open_metrics(&accept)).await?,
        "/api/events" => return api::events(state, closing),
        _ => match path.strip_prefix("/api/") {
            Some(path) => api::answer(state, path, request.uri().query()).await?,
            None => page::serve(path).ok_or(ApiError::NO_PATH)?,
        },
    };
    Ok(boxed(answer))
}

/// Answers a request that changes something.
async fn change(state: &AdminState, request: &Request<()>, body: Incoming) -> ApiResult {
    let path = request.uri().path().strip_prefix("/api/").unwrap_or_default();
    let path: Vec<_> = path.split('/').collect();
    let (headers, body) = (request.headers(), wanted(state, body));
    match (request.method().as_str(), &path[..]) {
        ("DELETE", ["drafts", id]) => {
            // The body has no meaning here, but reading it checks that a proxy runs.
            body.await?;
            api_drafts::cancel(state, id).await
        }
        ("POST", ["drafts", id, "reject"]) => {
            body.await?;
            api_drafts::reject(state, id).await
        }
        ("POST", ["drafts", id, "accept"]) => api_drafts::accept(state, id, headers, &body.await?).await,
        ("POST", ["conversations", key, "handoff"]) => {
            api_drafts::ask(state, key, headers, &body.await?).await
        }
        _ => Err(ApiError::READ_ONLY),
    }
}

/// Reads the body of a request that changes something, which requires a running proxy.
async fn wanted(state: &AdminState, body: Incoming) -> ApiResult<Bytes> {
    if state.data_listener.is_none() {
        return Err(ApiError::NO_PROXY);
    }
    let body = Limited::new(body, BODY_BYTES).collect().await;
    Ok(body.map_err(|_| ApiError::TOO_LARGE)?.to_bytes())
}

/// Whether a scraper prefers OpenMetrics to the text format, by the weights in `Accept` (RFC 9110, section
/// 12.5.1).
///
/// OpenMetrics wins a tie, because a scraper that lists it can read it.
fn asks_for_open_metrics(accept: &[&str]) -> bool {
    let (mut open, mut plain) = (0.0, 0.0);
    for (kind, weight) in ranges(accept) {
        match kind.as_str() {
            "application/openmetrics-text" => open = weight.max(open),
            "text/plain" | "text/*" => plain = weight.max(plain),
            _ => {}
        }
    }
    open > 0.0 && open >= plain
}

/// Whether a probe explicitly asks for JSON.
fn asks_for_json(accept: &[&str]) -> bool {
    ranges(accept).any(|(kind, weight)| kind == "application/json" && weight > 0.0)
}

/// Media types in `Accept`, in lower case, each with its weight.
fn ranges(accept: &[&str]) -> impl Iterator<Item = (String, f32)> {
    accept.iter().flat_map(|value| value.split(',')).map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse().ok());
        (kind, weight.unwrap_or(1.0))
    })
}

/// Answers a health check. A degraded process is healthy for balancers and not for `?strict=1`.
fn readiness(report: &Report, json: bool, strict: bool) -> FullResponse {
    let failure = report.failure().map(|(what, _)| what);
    let is_healthy = report.ready && !(strict && report.degraded);
    let status = match is_healthy {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    if json {
        let body = serde_json::to_string(report).unwrap_or_default();
        return respond(status, JSON, format!("{body}\n"));
    }
    let text = match failure {
        None => "ready\n".to_owned(),
        Some(what) if report.degraded => format!("degraded: {what}\n"),
        Some(what) => format!("not ready: {what}\n"),
    };
    respond(status, TEXT, text)
}

async fn metrics(state: &AdminState, open: bool) -> ApiResult {
    let report = (state.ready)().await;
    let is_ready = report.ready && !report.degraded;
    let [read, write, config] = [STORE_READ, STORE_WRITE, CONFIG].map(|name| report.is_ok(name));
    state.metrics.note_health(is_ready, [read, write], config);
    let text = state.metrics.text().map_err(|_| ApiError::METRICS)?;
    Ok(match open {
        true => respond(StatusCode::OK, OPEN_METRICS, text),
        false => respond(StatusCode::OK, PROMETHEUS, prometheus::plain(&text)),
    })
}
