//! Admission of a request before its body is read.
//!
//! Checks the sender's key, the host name, the origin, headers for baton, the upstream and free capacity.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::{Code, Fault};
use super::guard::OriginGuard;
use super::route::{self, Route};
use super::upstream::{Upstream, Upstreams};
use super::{declared, reach, target};
use crate::state::access::clients::{AuthenticatedClient, Keyring};
use crate::state::access::peers::WrongKeys;
use crate::state::config::{ClientKey, Config};

/// Checks that every request must pass.
pub(super) struct Admission {
    clients: ArcSwap<Keyring>,
    pub(super) guard: OriginGuard,
    /// One permit per concurrent exchange.
    pub(super) exchanges: Arc<Semaphore>,
    /// Wrong keys by address.
    pub(super) wrong_keys: Arc<WrongKeys>,
    /// Number of requests that wait for a permit.
    pub(super) waiting: Arc<AtomicUsize>,
}

/// Counts a waiting request until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// An admitted request.
pub(super) struct Admitted {
    pub(super) client: AuthenticatedClient,
    pub(super) upstream: Arc<Upstream>,
    /// Route whose target holds no client key, and no credential if the upstream has a configured key.
    pub(super) route: Route,
}

impl Admission {
    pub(super) fn new(config: &Config) -> Self {
        // `Semaphore::new` panics above `MAX_PERMITS`.
        let places = config.limits.max_concurrent_requests.min(Semaphore::MAX_PERMITS);
        Self {
            clients: ArcSwap::from_pointee(Keyring::new(config.client_digests(), config.server.is_shared())),
            guard: OriginGuard::new(&config.server),
            exchanges: Arc::new(Semaphore::new(places)),
            waiting: Arc::default(),
            wrong_keys: Arc::default(),
        }
    }

    /// Creates the admission for another config. It shares the permits, so running exchanges stay counted.
    pub(super) fn reloaded(&self, config: &Config) -> Self {
        Self {
            exchanges: Arc::clone(&self.exchanges),
            waiting: Arc::clone(&self.waiting),
            wrong_keys: Arc::clone(&self.wrong_keys),
            ..Self::new(config)
        }
    }

    /// Refuses from now on the clients that are not `present`. Returns their names.
    pub(super) fn revoke(&self, present: &[ClientKey]) -> Vec<String> {
        let digest = |client: &ClientKey| Some((client.digest()?, client.name.clone()));
        let mut clients = Keyring::clone(&self.clients.load());
        let removed = clients.retain(&present.iter().filter_map(digest).collect());
        if !removed.is_empty() {
            self.clients.store(Arc::new(clients));
        }
        removed
    }

    /// Acquires an exchange permit, waiting for a free one if necessary.
    ///
    /// # Errors
    /// No permit became free in time.
    pub(super) async fn place(&self, within: Duration) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = Arc::clone(&self.exchanges).try_acquire_owned() {
            return Ok(place);
        }
        self.waiting.fetch_add(1, Relaxed);
        let _waiting = Waiting(&self.waiting);
        // Boxed: almost no request waits, but the wait would enlarge the future of all of them.
        let place = Box::pin(Arc::clone(&self.exchanges).acquire_owned());
        let place = tokio::time::timeout(within, place).await;
        place.ok().and_then(Result::ok).ok_or(Code::OVERLOADED.into())
    }

    /// Admits or refuses a request.
    ///
    /// # Errors
    /// The fault names the reason for the refusal.
    pub(super) fn admit(
        &self,
        upstreams: &Upstreams,
        parts: &Parts,
        mut route: Route,
    ) -> Result<Admitted, Fault> {
        // First: refusals for other reasons are recorded, and whoever has no key must not fill the journal with them.
        let client = self.clients.load().admit(&parts.headers, parts.uri.query());
        let client = client.ok_or(Code::CLIENT_KEY)?;
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            return Err(Code::METHOD.into());
        }
        self.guard.host(parts)?;
        self.guard.origin(parts)?;
        if let Some(fault) = target::fault(parts.uri.path()) {
            return Err(Fault::because(Code::BAD_TARGET, fault));
        }
        let Some(target) = client.target_without(std::mem::take(&mut route.target)) else {
            return Err(Fault::because(Code::BAD_TARGET, "the client's key is in it"));
        };
        route.target = target;
        if wants_websocket(&parts.headers) {
            return Err(Code::UPGRADE.into());
        }
        declared::refuse_unknown(&parts.headers)?;
        let upstream = upstreams.get(&route.upstream).ok_or(Code::UNKNOWN_UPSTREAM)?;
        let is_local = |value: &HeaderValue| client.is_in_header(value.as_bytes());
        if let Some(why) = route.misdirection(&upstream.config, &parts.headers, is_local) {
            return Err(Fault::because(Code::OTHER_VENDOR, why));
        }
        reach::check(parts, &route, upstream)?;
        // The configured key replaces the agent's credentials. Those in headers are filtered when the request
        // is sent.
        if upstream.config.api_key.is_some() {
            route.target = route::without_credentials(route.target);
        }
        Ok(Admitted {
            client,
            upstream: upstream.clone(),
            route,
        })
    }
}

/// Whether a request offers WebSocket among the protocols of its `Upgrade` lines.
///
/// Each line is a list whose entries are a name and perhaps a version (RFC 9110, section 7.8).
fn wants_websocket(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::UPGRADE).iter();
    let mut protocols = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    protocols.any(|protocol| {
        let name = protocol.split(|&byte| byte == b'/').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"websocket")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websocket_is_found_in_every_list_of_protocols() {
        for (lines, expected) in [
            (&["websocket"][..], true),
            (&["WebSocket"], true),
            (&["h2c, websocket"], true),
            (&["websocket,h2c"], true),
            (&["h2c", "foo/2 ,\twebsocket "], true),
            (&["websocket/13"], true),
            (&["h2c"], false),
            (&["h2c, TLS/1.0"], false),
            (&["websockets"], false),
            (&["not websocket"], false),
            (&[""], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::UPGRADE, http::HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(wants_websocket(&headers), expected, "{lines:?}");
        }
    }
}
