//! The integration tests: one binary, so that a rebuild stays short.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod golden;
mod purity;
mod sdk;
