//! Number and seed of a test's random cases.

use std::env;

/// A number of cases, and the seed that determines them.
#[derive(Debug, Clone, Copy)]
pub struct Cases {
    pub count: u32,
    pub seed: u64,
}

impl Cases {
    /// Cases for every change, always the same few.
    pub const QUICK: Self = Self { count: 25, seed: 1 };

    /// Like [`QUICK`](Self::QUICK), for cases without sockets.
    pub const PURE: Self = Self { count: 200, seed: 1 };

    /// Enough cases to include every event that a test looks for.
    pub const MANY: u32 = 150;

    /// Cases for long runs (`.ci/full`). `BATON_CASES` sets their number and `BATON_SEED` the seed. By
    /// default each run has a new seed, which it prints.
    pub fn long() -> Self {
        Self::given(Self::MANY)
    }

    /// Like [`long`](Self::long), for cases without sockets.
    pub fn long_pure() -> Self {
        Self::given(5_000)
    }

    #[allow(clippy::print_stdout)]
    fn given(most: u32) -> Self {
        let given = |name| -> Option<u64> {
            let text = env::var(name).ok()?;
            Some(
                text.parse()
                    .unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
            )
        };
        let cases = Self {
            count: given("BATON_CASES").map_or(most, |count| count.try_into().unwrap()),
            seed: given("BATON_SEED").unwrap_or_else(|| getrandom::u32().unwrap().into()),
        };
        println!("BATON_CASES={} BATON_SEED={}", cases.count, cases.seed);
        cases
    }
}
