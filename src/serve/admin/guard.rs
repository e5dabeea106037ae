//! Access control of the admin listener.
//!
//! A web page can make a browser send requests to this listener under the page's own host name (DNS
//! rebinding) and read the responses. Such a request carries that name in `Host`. So only host names that
//! nobody else can own are accepted, or requests with the token.

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, Method, Request};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::error::{ApiError, ApiResult};
use crate::state::access::hosts;
use crate::state::config::{Admin, Secret};

/// Path of the metrics, which have a token of their own.
pub(super) const METRICS: &str = "/metrics";

/// Checks a request's origin, and its token or, if none is configured, its host.
///
/// # Errors
/// The reason for the rejection.
pub(super) fn admit<B>(request: &Request<B>, config: &Admin, bound: SocketAddr) -> ApiResult<()> {
    // First, because the other checks read a single `Host`.
    one_host(request.headers())?;
    if !from_own_page(request.headers()) && !opens_the_page(request) {
        return Err(ApiError::FOREIGN_ORIGIN);
    }
    if config.token.is_none() {
        let is_admitted = host(request).is_some_and(|host| is_ours(host, bound.ip()));
        return if is_admitted {
            Ok(())
        } else {
            Err(ApiError::FOREIGN_HOST)
        };
    }
    // If a token is configured, any host name is accepted, because no web page knows the token.
    let presented = |token: Option<&Secret>| token.is_some_and(|token| presents(request.headers(), token));
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let asks_for_metrics = reads && request.uri().path() == METRICS;
    let allowed = [
        (&config.token, true),
        (&config.read_token, reads),
        (&config.metrics_token, asks_for_metrics),
    ];
    let mut known = allowed.into_iter().filter(|(token, _)| presented(token.as_ref()));
    match known.next() {
        Some((_, true)) => Ok(()),
        Some((_, false)) => Err(ApiError::TOKEN_SCOPE),
        None => Err(ApiError::TOKEN),
    }
}

/// Checks that a request names at most one host.
///
/// An intermediary may have used either of two (RFC 9112, section 3.2).
///
/// # Errors
/// [`ApiError::AMBIGUOUS_HOST`].
pub(super) fn one_host(headers: &HeaderMap) -> ApiResult<()> {
    match headers.get_all(HOST).iter().count() {
        0 | 1 => Ok(()),
        _ => Err(ApiError::AMBIGUOUS_HOST),
    }
}

/// Whether a browser opens the inspector in a window, possibly by a link on a page of another site.
///
/// That is allowed, because the other page cannot read the response.
fn opens_the_page<B>(request: &Request<B>) -> bool {
    let is = |name: &str, value: &str| request.headers().get(name).is_some_and(|given| given == value);
    request.method() == Method::GET
        && request.uri().path() == "/"
        && !request.headers().contains_key(ORIGIN)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Whether the request's origin is the listener itself.
///
/// Browsers send `Origin` with every cross-origin request that may change something, and `Sec-Fetch-Site` with the
/// others. Other clients send neither, and are accepted.
fn from_own_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        return hosts::other_site(headers).is_none();
    };
    let origin = origin.to_str().ok();
    let named = origin.and_then(|origin| Some(origin.split_once("://")?.1));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    matches!((named, host), (Some(named), Some(host)) if named.eq_ignore_ascii_case(host))
}

/// Extracts the token: a bearer token, or the password of HTTP basic authentication, which browsers can ask
/// for.
fn presented(value: &str) -> Option<String> {
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
    // The user name does not matter.
    Some(pair.split_once(':')?.1.to_owned())
}

/// Whether a request presents the token.
///
/// Digests are compared in constant time, so that timing reveals neither the token nor its length.
fn presents(headers: &HeaderMap, token: &Secret) -> bool {
    let value = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(presented) = value.and_then(presented) else {
        return false;
    };
    let digest: [u8; 32] = Sha256::digest(presented.as_bytes()).into();
    digest.ct_eq(&token.digest()).into()
}

/// Host of the request without its port.
fn host<B>(request: &Request<B>) -> Option<&str> {
    // A host in the target takes precedence (RFC 9112, section 3.2.2).
    let named = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => request.headers().get(HOST)?.to_str().ok()?,
    };
    hosts::without_port(named)
}

fn is_ours(host: &str, bound: IpAddr) -> bool {
    hosts::is_loopback(host) || hosts::is_address(host, bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(host: &str, authorization: Option<&str>) -> Request<()> {
        let mut request = Request::builder().uri("/").header(HOST, host);
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request.body(()).unwrap()
    }

    fn with_token() -> Admin {
        Admin {
            token: Some(Secret::new("0123456789abcdef")),
            ..Admin::default()
        }
    }

    #[test]
    fn each_token_opens_what_it_is_for() {
        let bound: SocketAddr = "10.0.0.5:8788".parse().unwrap();
        let config = Admin {
            read_token: Some(Secret::new("fedcba9876543210")),
            metrics_token: Some(Secret::new("0011223344556677")),
            ..with_token()
        };
        let ask = |token: &str, method: Method, path: &str| {
            let mut request = requested("baton.example", Some(&format!("Bearer {token}")));
            *request.method_mut() = method;
            *request.uri_mut() = path.parse().unwrap();
            admit(&request, &config, bound)
        };
        let (full, read, metrics) = ("0123456789abcdef", "fedcba9876543210", "0011223344556677");
        let no_scope = || Err(ApiError::TOKEN_SCOPE);
        #[rustfmt::skip]
        let table = [
            (full, Method::POST, "/api/drafts/1/accept", Ok(())),
            (full, Method::GET, "/metrics", Ok(())),
            (read, Method::GET, "/api/exchanges", Ok(())),
            (read, Method::HEAD, "/", Ok(())),
            (read, Method::GET, "/metrics", Ok(())),
            (read, Method::POST, "/api/drafts/1/accept", no_scope()),
            (read, Method::DELETE, "/api/drafts/1", no_scope()),
            (metrics, Method::GET, "/metrics", Ok(())),
            (metrics, Method::GET, "/metrics/", no_scope()),
            (metrics, Method::GET, "/", no_scope()),
            (metrics, Method::GET, "/api/exchanges", no_scope()),
            (metrics, Method::POST, "/metrics", no_scope()),
            ("0011223344556678", Method::GET, "/metrics", Err(ApiError::TOKEN)),
        ];
        for (token, method, path, expected) in table {
            assert_eq!(ask(token, method.clone(), path), expected, "{method} {path}");
        }
    }

    #[test]
    fn only_names_that_are_ours_are_answered() {
        let bound: SocketAddr = "10.0.0.5:8788".parse().unwrap();
        let ours = [
            "localhost:8788",
            "127.0.0.1:8788",
            "[::1]:8788",
            "LOCALHOST",
            "10.0.0.5:1",
            "baton.localhost",
        ];
        let foreign = [
            "evil.example:8788",
            "localhost.evil.example",
            "10.0.0.6",
            "127.0.0.1.evil.example",
            "",
            "[::1",
        ];
        for (hosts, expected) in [(ours, Ok(())), (foreign, Err(ApiError::FOREIGN_HOST))] {
            for host in hosts {
                let found = admit(&requested(host, None), &Admin::default(), bound);
                assert_eq!(found, expected, "{host}");
            }
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        let bound: SocketAddr = "127.0.0.1:8788".parse().unwrap();
        let with = |origin: &str| {
            let mut request = requested("localhost:8788", None);
            request.headers_mut().insert(ORIGIN, origin.parse().unwrap());
            admit(&request, &Admin::default(), bound)
        };
        assert_eq!(with("http://localhost:8788"), Ok(()));
        for other in [
            "null",
            "https://evil.example",
            "http://localhost:3000",
            "http://127.0.0.1:8788",
        ] {
            assert_eq!(with(other), Err(ApiError::FOREIGN_ORIGIN), "{other}");
        }
    }

    #[test]
    fn a_browser_may_present_the_token_as_a_password() {
        let bound: SocketAddr = "127.0.0.1:8788".parse().unwrap();
        let config = with_token();
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        let ask = |value: &str| admit(&requested("proxy.example", Some(value)), &config, bound);
        assert_eq!(ask(&basic("me:0123456789abcdef")), Ok(()));
        assert_eq!(ask(&basic("0123456789abcdef:")), Err(ApiError::TOKEN));
    }

    #[test]
    fn a_token_is_required_and_is_enough() {
        let bound: SocketAddr = "127.0.0.1:8788".parse().unwrap();
        let config = with_token();
        let admit = |authorization| admit(&requested("proxy.example", authorization), &config, bound);
        assert_eq!(admit(Some("Bearer 0123456789abcdef")), Ok(()));
        assert_eq!(admit(Some("bearer 0123456789abcdef")), Ok(()));
        for wrong in [
            None,
            Some("Bearer 0123456789abcdee"),
            Some("Basic 0123456789abcdef"),
            Some("Bearer "),
            Some("Bearer"),
        ] {
            assert_eq!(admit(wrong), Err(ApiError::TOKEN), "{wrong:?}");
        }
    }

    type Headers<'h> = &'h [(&'h str, &'h str)];

    #[test]
    fn pages_of_other_sites_may_open_the_inspector_and_nothing_else() {
        let bound = "127.0.0.1:8788".parse().unwrap();
        let (site, mode, dest) = ("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest");
        #[rustfmt::skip]
        let table: &[(&str, Headers<'_>, bool)] = &[
            ("/api/status", &[], true),
            ("/api/status", &[(site, "same-origin")], true),
            ("/api/status", &[(site, "none")], true),
            ("/api/status", &[(site, "cross-site")], false),
            ("/api/status", &[(site, "same-site")], false),
            ("/api/status", &[(site, "cross-site"), (mode, "navigate"), (dest, "document")], false),
            ("/", &[(site, "same-site"), (mode, "navigate"), (dest, "document")], true),
            ("/", &[(site, "cross-site"), (mode, "navigate"), (dest, "iframe")], false),
            ("/", &[(site, "cross-site"), (mode, "no-cors"), (dest, "image")], false),
        ];
        for (path, headers, admitted) in table {
            let mut request = Request::builder().uri(*path).header(HOST, "127.0.0.1:8788");
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            let found = admit(&request.body(()).unwrap(), &Admin::default(), bound);
            assert_eq!(found.is_ok(), *admitted, "{path} {headers:?}");
        }
    }
}
