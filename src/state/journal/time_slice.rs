//! Time slices for background work: after each one the thread yields to the threads that serve streams.

use std::thread;
use std::time::{Duration, Instant};

/// Work between two yields: the longest that a stream on the same core waits, except for a step that cannot be divided.
const SLICE: Duration = Duration::from_micros(100);

/// Bytes processed between two clock reads: some microseconds if they are hashed, at most a slice if they are searched for
/// credentials.
const LOOK_AFTER: usize = 16 << 10;

/// The fixed cost of a step.
const STEP: usize = 256;

pub(super) struct TimeSlice {
    began: Instant,
    bytes: usize,
}

impl TimeSlice {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            bytes: 0,
        }
    }

    /// Begins a slice: the thread has just been woken.
    pub(super) fn begin(&mut self) {
        *self = Self::new();
    }

    /// Call this after each small step, with the bytes that it processed.
    pub(super) fn step(&mut self, bytes: usize) {
        self.bytes += bytes + STEP;
        if self.bytes > LOOK_AFTER {
            self.look();
        }
    }

    /// Looks at the clock.
    pub(super) fn look(&mut self) {
        self.bytes = 0;
        if self.began.elapsed() > SLICE {
            thread::yield_now();
            self.began = Instant::now();
        }
    }
}
