//! Builds the admin listener's responses and errors.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// A response with a complete body.
pub(super) type FullResponse = Response<Full<Bytes>>;

/// A response, complete or streamed.
pub(super) type AnyResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn boxed(answer: FullResponse) -> AnyResponse {
    answer.map(BodyExt::boxed_unsync)
}

pub(super) fn error(status: StatusCode, code: &str, message: &str) -> FullResponse {
    failed(status, &json!({ "code": code, "message": message }))
}

/// An error with these members.
pub(super) fn failed(status: StatusCode, error: &Value) -> FullResponse {
    respond(status, JSON, format!("{}\n", json!({ "error": error })))
}

/// No proxy runs that could do this.
pub(super) fn no_proxy() -> FullResponse {
    let message = "no proxy is running: this page is read only";
    error(StatusCode::SERVICE_UNAVAILABLE, "no_proxy", message)
}

pub(super) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> FullResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
