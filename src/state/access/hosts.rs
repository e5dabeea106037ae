//! Host names of requests and URLs, and the site of the page that made a request.
//!
//! A web page can make a browser send requests to a listener on this machine under the page's own host name
//! (DNS rebinding). Accepting only host names that nobody else can own prevents that.

use std::net::IpAddr;

use http::HeaderMap;

/// Returns the host of `HOST[:PORT]`, without the brackets of an IPv6 address. Returns `None` if the syntax
/// is invalid.
pub fn without_port(authority: &str) -> Option<&str> {
    match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(host)
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => is_port(port).then_some(host),
            None => Some(authority),
        },
    }
}

/// Whether a port is valid. It may be empty (RFC 3986, section 3.2.3).
fn is_port(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a host always means this machine.
///
/// That holds for loopback addresses, and for `localhost` and its subdomains, which browsers resolve
/// themselves (RFC 6761, section 6.3).
pub fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        // `::ffff:127.0.0.1` is a loopback address as well.
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => {
            let host = normal(host);
            host == "localhost" || host.ends_with(".localhost")
        }
    }
}

/// Whether a host is this machine or in a network that the public does not reach.
pub fn is_private(host: &str) -> bool {
    const PRIVATE_ENDS: [&str; 3] = [".internal", ".local", ".home.arpa"];
    let host = host.trim_matches(['[', ']']);
    // An IPv4 address may be written as an IPv6 one.
    let is_private = match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(ip)) => ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_unicast_link_local(),
        // A name without dots is resolved within this network, as for a container or a neighbor.
        Err(_) => {
            let host = normal(host);
            !host.contains('.') || PRIVATE_ENDS.iter().any(|end| host.ends_with(end))
        }
    };
    is_private || is_loopback(host)
}

/// Returns the `Sec-Fetch-Site` relation if a page of another site made the request.
///
/// Browsers send this header even with requests that carry no `Origin`.
pub fn other_site(headers: &HeaderMap) -> Option<&str> {
    let site = headers.get("sec-fetch-site")?.to_str().ok()?;
    // Pages on another port of this machine are `same-site`, and are not trusted either.
    matches!(site, "cross-site" | "same-site").then_some(site)
}

/// Whether a host is the literal form of `address`.
pub fn is_address(host: &str, address: IpAddr) -> bool {
    host.parse()
        .is_ok_and(|ip: IpAddr| ip.to_canonical() == address.to_canonical())
}

/// Normalizes a host for comparison: lower case, without the trailing dot of a fully qualified name.
pub fn normal(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_separated_from_its_port() {
        for (authority, host) in [
            ("localhost:8787", Some("localhost")),
            ("localhost", Some("localhost")),
            ("localhost:", Some("localhost")),
            ("[::1]:8787", Some("::1")),
            ("[::1]", Some("::1")),
            ("[::1", None),
            ("[::1]x", None),
            ("localhost:80@evil.example", None),
            ("", Some("")),
        ] {
            assert_eq!(without_port(authority), host, "{authority}");
        }
    }

    #[test]
    fn private_hosts_are_those_of_this_network() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("[::1]", true),
            ("10.0.0.5", true),
            ("[fd00::1]", true),
            ("::ffff:192.168.1.5", true),
            ("ollama", true),
            ("host.docker.internal", true),
            ("models.ns.svc.cluster.local.", true),
            ("api.provider.example", false),
            ("8.8.8.8", false),
            ("internal.example", false),
        ] {
            assert_eq!(is_private(host), expected, "{host}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for host in [
            "localhost",
            "LocalHost.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.nip.io",
            "xlocalhost",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
