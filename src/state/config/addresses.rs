//! Readers for addresses: listen addresses, URLs of other servers, and accepted host names and origins.

use std::net::SocketAddr;

use super::StoreAddress;
use super::raw::{Environment, LocatedValue, Raw};
use super::value::{ValueResult, value_error};
use crate::access::hosts::normal;
use crate::access::peers::AddressRange;

impl LocatedValue {
    /// Reads `HOST:PORT`. The host is an IP address or `localhost`.
    pub(super) fn address(&self) -> ValueResult<SocketAddr> {
        let text = self.text()?;
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.clone(),
        };
        let Ok(address) = numeric.parse() else {
            let help = match text.trim_start_matches(':').parse::<u16>() {
                Ok(port) => format!("write the address too: \"127.0.0.1:{port}\""),
                Err(_) => {
                    "write an IP address and a port, such as \"127.0.0.1:8787\" or \"[::1]:8787\"".into()
                }
            };
            return value_error(format!("{text:?} is not an address to listen on"), help);
        };
        Ok(address)
    }

    /// Reads an http or https URL without credentials, query or fragment. A trailing slash is removed.
    pub(super) fn base_url(&self) -> ValueResult<String> {
        let help =
            "write scheme and host, such as \"https://api.example.com\", with a path prefix if there is one";
        let text = self.text()?;
        let text = text.trim();
        // Checked before any message quotes the URL: one with an `@` may hold a password.
        if text.contains('@') {
            let help = "remove them; use `api_key` or `headers`";
            return value_error("the URL contains credentials", help);
        }
        if text.contains(['?', '#']) {
            return value_error("the URL has a query or a fragment", help);
        }
        let parsed = text.parse::<http::Uri>().ok();
        let usable = parsed.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if usable {
            Ok(text.trim_end_matches('/').to_owned())
        } else {
            value_error(format!("{text:?} is not an http or https URL"), help)
        }
    }

    /// Reads the base URL of an OTLP collector. An empty value means no collector.
    pub(super) fn collector(&self) -> ValueResult<Option<String>> {
        // An empty value is how a variable or a later layer turns tracing off again.
        if let Raw::Text(text) | Raw::Word(text) = &self.raw
            && text.trim().is_empty()
        {
            return Ok(None);
        }
        if self.text()?.contains('@') {
            let help = "remove them; set the variable OTEL_EXPORTER_OTLP_HEADERS";
            return value_error("the URL contains credentials", help);
        }
        let url = self.base_url()?;
        // The exporter appends this path itself.
        Ok(Some(url.strip_suffix("/v1/traces").unwrap_or(&url).to_owned()))
    }

    /// Reads the URL of a store server. The URL may hold a password, which error messages never show.
    pub(super) fn store_address(&self, env: &Environment) -> ValueResult<StoreAddress> {
        let url = self.secret(env, 1)?;
        StoreAddress::parse(url.reveal()).or_else(|why| {
            let help = "write redis://[USER:PASSWORD@]HOST:PORT, redis-sentinel://HOST,HOST/NAME or redis-cluster://HOST,HOST; \
                        with TLS rediss…";
            value_error(why, help)
        })
    }

    /// Reads addresses and ranges of addresses.
    pub(super) fn address_ranges(&self) -> ValueResult<Vec<AddressRange>> {
        self.strings("write [\"10.0.0.0/8\"]", |text| {
            text.trim().parse().or_else(|()| {
                let help = "write an address, or a range such as \"10.0.0.0/8\"";
                value_error(format!("{text:?} is not a range of addresses"), help)
            })
        })
    }

    /// Reads names, each by `read`, which is [`host`] or [`origin`].
    pub(super) fn names(&self, read: fn(&str) -> ValueResult<String>) -> ValueResult<Vec<String>> {
        self.strings("write [\"one\", \"two\"]", |text| read(text.trim()))
    }
}

/// Reads a host name or address, normalized for comparison: lower case, without port.
pub(super) fn host(text: &str) -> ValueResult<String> {
    let inside = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let bare = inside.unwrap_or(text);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if bare.parse::<std::net::IpAddr>().is_ok() || bare.chars().all(legal) {
        return Ok(normal(bare));
    }
    value_error(
        format!("{text:?} is not a host name"),
        "write only the name, without scheme, port and path, such as \"host.docker.internal\"",
    )
}

/// Reads a web origin as browsers send it (RFC 6454, section 6.2), in lower case.
pub(super) fn origin(text: &str) -> ValueResult<String> {
    let help = "write scheme, host and port as the browser does, such as \"http://localhost:3000\" or \"app://obsidian.md\"";
    let text = text.strip_suffix('/').unwrap_or(text);
    match text.split_once("://") {
        Some((scheme, host))
            if !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '@', '*', ' ']) =>
        {
            Ok(text.to_ascii_lowercase())
        }
        _ => value_error(format!("{text:?} is not the origin of a web page"), help),
    }
}
