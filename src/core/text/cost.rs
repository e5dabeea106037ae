//! Counts work in tests: bytes walked or copied, and comparisons.
//!
//! Unlike time on a shared machine, counts are equal in every run. In release builds this is a no-op.

#[cfg(test)]
pub(crate) use self::sizes::{LONG, QUICK, assert_linear, at_sizes, up_to_1_mb};

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

/// Counts the steps of `work` on this thread.
#[cfg(any(test, debug_assertions))]
pub fn of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = STEPS.get();
    let done = work();
    (STEPS.get() - before, done)
}

#[cfg(test)]
mod sizes {
    /// Input sizes for the comparison of cost per byte on every change. A search that restarts inside a loop
    /// costs ten times as much at the larger one.
    pub(crate) const QUICK: &[usize] = &[10_000, 100_000];

    /// Input sizes for long runs.
    pub(crate) const LONG: &[usize] = &[10_000, 100_000, 1_000_000, 10_000_000];

    /// Drops the sizes that would take minutes.
    pub(crate) fn up_to_1_mb(sizes: &[usize]) -> &[usize] {
        &sizes[..sizes.len().min(3)]
    }

    /// Asserts that the cost per byte is about the same at each size. `cost` returns steps and bytes of an input.
    ///
    /// A search that restarts inside a loop multiplies it by ten from one size to the next.
    pub(crate) fn assert_linear(name: &str, sizes: &[usize], mut cost: impl FnMut(usize) -> (u64, usize)) {
        let each = sizes.iter().map(|size| {
            let (steps, bytes) = cost(*size);
            steps as f64 / bytes as f64
        });
        let each: Vec<f64> = each.collect();
        let most = each[0].max(1.0) * 1.6;
        assert!(
            each.iter().all(|cost| *cost <= most),
            "{name}: {each:?} steps a byte at {sizes:?} bytes"
        );
    }

    /// Defines tests for input sizes, in two modules `quick` and `long`.
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
    pub(crate) use at_sizes;
}
