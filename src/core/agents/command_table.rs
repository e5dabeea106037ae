//! Which commands test, build, lint, or have lasting effects: `commands.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::table;

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandPurpose {
    /// Runs tests.
    Test,
    /// Compiles or packs.
    Build,
    /// Checks without running.
    Lint,
    /// Changes a database's schema.
    Migrate,
    /// Writes files from others.
    Generate,
    /// Adds packages.
    Install,
    /// Starts a process that keeps running.
    Serve,
    /// Changes the repository's history or branches.
    Git,
    /// A script or target of the project that changes something else: data, a deployment.
    Change,
    /// A script or target of the project of which it is unknown what it does.
    Script,
}

impl CommandPurpose {
    /// Whether it verifies the work.
    pub fn verifies(self) -> bool {
        matches!(self, Self::Test | Self::Build | Self::Lint)
    }

    /// Whether it changes something besides the repository's history.
    pub fn changes(self) -> bool {
        self.leaves().is_some() && self != Self::Git
    }

    /// Its lasting effect, in words; `None` if it has none that matters later.
    pub fn leaves(self) -> Option<&'static str> {
        match self {
            Self::Migrate => Some("migrated"),
            Self::Generate => Some("generated"),
            Self::Install => Some("installed"),
            Self::Serve => Some("started"),
            Self::Git => Some("repository changed"),
            Self::Change | Self::Script => Some("ran"),
            Self::Test | Self::Build | Self::Lint => None,
        }
    }
}

/// Commands of one purpose by their first words; `*` at the end takes the rest of a word.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct CommandRow {
    pub(super) purpose: CommandPurpose,
    pub(super) words: Vec<&'static str>,
}

/// The first row that fits counts.
pub(super) static COMMANDS: LazyLock<Vec<CommandRow>> =
    LazyLock::new(|| table::rows(include_str!("commands.toml")));
