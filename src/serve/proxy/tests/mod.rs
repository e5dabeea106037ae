//! The proxy's HTTP side against scripted upstreams, over real sockets.

mod answers;
mod bodies;
mod bounds;
mod gates;
mod listener;
mod memory;
mod refusals;
mod relayed;
mod slow;
mod spilled;
mod welcome;
