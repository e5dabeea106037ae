//! How many random cases a test tries, and which.

use std::env;

/// A number of cases, and the seed that they are drawn from.
#[derive(Debug, Clone, Copy)]
pub struct Cases {
    pub count: u32,
    pub seed: u64,
}

impl Cases {
    /// On every change: the same few.
    pub const QUICK: Self = Self { count: 25, seed: 1 };

    /// The same where a case takes no socket.
    pub const PURE: Self = Self { count: 200, seed: 1 };

    /// In so many everything happens that a test looks for.
    pub const MANY: u32 = 150;

    /// Long runs (`.ci/full`): `BATON_CASES` is how many. `BATON_SEED` is the seed; without it each run has another,
    /// which it prints.
    pub fn long() -> Self {
        Self::given(Self::MANY)
    }

    /// The same where a case takes no socket.
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
