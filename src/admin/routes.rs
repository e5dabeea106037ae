//! What each path answers.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::AdminState;
use super::guard::{Denied, admit};

pub(super) type Answer = Response<Full<Bytes>>;

/// A thing that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Index,
    Alive,
    Ready,
    Metrics,
}

/// Path, page, and whether anybody may ask: orchestrators have no token and name us by address.
const ROUTES: [(&str, Page, bool); 4] = [
    ("/", Page::Index, false),
    ("/healthz", Page::Alive, true),
    ("/readyz", Page::Ready, true),
    ("/metrics", Page::Metrics, false),
];

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// On every answer: nothing is cached, framed, sniffed, or loaded from elsewhere.
const SAFETY: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ),
];

/// Answers one request.
pub(super) async fn answer<B>(state: &AdminState, bound: SocketAddr, request: &Request<B>) -> Answer {
    let route = ROUTES.iter().find(|(path, ..)| *path == request.uri().path());
    let open = route.is_some_and(|(_, _, open)| *open);
    if !open && let Err(denied) = admit(request, state.token.as_ref(), bound) {
        return denial(denied);
    }
    match route {
        None => error(
            StatusCode::NOT_FOUND,
            "not_found",
            "there is nothing at this path",
        ),
        Some(_) if !matches!(*request.method(), Method::GET | Method::HEAD) => {
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
        Some((_, page, _)) => show(state, *page).await,
    }
}

async fn show(state: &AdminState, page: Page) -> Answer {
    match page {
        Page::Index => respond(StatusCode::OK, HTML, INDEX.replace("{version}", VERSION)),
        Page::Alive => respond(StatusCode::OK, TEXT, "ok\n"),
        Page::Ready => match (state.ready)().await {
            Ok(()) => respond(StatusCode::OK, TEXT, "ready\n"),
            // The reason goes to the log alone: this page is open, and reasons hold paths and addresses.
            Err(reason) => {
                tracing::warn!(target: "baton", reason, "not ready");
                respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, "not ready\n")
            }
        },
        Page::Metrics => match state.metrics.text() {
            Ok(text) => respond(StatusCode::OK, OPEN_METRICS, text),
            Err(_) => error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "metrics",
                "the metrics cannot be written",
            ),
        },
    }
}

fn denial(denied: Denied) -> Answer {
    match denied {
        Denied::Token => {
            let mut answer = error(
                StatusCode::UNAUTHORIZED,
                "token",
                "present admin.token as `Authorization: Bearer …`",
            );
            answer
                .headers_mut()
                .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        }
        Denied::Host => error(
            StatusCode::FORBIDDEN,
            "host",
            "ask for localhost or the bound address, or set admin.token",
        ),
    }
}

fn error(status: StatusCode, code: &str, message: &str) -> Answer {
    let body = serde_json::json!({ "error": { "code": code, "message": message } });
    respond(status, JSON, format!("{body}\n"))
}

fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in SAFETY {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

const INDEX: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>baton</title>
<style>
  :root { color-scheme: light dark }
  body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }
</style>
<h1>baton {version}</h1>
<ul>
  <li><a href="/healthz">/healthz</a>: the process is up</li>
  <li><a href="/readyz">/readyz</a>: requests can be served</li>
  <li><a href="/metrics">/metrics</a>: counters for Prometheus</li>
</ul>
<p>Handoffs: <code>baton handoffs list</code>
</html>
"#;
