//! Counts work in tests: bytes walked or copied, and comparisons. Unlike time on a shared machine, counts are the same
//! in every run. Outside of debug builds this is a no-op.

#[cfg(any(test, debug_assertions))]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds to this thread's count.
#[inline(always)]
pub fn add(_steps: usize) {
    #[cfg(any(test, debug_assertions))]
    STEPS.set(STEPS.get() + _steps as u64);
}

/// The steps that `work` takes on this thread.
#[cfg(any(test, debug_assertions))]
pub fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = STEPS.get();
    let done = work();
    (STEPS.get() - before, done)
}
