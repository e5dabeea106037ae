//! Keys for limits.

use std::time::Duration;

use super::key::{KeySection, key};

#[rustfmt::skip]
pub(super) const LIMITS: KeySection = KeySection {
    name: "limits",
    keys: &[
        &key("body_bytes", |c| &mut c.limits.body_bytes, |v, _| v.count(1 << 10, 1 << 30)),
        &key("bodies_bytes", |c| &mut c.limits.bodies_bytes, |v, _| v.count(1 << 10, 1 << 40)).restart(),
        &key("body_rate", |c| &mut c.limits.body_rate, |v, _| v.count(0, 1 << 20)),
        &key("header_bytes", |c| &mut c.limits.header_bytes, |v, _| v.count(8 << 10, 1 << 20)),
        &key("frame_bytes", |c| &mut c.limits.frame_bytes, |v, _| v.count(64 << 10, 256 << 20)),
        &key("tool_arguments_bytes", |c| &mut c.limits.tool_arguments_bytes, |v, _| v.count(4 << 10, 64 << 20)),
        &key("request_buffer_bytes", |c| &mut c.limits.request_buffer_bytes, |v, _| v.count(0, 1 << 40)).restart(),
        &key("cache_bytes", |c| &mut c.limits.cache_bytes, |v, _| v.count(1 << 20, 1 << 40)).restart(),
        &key("client_bytes_per_day", |c| &mut c.limits.client_bytes_per_day, |v, _| v.count(1 << 20, 1 << 40)).restart(),
        &key("max_concurrent_requests", |c| &mut c.limits.max_concurrent_requests, |v, _| v.count(1, 1_000_000)).restart(),
        &key("max_connections", |c| &mut c.limits.max_connections, |v, _| v.count(1, 1_000_000)).restart(),
    ],
};

/// Maximum idle connections kept for each upstream: the usual number of agents working at the same time.
pub(super) const UPSTREAM_IDLE: usize = 64;

/// Limits. `config/baton.toml` gives the reason for each.
#[derive(Debug, Clone, Default)]
pub struct LimitConfig {
    /// Maximum bytes of a decompressed request body.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory (compressed and decompressed) and of buffered responses.
    pub bodies_bytes: usize,
    /// Minimum bytes per second of a request body. 0 accepts any progress.
    pub body_rate: usize,
    /// Maximum bytes of a header block.
    pub header_bytes: usize,
    /// Maximum bytes of one stream event.
    pub frame_bytes: usize,
    /// Maximum bytes of a hidden call's arguments.
    pub tool_arguments_bytes: usize,
    /// Maximum bytes of request bodies kept in memory while responses stream. Further bodies are spilled to
    /// disk.
    pub request_buffer_bytes: usize,
    /// Maximum bytes cached for the databases.
    ///
    /// Half is for prompts, a quarter for conversations, and a quarter for the journal's hashes.
    pub cache_bytes: usize,
    /// Maximum bytes of records that a client of a shared proxy writes to the store in a day.
    pub client_bytes_per_day: u64,
    /// Maximum concurrent exchanges.
    pub max_concurrent_requests: usize,
    /// Maximum concurrent connections of agents.
    pub max_connections: usize,
    /// Maximum idle connections kept for each upstream. Not a key: a constant, lowered if file descriptors
    /// are scarce.
    pub upstream_idle: usize,
    /// Timeouts toward agents, which no key sets.
    pub waits: AgentWaits,
}

/// Timeouts toward agents.
#[derive(Debug, Clone, Copy)]
pub struct AgentWaits {
    /// Maximum wait for a concurrency slot under `max_concurrent_requests`.
    ///
    /// It is as long as agents wait for a slow provider, because a refused agent would retry at once.
    pub place: Duration,
    /// Maximum wait for body memory under `bodies_bytes`.
    ///
    /// Agents would wait for minutes, but a refusal tells them the reason.
    pub room: Duration,
    /// Window over which a body's rate is measured, so that a short gap does not count.
    pub rate_window: Duration,
    /// Time between handing a response's last bytes to the connection and treating the response as read.
    ///
    /// An identical request within this time counts as a repeat, since agents retry within seconds. Zero
    /// treats every response as read at once.
    pub unread: Duration,
    /// Maximum time that an agent may read nothing of its response.
    ///
    /// Without it a stalled agent would hold its permit for ever. It is long because a user may have
    /// suspended the agent for a while.
    pub stalled: Duration,
}

impl Default for AgentWaits {
    fn default() -> Self {
        Self {
            place: Duration::from_secs(60),
            room: Duration::from_secs(10),
            rate_window: Duration::from_secs(30),
            unread: Duration::from_secs(10),
            stalled: Duration::from_secs(600),
        }
    }
}
