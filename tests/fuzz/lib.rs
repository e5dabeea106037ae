//! What the targets call. The tests of the proxy's crate include the same files, and replay the corpora.

pub mod checks;

/// What two checks need of the proxy's crate, whose other modules compile for minutes.
#[allow(dead_code, unused_imports, unreachable_pub, unfulfilled_lint_expectations)]
#[path = "../../src/state"]
pub mod state {
    pub mod config;
    pub mod access {
        pub mod hosts;
    }
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
}
