//! Checks of `Host` and `Origin`.
//!
//! A web page can make a browser send requests to a listener of this machine, and so spend the proxy's keys.
//! It can hide neither its origin nor the host name that it uses (DNS rebinding). Agents and SDKs send no
//! origin.

use http::request::Parts;
use http::{Version, header};

use super::fault::{Code, Fault};
use crate::state::access::hosts;
use crate::state::config;
use baton_core::text::cut::cut;

/// Maximum bytes of a refused host or origin that are shown: the longest host name, and a scheme before it.
const MAX_SHOWN_BYTES: usize = 272;

/// Allowed hosts and origins, from the config.
pub(super) struct OriginGuard {
    server: config::ListenerConfig,
}

impl OriginGuard {
    pub(super) fn new(server: &config::ListenerConfig) -> Self {
        Self {
            server: server.clone(),
        }
    }

    /// Checks that the request names exactly one host, and that this host is the listener's.
    pub(super) fn host(&self, parts: &Parts) -> Result<(), Fault> {
        let mut names = host_names(parts)?;
        // Other machines reach this listener, and only its operator knows its names: without a list, any name passes.
        let open = !self.server.at.listen.ip().is_loopback() && self.server.hosts.is_empty();
        match names.find(|name| !open && !self.is_ours(name)) {
            None => Ok(()),
            Some(name) => Err(Fault::because(Code::FOREIGN_HOST, cut(name, MAX_SHOWN_BYTES))),
        }
    }

    /// Checks that no page of another site made the request.
    pub(super) fn origin(&self, parts: &Parts) -> Result<(), Fault> {
        let mut origins = parts.headers.get_all(header::ORIGIN).iter().peekable();
        if origins.peek().is_none() {
            // Some requests of a browser carry no `Origin`, but `Sec-Fetch-Site` still reveals another site.
            return match hosts::other_site(&parts.headers) {
                Some(site) => Err(Fault::because(Code::FOREIGN_ORIGIN, site)),
                None => Ok(()),
            };
        }
        let names = host_names(parts)?;
        for origin in origins {
            let origin = origin.to_str().unwrap_or("?").to_ascii_lowercase();
            if !self.server.origins.contains(&origin) && !is_page_of(names.clone(), &origin) {
                return Err(Fault::because(
                    Code::FOREIGN_ORIGIN,
                    cut(&origin, MAX_SHOWN_BYTES),
                ));
            }
        }
        Ok(())
    }

    fn is_ours(&self, authority: &str) -> bool {
        hosts::without_port(authority).is_some_and(|host| {
            hosts::is_loopback(host)
                || hosts::is_address(host, self.server.at.listen.ip())
                || self.server.hosts.contains(&hosts::normal(host))
        })
    }
}

/// Host names of a request: from its target (absolute form) and from `Host`.
///
/// If both are present, both are checked, because a proxy between agent and baton may have used either. One
/// is required, except in HTTP/1.0, which no browser speaks (RFC 9112, section 3.2).
fn host_names(parts: &Parts) -> Result<impl Iterator<Item = &str> + Clone, Fault> {
    let bad = |detail: &str| Fault::because(Code::BAD_HOST, detail);
    let target = parts.uri.authority().map(http::uri::Authority::as_str);
    let mut given = parts.headers.get_all(header::HOST).iter();
    let header = match (given.next(), given.next()) {
        (_, Some(_)) => return Err(bad("more than one Host")),
        (Some(value), None) => Some(value.to_str().map_err(|_| bad("Host is not text"))?),
        (None, None) if target.is_none() && parts.version > Version::HTTP_10 => {
            return Err(bad("no Host"));
        }
        (None, None) => None,
    };
    Ok(target.into_iter().chain(header))
}

/// Whether `origin` is a page of the requested host, which an upstream serves through baton.
fn is_page_of<'a>(mut names: impl Iterator<Item = &'a str> + Clone, origin: &str) -> bool {
    let page = origin.split_once("://").map(|(_, host)| host);
    page.is_some_and(|page| {
        names.clone().next().is_some() && names.all(|name| name.eq_ignore_ascii_case(page))
    })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::Request;

    use super::*;
    use crate::proxy::testing;

    fn guard(listen: &str, hosts: &[&str]) -> OriginGuard {
        let mut server = testing::config("http://127.0.0.1:9").server;
        server.at.listen = listen.parse::<SocketAddr>().unwrap();
        server.hosts = hosts.iter().map(|h| (*h).to_owned()).collect();
        server.origins = vec!["http://localhost:3000".to_owned(), "app://obsidian.md".to_owned()];
        OriginGuard::new(&server)
    }

    fn request(version: Version, target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method("POST").uri(target).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn host(guard: &OriginGuard, version: Version, target: &str, hosts: &[&str]) -> &'static str {
        let headers: Vec<_> = hosts.iter().map(|h| ("host", *h)).collect();
        guard
            .host(&request(version, target, &headers))
            .map_or_else(|f| f.code.name, |()| "ok")
    }

    #[test]
    fn a_loopback_listener_is_requested_under_names_that_nobody_else_owns() {
        let guard = guard("127.0.0.1:8787", &["host.docker.internal", "192.168.1.5"]);
        let one = Version::HTTP_11;
        #[rustfmt::skip]
        let table: &[(Version, &str, &[&str], &str)] = &[
            (one, "/", &["localhost:8787"], "ok"),
            (one, "/", &["LOCALHOST"], "ok"),
            (one, "/", &["localhost."], "ok"),
            (one, "/", &["127.0.0.1:8787"], "ok"),
            (one, "/", &["127.0.0.2:1"], "ok"),
            (one, "/", &["[::1]:8787"], "ok"),
            (one, "/", &["baton.localhost:8787"], "ok"),
            (one, "/", &["host.docker.internal:8787"], "ok"),
            (one, "/", &["HOST.docker.internal."], "ok"),
            (one, "/", &["192.168.1.5:8787"], "ok"),
            (one, "/", &["192.168.1.6:8787"], "foreign_host"),
            (one, "/", &["evil.example:8787"], "foreign_host"),
            (one, "/", &["localhost.evil.example"], "foreign_host"),
            (one, "/", &["127.0.0.1.evil.example"], "foreign_host"),
            (one, "/", &["evil.example@localhost"], "foreign_host"),
            (one, "/", &[""], "foreign_host"),
            (one, "/", &["localhost", "evil.example"], "bad_host"),
            (one, "/", &["localhost", "localhost"], "bad_host"),
            (one, "/", &[], "bad_host"),
            (Version::HTTP_10, "/", &[], "ok"),
            (Version::HTTP_10, "/", &["evil.example"], "foreign_host"),
            // Absolute form: neither name may be foreign.
            (one, "http://localhost:8787/v1", &["localhost:8787"], "ok"),
            (one, "http://localhost:8787/v1", &["evil.example"], "foreign_host"),
            (one, "http://evil.example/v1", &["localhost"], "foreign_host"),
            (one, "http://localhost@evil.example/v1", &["localhost"], "foreign_host"),
        ];
        for (version, target, hosts, expected) in table {
            assert_eq!(
                host(&guard, *version, target, hosts),
                *expected,
                "{version:?} {target} {hosts:?}"
            );
        }
    }

    #[test]
    fn a_listener_that_others_reach_is_requested_under_any_name_or_the_configs() {
        let open = guard("0.0.0.0:8787", &[]);
        assert_eq!(host(&open, Version::HTTP_11, "/", &["proxy.example"]), "ok");
        assert_eq!(host(&open, Version::HTTP_11, "/", &["a", "b"]), "bad_host");
        let named = guard("10.0.0.5:8787", &["proxy.example"]);
        for (name, expected) in [
            ("proxy.example:8787", "ok"),
            ("10.0.0.5:8787", "ok"),
            ("localhost:8787", "ok"),
            ("evil.example", "foreign_host"),
        ] {
            assert_eq!(host(&named, Version::HTTP_11, "/", &[name]), expected, "{name}");
        }
    }

    #[test]
    fn pages_of_others_are_refused_and_agents_are_not() {
        let guard = guard("127.0.0.1:8787", &[]);
        #[rustfmt::skip]
        let table: &[(&[(&str, &str)], bool)] = &[
            (&[], true),
            (&[("sec-fetch-mode", "cors")], true), // Node's fetch
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "http://localhost:8787")], true), // a page that an upstream serves through baton
            (&[("origin", "http://localhost:3000")], true),
            (&[("origin", "app://obsidian.md"), ("sec-fetch-site", "cross-site")], true),
            (&[("origin", "https://evil.example")], false),
            (&[("origin", "http://localhost:8788")], false),
            (&[("origin", "http://127.0.0.1:8787")], false),
            (&[("origin", "null")], false),
            (&[("origin", "")], false),
            (&[("origin", "http://localhost:8787"), ("origin", "https://evil.example")], false),
        ];
        for (headers, admitted) in table {
            let headers = [&[("host", "localhost:8787")][..], headers].concat();
            let found = guard.origin(&request(Version::HTTP_11, "/v1/messages", &headers));
            assert_eq!(found.is_ok(), *admitted, "{headers:?}");
        }
        let long = "e".repeat(150_000);
        let origin = request(
            Version::HTTP_11,
            "/v1/messages",
            &[("host", "localhost:8787"), ("origin", &long)],
        );
        let host = request(Version::HTTP_11, "/v1/messages", &[("host", &long)]);
        for refused in [guard.origin(&origin), guard.host(&host)] {
            assert!(refused.unwrap_err().message().len() < 600);
        }
    }
}
