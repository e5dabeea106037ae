//! The rim against scripted upstreams, over real sockets.

mod bodies;
mod listener;
mod refusals;
mod relayed;
mod shelved;
