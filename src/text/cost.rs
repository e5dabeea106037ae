//! Counts work in tests: bytes walked or copied, and comparisons. Counts are the same in every run, which time on a
//! shared machine is not. Outside of tests this is a no-op.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds to this thread's count.
#[inline(always)]
pub(crate) fn add(_steps: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + _steps as u64);
}

/// The steps that `work` takes on this thread.
#[cfg(test)]
pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = STEPS.get();
    let done = work();
    (STEPS.get() - before, done)
}
