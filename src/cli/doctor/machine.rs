//! Checks of the machine: the ports of the listeners, and the clock.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::finding::Finding;
use super::installation::Installation;
use crate::cli::running;
use crate::cli::service::ServiceState;

/// Clock difference above which certificates and retention may fail.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// Checks whether the proxy is started at login.
pub(super) fn service(_: &Installation) -> Vec<Finding> {
    let subject = "at login";
    vec![match ServiceState::find() {
        ServiceState::Absent => Finding::ok(subject, "not started; `baton service install` starts it"),
        ServiceState::Active(file) => {
            Finding::ok(subject, format!("started by {}, and running", file.display()))
        }
        ServiceState::Inactive(file) => Finding::warning(
            subject,
            format!("{} is installed but not running", file.display()),
            "start it: `baton service install`; or remove it: `baton service uninstall`",
        ),
    }]
}

/// Checks whether the address of each listener is free, or in use by this proxy.
pub(super) fn ports(installation: &Installation) -> Vec<Finding> {
    let config = &installation.config;
    let rows = [
        ("server.listen", config.server.listen),
        ("admin.listen", config.admin.listen),
    ];
    rows.map(|(key, address)| port(key, address, &config.state_dir))
        .into()
}

fn port(key: &str, address: SocketAddr, state_dir: &std::path::Path) -> Finding {
    if address.port() == 0 {
        return Finding::ok(key, "a free port is picked at start");
    }
    if let Some(process) = running::serving_at(state_dir, address) {
        let pid = process.pid;
        return Finding::ok(key, format!("{address} is in use by baton (process {pid})"));
    }
    // Binding is the only reliable test. The port is released at once.
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok(key, format!("{address} is free")),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Finding::error(
            key,
            format!("{address} is in use by another program, or by a baton with another state directory"),
            format!("stop that one, or choose another address with `{key}`"),
        ),
        Err(error) => Finding::error(
            key,
            format!("failed to listen on {address}: {error}"),
            format!("choose another address with `{key}`"),
        ),
    }
}

/// Checks whether the clock agrees with the upstreams' clocks and with the journal.
pub(super) fn clock(installation: &Installation) -> Vec<Finding> {
    let offsets = installation.probes.iter().filter_map(|probe| probe.clock_offset);
    let newest = installation.journal.as_ref().ok().and_then(Option::as_ref);
    let newest = newest.and_then(|summary| Some(summary.newest.as_ref()?.at_ms));
    clock_finding(installation.now, offsets.collect(), newest)
        .into_iter()
        .collect()
}

/// Compares the clock with those of the upstreams that responded, and with the start of the newest exchange.
///
/// `None` if there is nothing to compare with.
pub(super) fn clock_finding(
    now: SystemTime,
    mut offsets: Vec<Duration>,
    newest_ms: Option<u64>,
) -> Option<Finding> {
    let subject = "system time";
    let now_ms = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let ahead = newest_ms.map_or(0, |newest| u128::from(newest).saturating_sub(now_ms));
    if ahead > SKEW.as_millis() {
        let message = format!(
            "the newest exchange in the journal is {} s in the future",
            ahead / 1000
        );
        let help = "set the clock (timedatectl set-ntp true); retention counts by it";
        return Some(Finding::warning(subject, message, help));
    }
    offsets.sort_unstable();
    // The median, because a single upstream may have a wrong clock as well.
    let offset = offsets.get(offsets.len() / 2)?.as_secs();
    Some(match offset > SKEW.as_secs() {
        true => Finding::warning(
            subject,
            format!("{offset} s off the upstreams' clocks"),
            "set the clock (timedatectl set-ntp true); TLS certificates and retention depend on it",
        ),
        false => Finding::ok(
            subject,
            format!("within {} s of the upstreams' clocks", offset + 1),
        ),
    })
}
