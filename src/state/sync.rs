//! Locks that survive a panic.
//!
//! The data that they protect is valid after each single change, and one panic must not end other requests.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::plan::RefusedModels;

/// Locks even if the mutex is poisoned.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of names, since nothing else bounds the names that agents send.
const MAX_NAMES: usize = 64;

/// Names that are logged only once each.
#[derive(Debug, Default)]
pub struct OnceLog(Mutex<BTreeSet<String>>);

impl OnceLog {
    /// Creates an empty log.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Whether this name occurs for the first time.
    pub fn is_first(&self, name: &str) -> bool {
        let mut logged = locked(&self.0);
        logged.len() < MAX_NAMES && logged.insert(name.to_owned())
    }

    /// Forgets a name, so that it counts as new again.
    pub fn forget(&self, name: &str) {
        locked(&self.0).remove(name);
    }
}

impl RefusedModels for OnceLog {
    fn has(&self, name: &str) -> bool {
        locked(&self.0).contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_first_once_and_names_are_bounded() {
        let log = OnceLog::new();
        assert!(!log.has("m") && log.is_first("m") && !log.is_first("m") && log.has("m"));
        let first = (0..2 * MAX_NAMES)
            .filter(|n| log.is_first(&n.to_string()))
            .count();
        assert_eq!(first, MAX_NAMES - 1);
    }
}
