//! The integration tests: one binary, so that a rebuild stays short.

mod golden;
