//! The name of this process, in its traces and on its page.

use std::net::SocketAddr;

/// Returns the machine's name and the port of the data listener. Replicas differ in at least one of them.
pub fn name(data: SocketAddr) -> String {
    let machine = rustix::system::uname();
    format!("{}:{}", machine.nodename().to_string_lossy(), data.port())
}
