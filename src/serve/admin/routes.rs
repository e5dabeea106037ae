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

/// A page that is not part of the inspector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Alive,
    Ready,
    Metrics,
}

/// Path, page, and whether it is open to everybody: orchestrators have no token and use the address as host.
const ROUTES: [(&str, Page, bool); 3] = [
    ("/healthz", Page::Alive, true),
    ("/readyz", Page::Ready, true),
    ("/metrics", Page::Metrics, false),
];

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
    let route = ROUTES.iter().find(|(known, ..)| *known == path);
    let open = route.is_some_and(|(_, _, open)| *open);
    let admitted = match open {
        true => one_host(request.headers()),
        false => admit(request, state.token.as_ref(), bound),
    };
    if let Err(denied) = admitted {
        return boxed(denial(denied));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return boxed(change(state, request, body).await);
    }
    if let Some((_, page, _)) = route {
        let accept = request.headers().get_all(ACCEPT);
        let accept: Vec<_> = accept.iter().filter_map(|value| value.to_str().ok()).collect();
        return boxed(show(state, *page, &accept).await);
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

/// What a request changes.
enum ApiChange<'p> {
    /// Asks for a handoff of this conversation.
    HandOver(&'p str),
    CancelDraft(&'p str),
    AcceptDraft(&'p str),
    RejectDraft(&'p str),
}

impl<'p> ApiChange<'p> {
    /// The change at a path below `/api/`; `None`: read-only.
    fn of(method: &Method, path: &'p str) -> Option<Self> {
        match (method, &path.split('/').collect::<Vec<_>>()[..]) {
            (&Method::POST, ["conversations", key, "handoff"]) => Some(Self::HandOver(key)),
            (&Method::DELETE, ["drafts", id]) => Some(Self::CancelDraft(id)),
            (&Method::POST, ["drafts", id, "accept"]) => Some(Self::AcceptDraft(id)),
            (&Method::POST, ["drafts", id, "reject"]) => Some(Self::RejectDraft(id)),
            _ => None,
        }
    }
}

/// Answers a request that changes something.
async fn change(state: &AdminState, request: &Request<()>, body: Incoming) -> FullResponse {
    let path = request.uri().path().strip_prefix("/api/");
    let wanted = path.and_then(|path| ApiChange::of(request.method(), path));
    let Some((wanted, inspector)) = wanted.zip(state.inspector.as_ref()) else {
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
    let reply = match wanted {
        ApiChange::HandOver(key) => api_drafts::ask(inspector, key, headers, &body).await,
        ApiChange::CancelDraft(id) => api_drafts::cancel(inspector, id).await,
        ApiChange::AcceptDraft(id) => api_drafts::accept(inspector, id, headers, &body).await,
        ApiChange::RejectDraft(id) => api_drafts::reject(inspector, id).await,
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

async fn show(state: &AdminState, page: Page, accept: &[&str]) -> FullResponse {
    match page {
        Page::Alive => respond(StatusCode::OK, TEXT, "ok\n"),
        Page::Ready => readiness(&(state.ready)().await, asks_for_json(accept)),
        Page::Metrics => match state.metrics.text() {
            Ok(text) if asks_for_open_metrics(accept) => respond(StatusCode::OK, OPEN_METRICS, text),
            Ok(text) => respond(
                StatusCode::OK,
                PROMETHEUS,
                crate::state::telemetry::prometheus::plain(&text),
            ),
            Err(_) => error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "metrics",
                "the metrics cannot be written",
            ),
        },
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
        let of = |method: Method, path| ApiChange::of(&method, path);
        assert!(matches!(
            of(Method::POST, "conversations/a/handoff"),
            Some(ApiChange::HandOver("a"))
        ));
        assert!(matches!(
            of(Method::DELETE, "drafts/d"),
            Some(ApiChange::CancelDraft("d"))
        ));
        for (method, path) in [
            (Method::POST, "drafts/d"),
            (Method::DELETE, "drafts/d/accept"),
            (Method::PUT, "drafts/d/reject"),
            (Method::POST, "drafts/d/accept/x"),
            (Method::POST, "conversations"),
            (Method::POST, "handoffs/h"),
        ] {
            assert!(of(method.clone(), path).is_none(), "{method} {path}");
        }
    }
}
