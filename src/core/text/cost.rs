//! Counts work in tests: bytes walked or copied, and comparisons. Unlike time on a shared machine, counts are the same
//! in every run. Outside of debug builds this is a no-op.

/// Sizes at which the cost per byte is compared on every change. A search that starts again inside a loop is ten times as much.
#[cfg(test)]
pub(crate) const QUICK: &[usize] = &[10_000, 100_000];

/// The same in long runs.
#[cfg(test)]
pub(crate) const LONG: &[usize] = &[10_000, 100_000, 1_000_000, 10_000_000];

/// Those sizes that take seconds and no minutes.
#[cfg(test)]
pub(crate) fn up_to_1_mb(sizes: &[usize]) -> &[usize] {
    &sizes[..sizes.len().min(3)]
}

/// Tests that take sizes: `quick` and `long`.
#[cfg(test)]
macro_rules! at_sizes {
    ($($test:ident)*) => {
        mod quick {
            $(#[test]
            fn $test() { super::$test($crate::text::cost::QUICK); })*
        }

        mod long {
            $(#[test]
            #[ignore = "takes minutes: .ci/full long"]
            fn $test() { super::$test($crate::text::cost::LONG); })*
        }
    };
}
#[cfg(test)]
pub(crate) use at_sizes;

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
