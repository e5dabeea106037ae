//! Config keys as rows of a table.

use crate::config::Config;
use crate::config::raw::{Environment, LocatedValue};
use crate::config::value::ValueResult;

/// A key that sets part of a `C`.
///
/// Its default and its description are in `config/baton.toml`. The reader checks its range.
pub(in crate::config) trait ConfigKey<C>: Sync {
    fn name(&self) -> &'static str;
    /// Whether the key has no default. Such keys are commented out in the documented default.
    fn is_optional(&self) -> bool {
        false
    }
    /// Whether a change takes effect only after a restart.
    fn needs_restart(&self) -> bool {
        false
    }
    /// Checks a value and stores it in the config.
    fn read(&self, config: &mut C, value: &LocatedValue, env: &Environment) -> ValueResult<()>;
    /// Copies the running value into the new config. Returns whether the two differed.
    fn keep(&self, _running: &mut C, _new: &mut C) -> bool {
        false
    }
}

/// Keys of a section that occurs at most once.
pub(in crate::config) type SectionKeys = &'static [&'static dyn ConfigKey<Config>];

/// Minimum length of a client key: short enough to be typed, too long to be guessed over a network.
pub(super) const TOKEN_CHARS: usize = 16;

/// Minimum length of a file pattern: shorter ones would match most files.
pub(super) const PATTERN_CHARS: usize = 3;

/// Minimum length of a marker word: shorter ones would match most sentences.
pub(super) const MARKER_CHARS: usize = 3;

type Reader<T> = fn(&LocatedValue, &Environment) -> ValueResult<T>;

/// A key that sets one field.
pub(super) struct FieldKey<C, T> {
    name: &'static str,
    is_optional: bool,
    needs_restart: bool,
    field: fn(&mut C) -> &mut T,
    read: Reader<T>,
}

/// Creates a key that sets one field of [`Config`].
pub(super) const fn key<T>(
    name: &'static str,
    field: fn(&mut Config) -> &mut T,
    read: Reader<T>,
) -> FieldKey<Config, T> {
    row(name, field, read)
}

/// Creates a key that sets one field of a `C`, such as an upstream or a client.
pub(super) const fn row<C, T>(
    name: &'static str,
    field: fn(&mut C) -> &mut T,
    read: Reader<T>,
) -> FieldKey<C, T> {
    FieldKey {
        name,
        is_optional: false,
        needs_restart: false,
        field,
        read,
    }
}

impl<C, T> FieldKey<C, T> {
    /// Marks the key as having no default.
    pub(super) const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Marks the key as read only at start, because it configures a file, listener or task that is opened
    /// once.
    pub(super) const fn restart(mut self) -> Self {
        self.needs_restart = true;
        self
    }
}

impl<C, T: Clone + PartialEq> ConfigKey<C> for FieldKey<C, T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_optional(&self) -> bool {
        self.is_optional
    }

    fn needs_restart(&self) -> bool {
        self.needs_restart
    }

    fn read(&self, config: &mut C, value: &LocatedValue, env: &Environment) -> ValueResult<()> {
        // On an error the value of the earlier layer stays, and the caller reports the problem.
        *(self.field)(config) = (self.read)(value, env)?;
        Ok(())
    }

    fn keep(&self, running: &mut C, new: &mut C) -> bool {
        // The running value stays in effect until a restart, so the new config must show it.
        let (running, new) = ((self.field)(running), (self.field)(new));
        let differs = running != new;
        new.clone_from(running);
        differs
    }
}

/// A key that sets several fields.
pub(super) struct WideKey(&'static str, ReadInto);

type ReadInto = fn(&mut Config, &LocatedValue) -> ValueResult<()>;

pub(super) const fn wide(name: &'static str, read: ReadInto) -> WideKey {
    WideKey(name, read)
}

impl ConfigKey<Config> for WideKey {
    fn name(&self) -> &'static str {
        self.0
    }

    fn read(&self, config: &mut Config, value: &LocatedValue, _: &Environment) -> ValueResult<()> {
        (self.1)(config, value)
    }
}
