//! Table of commands that test, build, lint, or have lasting effects: `commands.toml`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::phrases::Beginnings;
use crate::text::table;

/// Purpose of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
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
    /// Runs a script or target of the project that changes something else, such as data or a deployment.
    Change,
    /// Runs a script or target of the project with an unknown effect.
    #[default]
    Script,
}

impl CommandPurpose {
    /// Whether the command verifies the work.
    pub fn verifies(self) -> bool {
        matches!(self, Self::Test | Self::Build | Self::Lint)
    }

    /// Whether the output of the command closes with its success or failure.
    pub(super) fn reports(self) -> bool {
        self.verifies() || matches!(self, Self::Install | Self::Generate | Self::Migrate)
    }

    /// Whether the command changes more than the repository's history.
    pub fn changes(self) -> bool {
        self.leaves().is_some() && self != Self::Git
    }

    /// Describes the lasting effect of the command; `None` if it has none that matters later.
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

/// Commands of one purpose, by their first words. A `*` at the end of a word matches the rest of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct CommandRow {
    pub(super) purpose: CommandPurpose,
    pub(super) words: Vec<&'static str>,
}

/// Looks up the purpose of a command. The first matching row of the table counts.
///
/// `words` begin with the program's name.
pub(super) fn purpose(words: &[&str]) -> Option<CommandPurpose> {
    /// For each program, the purpose and the further words of its patterns, in the order of the rows.
    type Patterns = HashMap<&'static str, Vec<(CommandPurpose, Vec<&'static str>)>>;
    // Indexed by program, because every command of every transcript is looked up.
    static BY_PROGRAM: LazyLock<Patterns> = LazyLock::new(|| {
        let mut programs = Patterns::new();
        for row in table::rows::<CommandRow>(include_str!("commands.toml")) {
            for pattern in row.words {
                let mut words = pattern.split(' ');
                let patterns = programs.entry(words.next().unwrap_or_default()).or_default();
                patterns.push((row.purpose, words.collect()));
            }
        }
        programs
    });
    let (program, given) = words.split_first()?;
    let is = |(wanted, given): (&&str, &&str)| match wanted.strip_suffix('*') {
        Some(begins) => given.starts_with(begins),
        None => given == wanted,
    };
    // A pattern is a beginning: the arguments after it do not change the purpose.
    let fits = |pattern: &[&str]| pattern.len() <= given.len() && pattern.iter().zip(given).all(is);
    let mut patterns = BY_PROGRAM.get(program)?.iter();
    patterns.find_map(|(purpose, pattern)| fits(pattern).then_some(*purpose))
}

/// Prefixes of shell lines, and commands that only read, print or undo. `shell_words.toml` explains each list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct ShellWords {
    pub(super) prefixes: Vec<&'static str>,
    pub(super) hiding: Vec<&'static str>,
    pub(super) hides: Vec<&'static str>,
    pub(super) prepare: Vec<&'static str>,
    pub(super) looks: Vec<&'static str>,
    pub(super) looks_without: Vec<NamedWords>,
    pub(super) git_looks: Vec<&'static str>,
    pub(super) git_lists: Vec<ListingForm>,
    pub(super) asks: Vec<&'static str>,
    pub(super) git_complains: Vec<&'static str>,
    pub(super) probes: Vec<&'static str>,
    pub(super) probes_with: Vec<NamedWords>,
    pub(super) probing: Vec<&'static str>,
    pub(super) interpreters: Vec<&'static str>,
    pub(super) shells: Vec<&'static str>,
    pub(super) misread: Vec<&'static str>,
    pub(super) rewrites: Vec<&'static str>,
    pub(super) checks: Vec<&'static str>,
    pub(super) undoes: Vec<&'static str>,
    pub(super) git_keeps: Vec<NamedWords>,
    pub(super) prints: Vec<&'static str>,
    pub(super) filters: Vec<&'static str>,
    pub(super) git_prints: Vec<&'static str>,
    pub(super) git_names: Vec<&'static str>,
    pub(super) alike: Vec<&'static str>,
    pub(super) git_complaints: Beginnings,
    pub(super) git_failures: Beginnings,
    pub(super) git_successes: Vec<NamedWords>,
    pub(super) git_idle: Vec<NamedWords>,
    pub(super) quiet: Vec<&'static str>,
    pub(super) stops: Vec<&'static str>,
    pub(super) stops_with: Vec<&'static str>,
    pub(super) verbosity: Vec<&'static str>,
    pub(super) limits: Vec<&'static str>,
    pub(super) widens: Vec<&'static str>,
    pub(super) goal_options: Vec<&'static str>,
    pub(super) skips_tests: Vec<&'static str>,
    pub(super) option_first: Vec<&'static str>,
    pub(super) option_values: Vec<&'static str>,
    pub(super) tries_out: Vec<&'static str>,
    pub(super) databases: Vec<&'static str>,
    pub(super) database_changes: Vec<&'static str>,
}

/// Words of a git command that only lists, or tries out a change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListingForm {
    pub(super) name: &'static str,
    words: Vec<&'static str>,
    /// Whether it also lists without any argument.
    #[serde(default)]
    pub(super) bare: bool,
}

impl ListingForm {
    /// Whether one of the arguments makes the command list.
    pub(super) fn lists(&self, arguments: &[&str]) -> bool {
        let is = |at: usize, given: &str| {
            let mut words = self.words.iter();
            words.any(|word| given.split('=').next() == Some(word) && (at == 0 || word.starts_with('-')))
        };
        let mut options = arguments.iter().take_while(|word| **word != "--").enumerate();
        options.any(|(at, given)| is(at, given))
    }
}

/// A command, and words that decide its effect.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedWords {
    pub(super) name: &'static str,
    pub(super) words: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<ShellWords> =
    LazyLock::new(|| table::read(include_str!("shell_words.toml")));
