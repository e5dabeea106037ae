//! Builders of the admin listener's responses.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// A response with a complete body.
pub(super) type FullResponse = Response<Full<Bytes>>;

/// A response, complete or streamed.
pub(super) type AnyResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(super) const JSON: &str = "application/json";
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

pub(super) fn boxed(answer: FullResponse) -> AnyResponse {
    answer.map(BodyExt::boxed_unsync)
}

pub(super) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> FullResponse {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
