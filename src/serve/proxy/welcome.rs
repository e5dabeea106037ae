//! Response at `/` of the data listener: a page for a browser, a line for any other client.
//!
//! No provider has anything there, and agents probe it (Claude Code sends `HEAD /` at each start).

use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, header};

use super::headers;
use super::response_body::ResponseBody;
use crate::state::config::{Admin, Config};

/// Headers of the page, which contains only text: nothing is loaded, run, sent or framed.
const HEADERS: &[(HeaderName, &str)] = &[
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Whether a request is for this page.
pub(super) fn is_for(parts: &Parts) -> bool {
    (parts.method == Method::GET || parts.method == Method::HEAD) && parts.uri.path() == "/"
}

/// Whether a browser sent the request. Agents and SDKs accept JSON, or anything.
fn is_browser(parts: &Parts) -> bool {
    let accepts_html = |value: &HeaderValue| {
        value
            .to_str()
            .is_ok_and(|v| v.to_ascii_lowercase().contains("text/html"))
    };
    parts.headers.get_all(header::ACCEPT).iter().any(accepts_html)
}

/// Builds the response.
pub(super) fn answer(parts: &Parts, config: &Config) -> Response<ResponseBody> {
    if is_browser(parts) {
        return page(parts, config);
    }
    let seen = inspector(&config.admin, |url| url);
    let line = format!("baton, a proxy for the APIs of language models; its inspector is at {seen}\n");
    let mut response = Response::new(ResponseBody::whole(line));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Describes where the inspector is. A listener on all addresses has no URL to show, only its port.
fn inspector(admin: &Admin, link: impl FnOnce(String) -> String) -> String {
    match admin.listen.ip().is_unspecified() {
        true => format!("port {} of this machine", admin.listen.port()),
        false => link(format!("{}://{}/", admin.scheme(), admin.listen)),
    }
}

fn page(parts: &Parts, config: &Config) -> Response<ResponseBody> {
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => headers::text(&parts.headers, "host").unwrap_or("localhost"),
    };
    let scheme = config.server.scheme();
    let text = text(&escaped(&format!("{scheme}://{host}")), &config.admin);
    let mut response = Response::new(ResponseBody::whole(text));
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn text(base: &str, admin: &Admin) -> String {
    let seen = inspector(admin, |url| format!("<a href=\"{url}\">{url}</a>"));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>baton</title>\n\
         <h1>baton</h1>\n\
         <p>This is a proxy for the APIs of language models. It serves coding agents, not browsers: set an agent's base URL to this address.</p>\n\
         <pre>ANTHROPIC_BASE_URL={base}\nOPENAI_BASE_URL={base}/v1\nGOOGLE_GEMINI_BASE_URL={base}</pre>\n\
         <p>The inspector shows the traffic that went through it: {seen}</p>\n</html>\n"
    )
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
