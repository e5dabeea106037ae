//! The command line arguments.

use std::str::FromStr;
use std::time::Duration;

use crate::children::Kind;

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

    pub(crate) fn seconds(&self) -> Duration {
        Duration::from_secs(self.number("--seconds").unwrap_or(10))
    }

    /// Returns the proxy that follows `flag`.
    pub(crate) fn kind(&self, flag: &str) -> Option<Kind> {
        let word = self.after(flag)?;
        let kind = Kind::ALL.into_iter().find(|k| k.word() == word);
        assert!(
            kind.is_some(),
            "{flag} wants one of {:?}",
            Kind::ALL.map(Kind::word)
        );
        kind
    }
}
