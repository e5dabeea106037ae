//! Counts the work that a request makes, in tests: bytes that are walked or copied, and things that are compared. Time
//! on a shared machine tells nothing; the count is the same in every run. Outside of tests there is nothing to it.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds to the count.
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
