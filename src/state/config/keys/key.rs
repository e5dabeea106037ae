//! A row of the table of keys: one key of the config.

use crate::config::Config;
use crate::config::raw::{Environment, LocatedValue};
use crate::config::value::ValueResult;

/// A key of a `C`. Its default and its description are in `config/baton.toml`; its range is that of its reader.
pub(in crate::config) trait ConfigKey<C>: Sync {
    fn name(&self) -> &'static str;
    /// Whether it has no default. Such keys are commented out in the documented default.
    fn is_optional(&self) -> bool {
        false
    }
    /// Whether a change holds only after a restart.
    fn needs_restart(&self) -> bool {
        false
    }
    /// Checks a value and stores it in the config.
    fn read(&self, config: &mut C, value: &LocatedValue, env: &Environment) -> ValueResult<()>;
    /// Takes the value over from the running config. Returns whether it differed.
    fn keep(&self, _running: &mut C, _new: &mut C) -> bool {
        false
    }
}

/// A section that occurs once.
pub(in crate::config) struct KeySection {
    pub(in crate::config) name: &'static str,
    pub(in crate::config) keys: &'static [&'static dyn ConfigKey<Config>],
}

/// Minimum length of a client key: short enough to be typed, too long to be guessed over a network.
pub(super) const TOKEN_CHARS: usize = 16;

/// Shorter patterns would fit most files.
pub(super) const PATTERN_CHARS: usize = 3;

/// Shorter words would match most sentences.
pub(super) const MARKER_CHARS: usize = 3;

type Reader<T> = fn(&LocatedValue, &Environment) -> ValueResult<T>;

/// A key that is one field.
pub(super) struct FieldKey<C, T> {
    name: &'static str,
    is_optional: bool,
    needs_restart: bool,
    field: fn(&mut C) -> &mut T,
    read: Reader<T>,
}

/// A key of the config.
pub(super) const fn key<T>(
    name: &'static str,
    field: fn(&mut Config) -> &mut T,
    read: Reader<T>,
) -> FieldKey<Config, T> {
    row(name, field, read)
}

/// A key of an upstream or of a client.
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
    /// The key has no default.
    pub(super) const fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// The key belongs to what is opened, bound or started once.
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
        *(self.field)(config) = (self.read)(value, env)?;
        Ok(())
    }

    fn keep(&self, running: &mut C, new: &mut C) -> bool {
        let (running, new) = ((self.field)(running), (self.field)(new));
        let differs = running != new;
        new.clone_from(running);
        differs
    }
}

/// A key that concerns several fields.
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
