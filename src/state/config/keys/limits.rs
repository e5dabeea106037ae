//! Limits.

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
        &key("max_concurrent_requests", |c| &mut c.limits.max_concurrent_requests, |v, _| v.count(1, 1_000_000)).restart(),
        &key("max_connections", |c| &mut c.limits.max_connections, |v, _| v.count(1, 1_000_000)).restart(),
    ],
};

/// Idle connections kept for each upstream: the usual number of agents working at the same time.
pub(super) const UPSTREAM_IDLE: usize = 64;

/// Limits; `config/baton.toml` gives the reason of each.
#[derive(Debug, Clone, Default)]
pub struct LimitConfig {
    /// Maximum bytes of a decompressed request body.
    pub body_bytes: usize,
    /// Maximum bytes of all request bodies in memory (compressed and decompressed) and of answers that are buffered.
    pub bodies_bytes: usize,
    /// Minimum bytes per second of a request body; 0: any progress at all.
    pub body_rate: usize,
    /// Maximum bytes of a header block.
    pub header_bytes: usize,
    /// Maximum bytes of one stream event.
    pub frame_bytes: usize,
    /// Maximum bytes of a hidden call's arguments.
    pub tool_arguments_bytes: usize,
    /// Maximum bytes of request bodies kept in memory while responses stream; more are spilled to disk.
    pub request_buffer_bytes: usize,
    /// Maximum bytes cached in front of the databases: half of it prompts, a quarter conversations, a quarter the journal's hashes.
    pub cache_bytes: usize,
    /// Maximum concurrent exchanges.
    pub max_concurrent_requests: usize,
    /// Maximum concurrent connections of agents.
    pub max_connections: usize,
    /// Maximum idle connections kept for each upstream. Not a key: a constant, lowered where file descriptors are few.
    pub upstream_idle: usize,
    /// Waits for agents that no key sets.
    pub waits: AgentWaits,
}

/// How long the listener waits for agents.
#[derive(Debug, Clone, Copy)]
pub struct AgentWaits {
    /// Time in which a request gets a place among `max_concurrent_requests`. It is held for as long as agents wait for a slow provider: one that is
    /// refused comes again at once.
    pub place: Duration,
    /// Time in which a body gets room under `bodies_bytes`: agents wait for minutes, but one that is refused can say so.
    pub room: Duration,
    /// Time over which the rate of a body is measured, so that a short gap does not count.
    pub rate_window: Duration,
    /// How long after an answer's end was handed to its connection the agent counts as having read it. Until then the same
    /// request is a repeated one: agents retry within seconds. Zero: at once.
    pub unread: Duration,
    /// An agent that reads nothing of its response for this long is given up; without a bound it would hold its permit for
    /// ever. A user may have suspended it for a while.
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
