//! The name of a process, in its traces and on its page.

use std::net::SocketAddr;

/// The machine's name and the port of the data listener: replicas differ in one of the two.
pub(crate) fn name(data: SocketAddr) -> String {
    format!("{}:{}", machine(), data.port())
}

#[cfg(unix)]
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn machine() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
