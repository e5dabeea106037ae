//! The clock that timestamps an exchange's records; tests can shift it.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// The system's clock; a test may shift it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    ahead_ms: i64,
}

/// Where an id of version 7 has its milliseconds.
const ID_MS_SHIFT: u32 = 80;

impl Clock {
    /// A clock that differs from the system's by so many milliseconds.
    pub fn ahead(ahead_ms: i64) -> Self {
        Self { ahead_ms }
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        now.saturating_add_signed(self.ahead_ms)
    }

    /// A new id, which begins with the time.
    pub fn new_id(self) -> Uuid {
        let id = Uuid::now_v7();
        if self.ahead_ms == 0 {
            return id;
        }
        let bits = id.as_u128();
        let at = u64::try_from(bits >> ID_MS_SHIFT).unwrap_or_default();
        let at = at.saturating_add_signed(self.ahead_ms);
        let rest = bits & ((1 << ID_MS_SHIFT) - 1);
        Uuid::from_u128(u128::from(at) << ID_MS_SHIFT | rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_late_makes_older_ids_in_order() {
        let late = Clock::ahead(-120_000);
        let now = Clock::default();
        let ids = [late.new_id(), late.new_id(), now.new_id()];
        assert!(ids.is_sorted());
        assert_eq!(ids[0].get_version_num(), 7);
        assert!(now.now_ms() - late.now_ms() >= 119_000);
    }
}
