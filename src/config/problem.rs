//! What is wrong with a config, where, and how to mend it.

use std::fmt;

use serde::Serialize;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A file as a whole.
    File(String),
    /// A place in a file; line and column count from 1, the column in characters.
    Place {
        /// The file as it was named.
        file: String,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.write_str(file),
            Self::Place { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// The kind of a problem, for programs that read `check --json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The file cannot be read.
    Unreadable,
    /// Not TOML, a duplicate key included.
    Syntax,
    /// A key or section that does not exist.
    Unknown,
    /// A value of the wrong type, or out of range, or otherwise not usable.
    Value,
    /// A key that is needed.
    Missing,
    /// Values that do not go together.
    Conflict,
}

/// One problem of a config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// Where it is.
    pub origin: Origin,
    /// The key it is about, `section.key`; empty where it is about none.
    pub key: String,
    /// What is wrong. Never holds a secret.
    pub message: String,
    /// How to mend it.
    pub help: Option<String>,
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

/// The candidate that was most likely meant, if any is close.
pub(super) fn meant<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong: enough for a slip, too little to suggest something unrelated.
    let allowed = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&word, &c.to_lowercase()), c))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// Turns byte offsets of a text into lines and columns.
pub(super) struct Places<'a> {
    file: &'a str,
    text: &'a str,
    /// Where each line but the first begins.
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1);
        Self {
            file,
            text,
            lines: lines.collect(),
        }
    }

    pub(super) fn at(&self, offset: usize) -> Origin {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = self.lines.partition_point(|start| *start <= offset);
        let line_start = before.checked_sub(1).map_or(0, |last| self.lines[last]);
        Origin::Place {
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
        let places = Places::new("f", "a\nüö = 1");
        let at = |offset| places.at(offset).to_string();
        assert_eq!(at(0), "f:1:1");
        assert_eq!(at(2), "f:2:1");
        assert_eq!(at(4), "f:2:2");
        assert_eq!(at(99), "f:2:7");
    }

    #[test]
    fn a_slip_is_recognised_and_an_unrelated_word_is_not() {
        assert_eq!(meant("listne", ["listen", "token"]), Some("listen"));
        assert_eq!(meant("colour", ["listen", "token"]), None);
    }
}
