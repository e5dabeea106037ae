//! The proxy's HTTP side against scripted upstreams, over real sockets.

/// Compresses bytes by this encoder.
macro_rules! packed {
    ($encoder:ident, $text:expr) => {{
        let mut encoder = $encoder::new(Vec::new());
        encoder.write_all($text).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    }};
}

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
mod stated;
mod welcome;
