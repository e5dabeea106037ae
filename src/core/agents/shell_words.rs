//! Words of shell lines: prefixes, and commands that only read, print or undo. `shell_words.toml` explains
//! each list.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct ShellWords {
    pub(super) prefixes: Vec<CommandPrefix>,
    pub(super) hiding: Vec<&'static str>,
    pub(super) hides: Vec<&'static str>,
    pub(super) prepare: Vec<&'static str>,
    pub(super) looks: Vec<&'static str>,
    pub(super) looks_without: Vec<ReadOnlyUnless>,
    pub(super) git_looks: Vec<&'static str>,
    pub(super) rewrites: Vec<&'static str>,
    pub(super) checks: Vec<&'static str>,
    pub(super) undoes: Vec<&'static str>,
    pub(super) prints: Vec<&'static str>,
    pub(super) filters: Vec<&'static str>,
    pub(super) git_prints: Vec<&'static str>,
    pub(super) quiet: Vec<&'static str>,
}

/// Words before a command, and how many further words of any kind follow them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct CommandPrefix {
    pub(super) words: Vec<&'static str>,
    #[serde(default)]
    pub(super) more: usize,
}

/// A command that changes no file unless one of these words is present.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOnlyUnless {
    pub(super) name: &'static str,
    pub(super) words: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<ShellWords> =
    LazyLock::new(|| table::read(include_str!("shell_words.toml")));
