//! Limits the bytes that each client of a shared proxy writes to the store, so that no client fills the disk.

use std::collections::HashMap;
use std::sync::Mutex;

use super::{LiveConversation, Sessions};
use crate::store::records::StoredRecord;
use crate::store::{StoreError, StoreResult};
use crate::sync::locked;
use baton_core::record::{LOCAL, Principal};

/// Bytes of a new conversation.
const CONVERSATION: u64 = 1 << 10;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Bytes written by each principal on one day, in UTC.
///
/// A restart begins anew: clients cannot cause one.
pub(super) struct WrittenBytes {
    limit: u64,
    today: Mutex<(u64, HashMap<Principal, u64>)>,
}

impl WrittenBytes {
    pub(super) fn up_to(limit: u64) -> Self {
        Self {
            limit,
            today: Mutex::default(),
        }
    }

    /// Adds these records, and a new conversation if `is_new`, to those of a principal.
    ///
    /// Not limited are the only user of a proxy, and a change of a known conversation, since its next request depends on
    /// it.
    ///
    /// # Errors
    /// Returns an error if they exceed the limit. Then they do not count.
    pub(super) fn add(
        &self,
        principal: &str,
        records: &[StoredRecord],
        is_new: bool,
        now_ms: u64,
    ) -> StoreResult<()> {
        let conversation = if is_new { CONVERSATION } else { 0 };
        let bytes = conversation + records.iter().map(StoredRecord::text_bytes).sum::<u64>();
        if bytes == 0 || principal == LOCAL {
            return Ok(());
        }
        let mut today = locked(&self.today);
        let day = now_ms / DAY_MS;
        if today.0 != day {
            *today = (day, HashMap::new());
        }
        let written = today.1.entry(principal.to_owned()).or_default();
        if *written + bytes > self.limit {
            let limit = self.limit;
            return Err(StoreError::new(format!(
                "client {principal} has written {limit} bytes today (limits.client_bytes_per_day)"
            )));
        }
        *written += bytes;
        Ok(())
    }
}

impl Sessions {
    /// Limits the bytes of records that each client writes in a day.
    #[must_use]
    pub fn limiting_writes(mut self, daily_bytes: u64) -> Self {
        self.written = WrittenBytes::up_to(daily_bytes);
        self
    }

    /// Counts records that a conversation's principal is about to write.
    pub(super) fn admit(
        &self,
        live: &LiveConversation,
        records: &[StoredRecord],
        now_ms: u64,
    ) -> StoreResult<()> {
        let is_new = live.version() == 0;
        self.written.add(live.principal(), records, is_new, now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::records::ResponseId;

    #[test]
    fn each_principal_has_its_bytes_of_each_day() {
        let written = WrittenBytes::up_to(2500);
        let record = ResponseId {
            principal: "ada".to_owned(),
            shown: "a".repeat(900),
            upstream: "b".repeat(100),
            chain: None,
        };
        let records = [StoredRecord::ResponseId { record, used_ms: 0 }];
        let add = |who: &str, at_ms| written.add(who, &records, false, at_ms).is_ok();
        assert_eq!([add("ada", 1), add("ada", 2), add("ada", 3)], [true, true, false]);
        assert!(add("bob", 4), "another client");
        assert!(
            written.add("ada", &[], false, 5).is_ok(),
            "a change of a known conversation"
        );
        assert!(written.add("ada", &[], true, 5).is_err(), "a new conversation");
        assert!(add("ada", DAY_MS), "the next day");
        assert!((0..9).all(|at_ms| add(LOCAL, at_ms)), "the only user");
    }
}
