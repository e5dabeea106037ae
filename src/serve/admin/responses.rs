//! Builds the admin listener's responses and errors.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

use crate::state::journal::FilterError;

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
    let body = serde_json::json!({ "error": { "code": code, "message": message } });
    respond(status, JSON, format!("{body}\n"))
}

/// A member of a request's body is wrong.
pub(super) fn field_error(field: &str, message: &str) -> FullResponse {
    let error =
        serde_json::json!({ "code": "bad_field", "field": field, "message": format!("{field}: {message}") });
    let body = serde_json::json!({ "error": error });
    respond(StatusCode::UNPROCESSABLE_ENTITY, JSON, format!("{body}\n"))
}

/// No proxy runs that could do this.
pub(super) fn no_proxy() -> FullResponse {
    let message = "no proxy is running: this page is read only";
    error(StatusCode::SERVICE_UNAVAILABLE, "no_proxy", message)
}

/// A filter cannot be parsed: its message, and where the wrong term begins.
pub(super) fn filter_error(why: &FilterError) -> FullResponse {
    let error = serde_json::json!({ "code": "bad_filter", "position": why.position, "message": why.message });
    let body = serde_json::json!({ "error": error });
    respond(StatusCode::BAD_REQUEST, JSON, format!("{body}\n"))
}

pub(super) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> FullResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
