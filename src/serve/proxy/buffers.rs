//! A pool of large buffers. A fresh buffer of some megabytes costs a page fault for every four kilobytes written to it,
//! which is more than all processing of the bytes. The journal's thread drops most bodies last, and memory that another
//! thread frees is mostly returned to the system.

use std::sync::Mutex;

use bytes::Bytes;

use super::budget::Hold;
use crate::state::sync::locked;

/// Smaller buffers are left to the allocator.
const SMALLEST: usize = 64 << 10;

/// Bytes that are kept at most: some requests of a long session at once.
const KEPT: usize = 8 << 20;

/// A buffer this many times larger than a text is not used for it: the text may keep the buffer for long, and
/// the text alone counts.
const SLACK: usize = 2;

static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer for about `bytes`: of those kept, the smallest that is large enough. Of several, the one that was
/// used last is most likely still in the cache.
pub(super) fn take(bytes: usize) -> Vec<u8> {
    let mut free = locked(&FREE);
    let fits = |b: &&Vec<u8>| b.capacity() >= bytes && b.capacity() / SLACK <= bytes;
    let best = free.iter().filter(fits).map(Vec::capacity).min();
    let at = free.iter().rposition(|b| Some(b.capacity()) == best);
    at.map_or_else(Vec::new, |at| free.remove(at))
}

/// The buffer's text. The buffer comes back, and what it holds of the budget is free, when the last slice of it is gone.
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
            return; // The allocator's own, or one that would push out all others.
        }
        buffer.clear();
        let mut free = locked(&FREE);
        free.push(buffer);
        // The oldest ones go: sessions grow, and so do their requests.
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
        // No other test takes one of such a size.
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
