//! A config key, and the config that keys are read into.

use std::path::PathBuf;

use crate::state::config::Config;
use crate::state::config::raw::{Environment, LocatedValue};
use crate::state::config::value::ValueResult;

/// One key of a section that is read into a `T`.
pub(in crate::state::config) struct ConfigKey<T: 'static> {
    pub(in crate::state::config) name: &'static str,
    /// Whether it has no default. Such keys are commented out in the documented default.
    pub(in crate::state::config) optional: bool,
    pub(in crate::state::config) read: fn(&mut T, &LocatedValue, &Environment) -> ValueResult<()>,
}

/// A section that occurs once.
pub(in crate::state::config) struct KeySection {
    pub(in crate::state::config) name: &'static str,
    pub(in crate::state::config) keys: &'static [ConfigKey<ConfigDraft>],
}

/// A config being read: some parts are final only after all layers.
pub(in crate::state::config) struct ConfigDraft {
    pub(in crate::state::config) config: Config,
    pub(in crate::state::config) tls_cert: Option<PathBuf>,
    pub(in crate::state::config) tls_key: Option<PathBuf>,
    pub(in crate::state::config) state_dir: Option<PathBuf>,
}

/// Minimum length of a client key: short enough to be typed, too long to be guessed over a network.
pub(super) const TOKEN_CHARS: usize = 16;

/// Stores a checked value in its field.
pub(super) fn put<T>(place: &mut T, value: ValueResult<T>) -> ValueResult<()> {
    value.map(|value| *place = value)
}

pub(super) const fn key<T>(
    name: &'static str,
    read: fn(&mut T, &LocatedValue, &Environment) -> ValueResult<()>,
) -> ConfigKey<T> {
    ConfigKey {
        name,
        optional: false,
        read,
    }
}

pub(super) const fn optional<T>(
    name: &'static str,
    read: fn(&mut T, &LocatedValue, &Environment) -> ValueResult<()>,
) -> ConfigKey<T> {
    ConfigKey {
        name,
        optional: true,
        read,
    }
}
