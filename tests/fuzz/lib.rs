//! What the targets call. The tests of the proxy's crates include the same files, and replay the corpora.

pub mod checks;

/// As the proxy's crate calls it.
pub mod state {
    pub use baton_state::config;
}
