//! Keys for the listeners and the state directory.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::key::{KeySection, TOKEN_CHARS, key};
use crate::access::peers::AddressRange;
use crate::config::Secret;

#[rustfmt::skip]
pub(super) const SERVER: KeySection = KeySection {
    name: "server",
    keys: &[
        &key("listen", |c| &mut c.server.listen, |v, _| v.address()).restart(),
        &key("hosts", |c| &mut c.server.hosts, |v, _| v.hosts()),
        &key("origins", |c| &mut c.server.origins, |v, _| v.origins()),
        &key("trusted", |c| &mut c.server.trusted, |v, _| v.address_ranges()),
        &key("upstreams", |c| &mut c.server.upstreams, |v, _| v.texts(1)).optional(),
        &key("clients_dir", |c| &mut c.server.clients_dir, |v, e| v.path(e).map(Some)).optional(),
        &key("tls_cert", |c| &mut c.server.tls_cert, |v, e| v.file(e).map(Some)).optional(),
        &key("tls_key", |c| &mut c.server.tls_key, |v, e| v.file(e).map(Some)).optional(),
        &key("stop_delay_secs", |c| &mut c.server.stop_delay, |v, _| v.secs(0.0, 300.0)).restart(),
        &key("drain_secs", |c| &mut c.server.drain, |v, _| v.secs(0.0, 3600.0)).restart(),
    ],
};

#[rustfmt::skip]
pub(super) const ADMIN: KeySection = KeySection {
    name: "admin",
    keys: &[
        &key("listen", |c| &mut c.admin.listen, |v, _| v.address()).restart(),
        &key("token", |c| &mut c.admin.token, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional().restart(),
        &key("read_token", |c| &mut c.admin.read_token, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional().restart(),
        &key("metrics_token", |c| &mut c.admin.metrics_token, |v, e| v.secret(e, TOKEN_CHARS).map(Some)).optional().restart(),
        &key("tls_cert", |c| &mut c.admin.tls_cert, |v, e| v.file(e).map(Some)).optional().restart(),
        &key("tls_key", |c| &mut c.admin.tls_key, |v, e| v.file(e).map(Some)).optional().restart(),
    ],
};

#[rustfmt::skip]
pub(super) const STATE: KeySection = KeySection {
    name: "state",
    keys: &[
        &key("dir", |c| &mut c.state_dir, |v, e| v.path(e)).optional().restart(),
    ],
};

/// Asks the system for a free loopback port.
const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Settings of the data listener.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Bind address. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// Additional host names accepted in `Host`, in lower case and without port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the proxy: `scheme://host[:port]`, lower case.
    pub origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` names the sender.
    pub trusted: Vec<AddressRange>,
    /// Names of the upstreams that requests reach. Empty if the config does not list them.
    pub upstreams: Vec<String>,
    /// Directory with a file for each client.
    pub clients_dir: Option<PathBuf>,
    /// PEM files of the certificate chain and its key. Either both are set or neither.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// How long connections are still accepted after a stop signal.
    pub stop_delay: Duration,
    /// How long open streams may continue after a stop signal.
    pub drain: Duration,
}

impl ListenerConfig {
    /// Returns the files of the certificate chain and the key, or `None` for plain HTTP.
    pub fn tls(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }

    /// Returns the scheme of the listener's URLs.
    pub fn scheme(&self) -> &'static str {
        scheme(self.tls())
    }

    /// Whether other machines can reach the listener.
    ///
    /// They can if its address is not loopback, or if host names are configured: those are for a reverse proxy before
    /// it.
    pub fn is_shared(&self) -> bool {
        !self.listen.ip().is_loopback() || !self.hosts.is_empty()
    }
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            listen: FREE_PORT,
            hosts: Vec::new(),
            origins: Vec::new(),
            trusted: Vec::new(),
            upstreams: Vec::new(),
            clients_dir: None,
            tls_cert: None,
            tls_key: None,
            stop_delay: Duration::ZERO,
            drain: Duration::ZERO,
        }
    }
}

/// Settings of the admin listener.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Bind address. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// Token that permits every request. Required unless the address is loopback.
    pub token: Option<Secret>,
    /// Token that permits reading everything, but no changes.
    pub read_token: Option<Secret>,
    /// Token that permits only reading the metrics.
    pub metrics_token: Option<Secret>,
    /// PEM files of the certificate chain and its key. Either both are set or neither.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

impl Admin {
    /// Returns the files of the certificate chain and the key, or `None` for plain HTTP.
    pub fn tls(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }

    /// Returns the scheme of the listener's URLs.
    pub fn scheme(&self) -> &'static str {
        scheme(self.tls())
    }

    /// Returns the tokens, each with its key in the config.
    pub fn tokens(&self) -> impl Iterator<Item = (&'static str, &Secret)> {
        let all = [
            ("admin.token", &self.token),
            ("admin.read_token", &self.read_token),
            ("admin.metrics_token", &self.metrics_token),
        ];
        all.into_iter()
            .filter_map(|(key, token)| Some((key, token.as_ref()?)))
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: FREE_PORT,
            token: None,
            read_token: None,
            metrics_token: None,
            tls_cert: None,
            tls_key: None,
        }
    }
}

fn scheme(tls: Option<(&Path, &Path)>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}
