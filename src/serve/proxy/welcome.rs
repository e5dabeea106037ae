//! Response at `/` of the data listener, in one line.
//!
//! No provider has anything there, and agents probe it (Claude Code sends `HEAD /` at each start).

use http::request::Parts;
use http::{HeaderValue, Method, Response, header};

use super::response_body::ResponseBody;
use crate::state::config::Admin;

/// Whether a request is for this line.
pub(super) fn is_for(parts: &Parts) -> bool {
    (parts.method == Method::GET || parts.method == Method::HEAD) && parts.uri.path() == "/"
}

/// Builds the response.
pub(super) fn answer(admin: &Admin) -> Response<ResponseBody> {
    // A listener on all addresses has no URL to show, only its port.
    let seen = match admin.listen.ip().is_unspecified() {
        true => format!("port {} of this machine", admin.listen.port()),
        false => format!("{}://{}/", admin.scheme(), admin.listen),
    };
    let line = format!("baton, a proxy for the APIs of language models; its inspector is at {seen}\n");
    let mut response = Response::new(ResponseBody::whole(line));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
