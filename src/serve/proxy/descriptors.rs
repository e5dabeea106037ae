//! Limit of admitted exchanges by the available file descriptors.
//!
//! Each exchange takes two, one to the agent and one to upstream, and each idle connection takes one. Without
//! a free descriptor no exchange can connect.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::state::config::{Config, LimitConfig};

/// Descriptors reserved for standard streams, listeners, the runtime, databases, unnamed files, and name lookups.
const OWN: usize = 64;
/// Divisor: this share of all descriptors is reserved as well, because more load opens more of them at once.
const OWN_SHARE: usize = 16;

/// Maximum connections of the admin listener.
const ADMIN: usize = 128;
/// Divisor: share of the admin listener if descriptors are scarce.
const ADMIN_SHARE: usize = 8;

/// Divisor: share of the rest for idle connections to all upstreams together.
const IDLE_SHARE: usize = 4;

/// Share of the remaining descriptors that exchanges use for their upstreams: two fifths.
///
/// Connections of agents get the other three fifths, so that half as many as there are exchanges may be idle.
const EXCHANGES_OF: (usize, usize) = (2, 5);

/// Raises this process's soft limit to its hard limit.
///
/// Returns the resulting limit, or `None` if there is none or it is unknown.
pub fn raise() -> Option<usize> {
    /// Maximum that macOS accepts if its hard limit is unlimited (`OPEN_MAX`).
    const MAX_COMMON_LIMIT: u64 = 10_240;
    let current_limit = getrlimit(Resource::Nofile);
    // macOS refuses an unlimited soft limit, so its maximum is the second attempt.
    let tried = [current_limit.maximum, Some(MAX_COMMON_LIMIT)];
    for current in tried {
        let more = match (current_limit.current, current) {
            (None, _) => false,
            (Some(_), None) => true,
            // Only ever raise the limit. `None` stands for an unlimited one.
            (Some(now), Some(then)) => now < then && current_limit.maximum.is_none_or(|most| then <= most),
        };
        let wanted = Rlimit {
            current,
            maximum: current_limit.maximum,
        };
        if more && setrlimit(Resource::Nofile, wanted).is_ok() {
            break;
        }
    }
    let current = getrlimit(Resource::Nofile).current?;
    Some(usize::try_from(current).unwrap_or(usize::MAX))
}

/// Lowers the config's limits to those that `limit` descriptors suffice for, and logs it.
pub fn fit(config: &mut Config, limit: Option<usize>) {
    let Some(limit) = limit else { return };
    let fitting = fitting(limit, config.upstreams.len(), &config.limits);
    let wanted = &config.limits;
    if fitting.max_concurrent_requests < wanted.max_concurrent_requests {
        tracing::warn!(
            descriptors = limit,
            exchanges = fitting.max_concurrent_requests,
            wanted = wanted.max_concurrent_requests,
            connections = fitting.max_connections,
            "the system allows too few open files for limits.max_concurrent_requests; admitting fewer exchanges (to raise it: ulimit -n, LimitNOFILE=)"
        );
    } else if fitting.max_connections < wanted.max_connections {
        tracing::info!(
            descriptors = limit,
            connections = fitting.max_connections,
            wanted = wanted.max_connections,
            "the system allows too few open files for limits.max_connections; accepting fewer connections"
        );
    }
    config.limits = fitting;
}

fn fitting(descriptors: usize, upstreams: usize, wanted: &LimitConfig) -> LimitConfig {
    let own = OWN + descriptors / OWN_SHARE;
    let admin = ADMIN.min(descriptors / ADMIN_SHARE);
    let rest = descriptors.saturating_sub(own + admin);
    let idle = rest / IDLE_SHARE / upstreams.max(1);
    let upstream_idle = wanted.upstream_idle.min(idle);
    let rest = rest.saturating_sub(upstream_idle * upstreams);
    let (some, of) = EXCHANGES_OF;
    // At least one, or the proxy would serve nothing.
    let exchanges = wanted.max_concurrent_requests.min(rest * some / of).max(1);
    LimitConfig {
        max_concurrent_requests: exchanges,
        max_connections: wanted.max_connections.min(rest.saturating_sub(exchanges)).max(1),
        upstream_idle,
        ..wanted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::testing;

    #[test]
    fn everything_together_fits_into_the_limit() {
        let mut wanted = testing::config("http://127.0.0.1:9").limits;
        (
            wanted.max_concurrent_requests,
            wanted.max_connections,
            wanted.upstream_idle,
        ) = (1024, 4096, 64);
        for upstreams in [3, 40] {
            for limit in [0, 64, 128, 256, 1024, 4096, 10_240, 65_536, 1 << 20] {
                let fits = fitting(limit, upstreams, &wanted);
                let all =
                    fits.max_concurrent_requests + fits.max_connections + fits.upstream_idle * upstreams;
                let own = OWN + limit / OWN_SHARE + ADMIN.min(limit / ADMIN_SHARE);
                assert!(all + own <= limit.max(own + 2), "{limit}: {fits:?}");
                assert!(
                    fits.max_connections >= fits.max_concurrent_requests,
                    "{limit}: {fits:?}"
                );
            }
        }
        let of = |limit| {
            let fits = fitting(limit, 3, &wanted);
            (
                fits.max_concurrent_requests,
                fits.max_connections,
                fits.upstream_idle,
            )
        };
        assert_eq!(of(128), (12, 19, 3));
        assert_eq!(of(1024), (230, 346, 64));
        assert_eq!(of(4096), (1024, 2432, 64));
        assert_eq!(of(65_536), (1024, 4096, 64));
    }
}
