//! The rim against scripted upstreams, over real sockets.

mod bodies;
mod gates;
mod listener;
mod refusals;
mod relayed;
mod shelved;
