//! Shared memory budget of request bodies and of responses that are read whole, bounded by `limits.bodies_bytes`.
//!
//! A body grows while it is read and decoded, and waits when the bound is reached. Half-read bodies could
//! deadlock, so a part of the bound is set aside, large enough for any one body. The body that has waited
//! longest gets that part, and then never waits again. So at least one body is always read to its end, which
//! frees its memory whatever the others do.
//!
//! `min_rate` ends a slow body. A body that has waited too long is refused with a time to retry.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fault::{Code, Fault};
use crate::state::config::LimitConfig;

/// Unit of the accounting in bytes: about one read.
const UNIT: usize = 16 << 10;

/// Memory left for bodies, in units. Clones share it.
#[derive(Clone)]
pub struct Budget {
    common: Arc<Semaphore>,
    /// Semaphore with one permit, which stands for the part set aside.
    aside: Arc<Semaphore>,
    /// Maximum wait for room.
    wait: Duration,
}

/// Memory reservation of one buffer, released when dropped.
pub(crate) struct Hold {
    budget: Budget,
    common: Option<OwnedSemaphorePermit>,
    /// Permit for the part set aside. All buffers of one request share it.
    aside: Option<Arc<OwnedSemaphorePermit>>,
}

impl Budget {
    /// Creates a budget of `bodies_bytes`.
    ///
    /// Sets aside twice `body_bytes`: room for an encoded body, and as much again for its decoded text.
    pub(crate) fn new(limits: &LimitConfig) -> Self {
        let one_body = limits.body_bytes.saturating_mul(2);
        let common = limits.bodies_bytes.saturating_sub(one_body) / UNIT;
        Self {
            common: Arc::new(Semaphore::new(common.min(Semaphore::MAX_PERMITS))),
            aside: Arc::new(Semaphore::new(1)),
            wait: limits.waits.room,
        }
    }

    /// Creates an empty reservation that can grow.
    pub(super) fn hold(&self) -> Hold {
        Hold {
            budget: self.clone(),
            common: None,
            aside: None,
        }
    }
}

impl Hold {
    /// Creates an empty reservation for another buffer of the same request.
    pub(super) fn another(&self) -> Self {
        Self {
            aside: self.aside.clone(),
            ..self.budget.hold()
        }
    }

    /// Reserves at least `bytes`, waiting until they are free.
    pub(super) async fn grow_to(&mut self, bytes: usize) -> Result<(), Fault> {
        let wanted = self.missing(bytes);
        // The holder of the part set aside never waits: that part is large enough for any body.
        if wanted == 0 || self.aside.is_some() {
            return Ok(());
        }
        if let Ok(more) = self.budget.common.clone().try_acquire_many_owned(wanted) {
            self.add(more);
            return Ok(());
        }
        let (common, aside) = (self.budget.common.clone(), self.budget.aside.clone());
        // Neither semaphore is ever closed. Biased, so that the part set aside stays free while there is common room.
        tokio::select! {
            biased;
            Ok(more) = common.acquire_many_owned(wanted) => self.add(more),
            Ok(aside) = aside.acquire_owned() => self.aside = Some(Arc::new(aside)),
            () = tokio::time::sleep(self.budget.wait) => return Err(Code::BODIES_FULL.into()),
        }
        Ok(())
    }

    /// Shrinks the reservation to `bytes`, the final length of the buffer.
    ///
    /// Returns the part set aside as well if the common part has room by now.
    pub(super) fn settle(&mut self, bytes: usize) {
        // The part set aside must be free for the next body that waits, so it is exchanged for common room.
        if self.aside.is_some()
            && let Ok(more) = self
                .budget
                .common
                .clone()
                .try_acquire_many_owned(self.missing(bytes))
        {
            self.add(more);
            self.aside = None;
        }
        if let Some(common) = &mut self.common {
            let over = common.num_permits().saturating_sub(bytes.div_ceil(UNIT));
            drop(common.split(over));
        }
    }

    /// Number of units that `bytes` need beyond the reserved ones.
    fn missing(&self, bytes: usize) -> u32 {
        let reserved = self.common.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        u32::try_from(bytes.div_ceil(UNIT).saturating_sub(reserved)).unwrap_or(u32::MAX)
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.common {
            Some(reserved) => reserved.merge(more),
            None => self.common = Some(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = 4 * UNIT;

    fn budget(bytes: usize) -> Budget {
        let mut limits = LimitConfig {
            bodies_bytes: bytes,
            body_bytes: BODY,
            ..LimitConfig::default()
        };
        limits.waits.room = Duration::from_millis(20);
        Budget::new(&limits)
    }

    impl Budget {
        /// Free bytes, and whether the part set aside is free.
        pub(in crate::proxy) fn free(&self) -> (usize, bool) {
            (
                self.common.available_permits() * UNIT,
                self.aside.available_permits() == 1,
            )
        }
    }

    #[tokio::test]
    async fn what_is_reserved_is_given_back() {
        let budget = budget(20 * UNIT);
        assert_eq!(budget.free(), (12 * UNIT, true));
        let mut hold = budget.hold();
        hold.grow_to(3 * UNIT - 1).await.unwrap();
        hold.grow_to(UNIT).await.unwrap();
        assert_eq!(budget.free(), (9 * UNIT, true));
        let mut text = hold.another();
        text.grow_to(9 * UNIT).await.unwrap();
        assert_eq!(budget.free(), (0, true));
        text.settle(5);
        assert_eq!(budget.free(), (8 * UNIT, true));
        drop((hold, text));
        assert_eq!(budget.free(), (12 * UNIT, true));
    }

    #[tokio::test]
    async fn who_waits_is_served_when_something_is_given_back_or_refused() {
        let budget = budget(12 * UNIT);
        let (mut first, mut second, mut third) = (budget.hold(), budget.hold(), budget.hold());
        first.grow_to(4 * UNIT).await.unwrap();
        second.grow_to(UNIT).await.unwrap();
        assert_eq!(budget.free(), (0, false), "the second has what is set aside");
        let fault = third.grow_to(UNIT).await.unwrap_err();
        assert_eq!(
            (fault.code, fault.code.retry_after()),
            (Code::BODIES_FULL, Some(2))
        );
        let waiting = tokio::spawn(async move {
            third.grow_to(UNIT).await.unwrap();
            third
        });
        tokio::task::yield_now().await;
        drop(first);
        drop(waiting.await.unwrap());
        second.settle(UNIT);
        assert_eq!(
            budget.free(),
            (3 * UNIT, true),
            "there was room for the second, too"
        );
    }

    /// Each body holds half of its memory and waits for the rest, and one after the other gets it.
    #[tokio::test]
    async fn half_read_bodies_do_not_wait_for_each_other_for_ever() {
        let budget = budget(16 * UNIT);
        let half = 2 * UNIT;
        let mut all = Vec::new();
        for _ in 0..4 {
            let mut hold = budget.hold();
            hold.grow_to(half).await.unwrap();
            all.push(hold);
        }
        assert_eq!(budget.free().0, 0);
        let ends = all.into_iter().map(|mut hold| async move {
            hold.grow_to(BODY).await?;
            hold.another().grow_to(BODY).await
        });
        for end in futures_util::future::join_all(ends.map(tokio::spawn)).await {
            end.unwrap().unwrap();
        }
        assert_eq!(budget.free(), (8 * UNIT, true));
    }
}
