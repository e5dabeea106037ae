//! Problems of a config: message, location and fix.

use std::fmt;

use serde::Serialize;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrigin {
    /// A whole file.
    File(String),
    /// A position in a file.
    Place {
        /// File name as given.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(&'static str),
}

/// File name used to report problems of the built-in default.
pub(super) const BUILT_IN: &str = "config/baton.toml (built in)";

impl KeyOrigin {
    /// Returns the name of the file, if it is one.
    pub(super) fn file(&self) -> Option<&String> {
        match self {
            Self::File(file) | Self::Place { file, .. } => Some(file),
            Self::Variable(_) | Self::Flag(_) => None,
        }
    }

    /// Whether the value is that of the built-in default.
    pub(super) fn is_built_in(&self) -> bool {
        self.file().is_some_and(|file| file == BUILT_IN)
    }
}

impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.write_str(file),
            Self::Place { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Kind of a problem, as `check --json` prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The file cannot be read.
    Unreadable,
    /// Invalid TOML, including duplicate keys.
    Syntax,
    /// Unknown key or section.
    Unknown,
    /// A value of the wrong type, out of range, or otherwise invalid.
    Value,
    /// The variable or file of a secret is missing.
    Unavailable,
    /// A required key is missing.
    Missing,
    /// Conflicting values.
    Conflict,
}

/// A problem of a config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// Origin of the faulty value.
    pub origin: KeyOrigin,
    /// Key as `section.key`, or empty if the problem concerns none.
    pub key: String,
    /// Message. Never contains a secret.
    pub message: String,
    /// Suggested fix.
    pub help: Option<String>,
}

impl Problem {
    /// Creates a problem of a whole file.
    pub(super) fn in_file(kind: ProblemKind, name: String, message: String, help: &str) -> Self {
        Self {
            kind,
            origin: KeyOrigin::File(name),
            key: String::new(),
            message,
            help: Some(help.to_owned()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n    help: {help}"),
            None => Ok(()),
        }
    }
}

/// Maps byte offsets of a file to lines and columns.
pub(super) struct LineIndex<'a> {
    file: &'a str,
    text: &'a str,
    /// Offsets of all lines but the first.
    lines: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
        Self {
            file,
            text,
            lines: lines.collect(),
        }
    }

    pub(super) fn at(&self, offset: usize) -> KeyOrigin {
        let mut offset = offset.min(self.text.len());
        // The parser's offset may be inside of a character.
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = self.lines.partition_point(|start| *start <= offset);
        let line_start = before.checked_sub(1).map_or(0, |last| self.lines[last]);
        KeyOrigin::Place {
            file: self.file.to_owned(),
            line: before + 1,
            column: self.text[line_start..offset].chars().count() + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let places = LineIndex::new("f", "a\nüö = 1");
        let at = |offset| places.at(offset).to_string();
        assert_eq!(at(0), "f:1:1");
        assert_eq!(at(2), "f:2:1");
        assert_eq!(at(4), "f:2:2");
        assert_eq!(at(99), "f:2:7");
    }
}
