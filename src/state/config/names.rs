//! Readers for host names and web origins that the data listener accepts.

use super::raw::LocatedValue;
use super::value::{ValueResult, collect, value_error};
use crate::state::access::hosts::normal;

impl LocatedValue {
    /// Host names or addresses, normalised for comparison: lower case, without port.
    pub(super) fn hosts(&self) -> ValueResult<Vec<String>> {
        self.names(host)
    }

    /// Web origins as browsers send them (RFC 6454, section 6.2), in lower case.
    pub(super) fn origins(&self) -> ValueResult<Vec<String>> {
        self.names(origin)
    }

    fn names(&self, read: fn(&str) -> ValueResult<String>) -> ValueResult<Vec<String>> {
        let items = self.list("texts", "write [\"one\", \"two\"]")?;
        collect(
            items
                .iter()
                .map(|item| (&item.origin, item.text().and_then(|text| read(text.trim())))),
        )
    }
}

fn host(text: &str) -> ValueResult<String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if bare.parse::<std::net::IpAddr>().is_ok() || bare.chars().all(legal) {
        return Ok(normal(bare));
    }
    value_error(
        format!("{text:?} is not a host name"),
        "write the name alone, without scheme, port and path, such as \"host.docker.internal\"",
    )
}

fn origin(text: &str) -> ValueResult<String> {
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
