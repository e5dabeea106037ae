//! The system's time, and a clock that tests can shift, once or while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Milliseconds since the Unix epoch. A clock before 1970 makes everything new.
pub fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The time this long ago, in milliseconds since the Unix epoch.
pub fn ago_ms(age: Duration) -> u64 {
    now_ms().saturating_sub(millis(age))
}

/// The system's clock; a test may shift it. Clones share the shift.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    ahead_ms: Arc<AtomicI64>,
}

/// The longest sleep at a time: a shift is noticed by then.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// Where an id of version 7 has its milliseconds.
const ID_MS_SHIFT: u32 = 80;

impl Clock {
    /// A clock that differs from the system's by this many milliseconds.
    pub fn ahead(ahead_ms: i64) -> Self {
        Self {
            ahead_ms: Arc::new(ahead_ms.into()),
        }
    }

    /// Lets this many milliseconds pass.
    pub fn advance(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Relaxed);
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        now_ms().saturating_add_signed(self.ahead_ms.load(Relaxed))
    }

    /// Waits until this clock has that time.
    pub async fn until(&self, at_ms: u64) {
        loop {
            let left = at_ms.saturating_sub(self.now_ms());
            if left == 0 {
                return;
            }
            // A clock that was never shifted is the system's.
            let step = match self.ahead_ms.load(Relaxed) {
                0 => Duration::from_millis(left),
                _ => LONGEST_SLEEP.min(Duration::from_millis(left)),
            };
            tokio::time::sleep(step).await;
        }
    }

    /// A new id, which begins with the time.
    pub fn new_id(&self) -> Uuid {
        let ahead_ms = self.ahead_ms.load(Relaxed);
        let id = Uuid::now_v7();
        if ahead_ms == 0 {
            return id;
        }
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
