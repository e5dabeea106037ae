//! The system time, and a clock that tests can shift once or while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Returns the system time in milliseconds since the Unix epoch.
///
/// A system clock before 1970 counts as 0, so that no record looks old enough to be deleted.
pub fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Converts a duration to whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time `age` ago, in milliseconds since the Unix epoch.
pub fn ago_ms(age: Duration) -> u64 {
    now_ms().saturating_sub(millis(age))
}

/// The system clock, which a test may shift. Clones share the shift.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    ahead_ms: Arc<AtomicI64>,
}

/// Bits below the millisecond timestamp of a version 7 UUID (RFC 9562, section 5.7).
const ID_MS_SHIFT: u32 = 80;

impl Clock {
    /// Creates a clock that differs from the system clock by this many milliseconds. Positive values are in
    /// the future.
    pub fn ahead(ahead_ms: i64) -> Self {
        Self {
            ahead_ms: Arc::new(ahead_ms.into()),
        }
    }

    /// Advances the clock by this many milliseconds.
    pub fn advance(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Relaxed);
    }

    /// Returns this clock's time, including its shift, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.ahead_ms.load(Relaxed))
    }

    /// Returns a new version 7 id, which begins with this clock's time.
    pub fn new_id(&self) -> Uuid {
        let ahead_ms = self.ahead_ms.load(Relaxed);
        let id = Uuid::now_v7();
        if ahead_ms == 0 {
            return id;
        }
        // Only the timestamp is shifted. The counter and random bits keep ids of the same millisecond ordered
        // and unique.
        let bits = id.as_u128();
        let at = u64::try_from(bits >> ID_MS_SHIFT).unwrap_or_default();
        let at = at.saturating_add_signed(ahead_ms);
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
