//! What the targets call. The tests of the proxy's crates include the same files, and replay the corpora.

pub mod checks;

// What two checks need of the crate of the state, whose other modules compile for minutes.
#[allow(dead_code, unused_imports, unreachable_pub, unfulfilled_lint_expectations)]
#[path = "../../src/state/config/mod.rs"]
pub mod config;
#[path = "../../src/state/access"]
pub mod access {
    pub mod hosts;
}
#[allow(dead_code, unused_imports, unreachable_pub, unfulfilled_lint_expectations)]
#[path = "../../src/state/store"]
pub mod store {
    mod error;
    pub mod records;

    pub use error::{StoreError, StoreResult};
    use error::foreign_record;

    pub mod redis {
        mod answers;
        #[path = "../../../../tests/fuzz/checks/resp.rs"]
        pub mod fuzzed;
        mod kinds;
        mod settings;
    }
}

/// As the proxy's crate calls them.
pub mod state {
    pub use crate::config;
}
