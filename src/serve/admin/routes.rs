//! Routes of the admin listener.

use std::net::SocketAddr;

use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::guard::{Denied, admit, one_host};
use super::query::Unanswered;
use super::readiness::Report;
use super::responses::{AnyResponse, FullResponse, JSON, TEXT, boxed, error, no_proxy, respond};
use super::{AdminState, api, api_drafts, api_events, page};
use crate::state::telemetry::prometheus;

/// Bytes of a request's body: a carry-over prompt of the largest size, escaped.
const BODY_BYTES: usize = 8 << 20;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request. `closing` becomes true when the listener stops.
pub(super) async fn answer(
    state: &AdminState,
    bound: SocketAddr,
    closing: watch::Receiver<bool>,
    request: Request<Incoming>,
) -> AnyResponse {
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, ());
    let mut answer = found(state, bound, closing, &request, body).await;
    let headers = answer.headers_mut();
    for (name, value) in page::SAFETY.into_iter().chain([(CACHE_CONTROL, "no-store")]) {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

async fn found(
    state: &AdminState,
    bound: SocketAddr,
    closing: watch::Receiver<bool>,
    request: &Request<()>,
    body: Incoming,
) -> AnyResponse {
    let path = request.uri().path();
    let admitted = match path {
        // Open to everybody: orchestrators have no token, and use the address as host.
        "/healthz" | "/readyz" => one_host(request.headers()),
        _ => admit(request, state.token.as_ref(), bound),
    };
    if let Err(denied) = admitted {
        return boxed(denial(denied));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return boxed(change(state, request, body).await);
    }
    let accept = request.headers().get_all(ACCEPT);
    let accept: Vec<_> = accept.iter().filter_map(|value| value.to_str().ok()).collect();
    match path {
        "/healthz" => return boxed(respond(StatusCode::OK, TEXT, "ok\n")),
        "/readyz" => return boxed(readiness(&(state.ready)().await, asks_for_json(&accept))),
        "/metrics" => return boxed(metrics(state, asks_for_open_metrics(&accept))),
        _ => {}
    }
    match (path.strip_prefix("/api/"), &state.inspector) {
        (Some("events"), Some(inspector)) => api_events::answer(inspector, closing),
        (Some(path), Some(inspector)) => boxed(api::answer(inspector, path, request.uri().query()).await),
        (Some(_), None) => boxed(error(
            StatusCode::SERVICE_UNAVAILABLE,
            "inspector",
            "this listener has no inspector",
        )),
        (None, _) => boxed(page::serve(path).unwrap_or_else(|| {
            let message = "there is nothing at this path";
            error(StatusCode::NOT_FOUND, "not_found", message)
        })),
    }
}

/// Whether a request to a path below `/api/` changes something; others are read only.
fn is_change(method: &Method, path: &[&str]) -> bool {
    match path {
        ["conversations", _, "handoff"] | ["drafts", _, "accept" | "reject"] => *method == Method::POST,
        ["drafts", _] => *method == Method::DELETE,
        _ => false,
    }
}

/// Answers a request that changes something.
async fn change(state: &AdminState, request: &Request<()>, body: Incoming) -> FullResponse {
    let path = request.uri().path().strip_prefix("/api/").unwrap_or_default();
    let path: Vec<_> = path.split('/').collect();
    let wanted = is_change(request.method(), &path);
    let Some(inspector) = state.inspector.as_ref().filter(|_| wanted) else {
        return only_read();
    };
    if inspector.data_listener.is_none() {
        return no_proxy();
    }
    let Ok(body) = Limited::new(body, BODY_BYTES).collect().await else {
        return error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "the body is too large, or broke off",
        );
    };
    let (headers, body) = (request.headers(), body.to_bytes());
    let reply = match path[..] {
        ["drafts", id] => api_drafts::cancel(inspector, id).await,
        ["drafts", id, "accept"] => api_drafts::accept(inspector, id, headers, &body).await,
        ["drafts", id, "reject"] => api_drafts::reject(inspector, id).await,
        ["conversations", key, "handoff"] => api_drafts::ask(inspector, key, headers, &body).await,
        _ => return only_read(),
    };
    reply.unwrap_or_else(Unanswered::answer)
}

fn only_read() -> FullResponse {
    let mut answer = error(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path is only read",
    );
    answer
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

/// Whether a scraper prefers OpenMetrics to the text format, by the weights of `Accept` (RFC 9110, section 12.5.1).
/// OpenMetrics wins a tie: a scraper that lists it can read it.
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

/// Whether a probe asks for JSON: only where it says so.
fn asks_for_json(accept: &[&str]) -> bool {
    ranges(accept).any(|(kind, weight)| kind == "application/json" && weight > 0.0)
}

/// The kinds in `Accept`, in lower case, each with its weight.
fn ranges(accept: &[&str]) -> impl Iterator<Item = (String, f32)> {
    accept.iter().flat_map(|value| value.split(',')).map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse().ok());
        (kind, weight.unwrap_or(1.0))
    })
}

fn readiness(report: &Report, json: bool) -> FullResponse {
    let failure = report.failure();
    let status = match failure {
        None => StatusCode::OK,
        // The error goes only to the log: this page is open to everybody, and errors contain paths and addresses.
        Some((what, why)) => {
            tracing::warn!(target: "baton", what, why, "not ready");
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    if json {
        let body = serde_json::to_string(report).unwrap_or_default();
        return respond(status, JSON, format!("{body}\n"));
    }
    let text = failure.map_or("ready\n".to_owned(), |(what, _)| format!("not ready: {what}\n"));
    respond(status, TEXT, text)
}

fn metrics(state: &AdminState, open: bool) -> FullResponse {
    match state.metrics.text() {
        Ok(text) if open => respond(StatusCode::OK, OPEN_METRICS, text),
        Ok(text) => respond(StatusCode::OK, PROMETHEUS, prometheus::plain(&text)),
        Err(_) => {
            let message = "the metrics cannot be written";
            error(StatusCode::INTERNAL_SERVER_ERROR, "metrics", message)
        }
    }
}

fn denial(denied: Denied) -> FullResponse {
    let (status, code, message) = match denied {
        Denied::Ambiguous => (
            StatusCode::BAD_REQUEST,
            "bad_host",
            "send one Host header, as HTTP/1.1 requires",
        ),
        Denied::Token => (
            StatusCode::UNAUTHORIZED,
            "token",
            "present admin.token as `Authorization: Bearer …`",
        ),
        Denied::Origin => (
            StatusCode::FORBIDDEN,
            "origin",
            "pages of other origins are not allowed",
        ),
        Denied::Host => (
            StatusCode::FORBIDDEN,
            "host",
            "use localhost or the bound address, or set admin.token",
        ),
    };
    let mut answer = error(status, code, message);
    if denied == Denied::Token {
        // One header line each: Chromium ignores a list and would not prompt for the password.
        for challenge in ["Bearer", "Basic realm=\"baton\""] {
            let challenge = HeaderValue::from_static(challenge);
            answer.headers_mut().append(WWW_AUTHENTICATE, challenge);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_known_by_method_and_path() {
        let is = |method: &Method, path: &str| is_change(method, &path.split('/').collect::<Vec<_>>());
        assert!(is(&Method::POST, "conversations/a/handoff"));
        assert!(is(&Method::DELETE, "drafts/d") && is(&Method::POST, "drafts/d/accept"));
        for (method, path) in [
            (Method::POST, "drafts/d"),
            (Method::DELETE, "drafts/d/accept"),
            (Method::PUT, "drafts/d/reject"),
            (Method::POST, "drafts/d/accept/x"),
            (Method::POST, "conversations"),
            (Method::POST, "handoffs/h"),
        ] {
            assert!(!is(&method, path), "{method} {path}");
        }
    }
}
