//! The command line arguments.

use std::str::FromStr;

/// Flags, each followed by its value. Ignores cargo's `--bench` and unknown words.
pub(crate) struct Args(Vec<String>);

impl Args {
    pub(crate) fn of_process() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.0.iter().any(|a| a == flag)
    }

    pub(crate) fn after(&self, flag: &str) -> Option<&str> {
        let at = self.0.iter().position(|a| a == flag)?;
        self.0.get(at + 1).map(String::as_str)
    }

    pub(crate) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    pub(crate) fn number<T: FromStr>(&self, flag: &str) -> Option<T> {
        let word = self.after(flag)?;
        let number = word.parse().ok();
        assert!(number.is_some(), "{flag} wants a number, not {word}");
        number
    }
}
