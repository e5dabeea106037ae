//! The name of a process, in its traces and on its page.

use std::net::SocketAddr;

/// The machine's name and the port of the data listener: replicas differ in one of the two.
pub fn name(data: SocketAddr) -> String {
    let machine = rustix::system::uname();
    format!("{}:{}", machine.nodename().to_string_lossy(), data.port())
}
