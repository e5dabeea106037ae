//! Words of shell lines: prefixes, what only looks, what prints, what undoes. `shell_words.toml` says what each list is.

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

/// What is in front of a command: words, and how many more of any kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(super) struct CommandPrefix {
    pub(super) words: Vec<&'static str>,
    #[serde(default)]
    pub(super) more: usize,
}

/// A command that changes no file without any of these words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadOnlyUnless {
    pub(super) name: &'static str,
    pub(super) words: Vec<&'static str>,
}

pub(super) static WORDS: LazyLock<ShellWords> =
    LazyLock::new(|| table::read(include_str!("shell_words.toml")));
