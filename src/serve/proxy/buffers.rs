//! Pool of large buffers.
//!
//! A fresh buffer of some megabytes costs a page fault for every four kilobytes written to it, which is more
//! than all processing of the bytes. The allocator would not keep them: the journal's thread is usually
//! the last owner of a body, and memory that another thread frees mostly returns to the system.

use std::sync::Mutex;

use bytes::Bytes;

use super::budget::Hold;
use crate::state::sync::locked;

/// Minimum capacity of a pooled buffer. Smaller ones are left to the allocator.
const SMALLEST: usize = 64 << 10;

/// Maximum bytes in the pool: some requests of a long session at once.
const KEPT: usize = 8 << 20;

/// Maximum ratio between a buffer's capacity and the requested size.
///
/// A body may hold its buffer for long, and only the body's length counts against the budget.
const SLACK: usize = 2;

static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Takes an empty buffer for about `bytes` from the pool, or creates one.
///
/// Prefers the smallest that is large enough. Among equals, the one used last is most likely still in the cache.
pub(super) fn take(bytes: usize) -> Vec<u8> {
    let mut free = locked(&FREE);
    let fits = |b: &&Vec<u8>| b.capacity() >= bytes && b.capacity() / SLACK <= bytes;
    let best = free.iter().filter(fits).map(Vec::capacity).min();
    let at = free.iter().rposition(|b| Some(b.capacity()) == best);
    at.map_or_else(Vec::new, |at| free.remove(at))
}

/// Wraps a filled buffer. The last slice returns it to the pool and releases `hold` when dropped.
pub(super) fn share(text: Vec<u8>, hold: Hold) -> Bytes {
    Bytes::from_owner(PooledBuffer(text, hold))
}

struct PooledBuffer(
    Vec<u8>,
    #[expect(dead_code, reason = "held until it is dropped")] Hold,
);

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        if buffer.capacity() < SMALLEST || buffer.capacity() > KEPT {
            return; // Too small to be worth keeping, or so large that it would push out all others.
        }
        buffer.clear();
        let mut free = locked(&FREE);
        free.push(buffer);
        // The oldest buffers go first: sessions grow, and so do their requests.
        while free.iter().map(Vec::capacity).sum::<usize>() > KEPT {
            free.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::budget::Budget;
    use crate::state::config::LimitConfig;

    #[test]
    fn a_buffer_comes_back_when_its_last_slice_is_gone() {
        // A size that no other test takes.
        let size = 7_340_032;
        let mut buffer = Vec::with_capacity(size);
        buffer.extend_from_slice(b"text");
        let at = buffer.as_ptr();
        let limits = LimitConfig {
            bodies_bytes: 1 << 20,
            ..LimitConfig::default()
        };
        let slice = share(buffer, Budget::new(&limits).hold()).slice(1..3);
        assert_eq!(slice, "ex");
        assert_eq!(take(size).capacity(), 0, "still held");
        drop(slice);
        assert_eq!(take(size / SLACK - 1).capacity(), 0, "too large for that");
        let again = take(size - 7);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
        assert_eq!(take(size).capacity(), 0, "taken");
    }
}
