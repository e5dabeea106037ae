//! The raw config: unchecked values from TOML, environment and flags, each with its origin.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{KeyOrigin, LineIndex, Problem, ProblemKind};

/// A raw value with its origin.
#[derive(Debug, Clone)]
pub(super) struct LocatedValue {
    pub(super) raw: Raw,
    pub(super) origin: KeyOrigin,
}

/// A raw value.
#[derive(Debug, Clone)]
pub(super) enum Raw {
    /// Unquoted string from the environment or a flag. Its key decides the type.
    Word(String),
    Text(String),
    Number(String),
    Flag(bool),
    List(Vec<LocatedValue>),
    Table(Vec<RawEntry>),
    /// A date or time, which no key accepts.
    Other(&'static str),
}

/// A key of a table, with its value.
#[derive(Debug, Clone)]
pub(super) struct RawEntry {
    pub(super) key: String,
    pub(super) key_origin: KeyOrigin,
    pub(super) value: LocatedValue,
}

impl Raw {
    /// Names the type for error messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Word(_) | Self::Text(_) => "text",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Other(name) => name,
        }
    }
}

/// Parses TOML. Returns the readable entries in file order, and adds all problems to `problems`.
pub(super) fn read_toml(file: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<RawEntry> {
    let places = LineIndex::new(file, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    problems.extend(errors.iter().map(|error| syntax(error, text, &places)));
    entries(table.into_inner(), &|start| places.at(start))
}

fn syntax(error: &toml::de::Error, text: &str, places: &LineIndex<'_>) -> Problem {
    let span = error.span().unwrap_or_default();
    // The span of a duplicate is its key, which may be shown. Other spans may contain a secret.
    let duplicate = error.message() == "duplicate key";
    let name = text.get(span.clone());
    let name = name.filter(|name| duplicate && !name.is_empty());
    Problem {
        kind: ProblemKind::Syntax,
        origin: places.at(span.start),
        key: String::new(),
        message: match name {
            Some(name) => format!("`{name}` occurs twice"),
            None => error.message().to_owned(),
        },
        help: duplicate.then(|| "keep one and delete the other".to_owned()),
    }
}

/// Parses one TOML value, such as a list or a table in an environment variable.
pub(super) fn read_value(text: &str, origin: &KeyOrigin) -> Result<LocatedValue, String> {
    let value = DeValue::parse(text).map_err(|error| error.message().to_owned())?;
    // Users know the variable, not a position within its value.
    Ok(given(value, &|_| origin.clone()))
}

/// Reads a table. `origin` names the place of an offset in the text.
fn entries(table: DeTable<'_>, origin: &dyn Fn(usize) -> KeyOrigin) -> Vec<RawEntry> {
    let entry = |(key, value): (Spanned<Cow<'_, str>>, _)| {
        let start = key.span().start;
        let entry = RawEntry {
            key_origin: origin(start),
            key: key.into_inner().into_owned(),
            value: given(value, origin),
        };
        (start, entry)
    };
    let mut entries: Vec<_> = table.into_iter().map(entry).collect();
    // `DeTable` does not keep the order of the file, and problems are reported in that order.
    entries.sort_by_key(|(start, _)| *start);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn given(value: Spanned<DeValue<'_>>, origin: &dyn Fn(usize) -> KeyOrigin) -> LocatedValue {
    let start = value.span().start;
    let raw = match value.into_inner() {
        DeValue::String(text) => Raw::Text(text.into_owned()),
        // Normalizes hexadecimal, octal and binary notation. Numbers beyond `i64` stay as written, and their
        // reader rejects them.
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Number(number.to_string()),
            Err(_) => Raw::Number(number.as_str().to_owned()),
        },
        DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Raw::Flag(flag),
        DeValue::Datetime(_) => Raw::Other("a date or time"),
        DeValue::Array(list) => Raw::List(list.into_iter().map(|item| given(item, origin)).collect()),
        DeValue::Table(table) => Raw::Table(entries(table, origin)),
    };
    LocatedValue {
        raw,
        origin: origin(start),
    }
}

/// Collects the variables that `{ env = "NAME" }` references.
pub(super) fn named_variables(entries: &[RawEntry], named: &mut Vec<String>) {
    for entry in entries {
        match &entry.value.raw {
            Raw::Text(name) if entry.key == "env" => named.push(name.clone()),
            Raw::Table(inner) => named_variables(inner, named),
            Raw::List(items) => {
                for item in items {
                    if let Raw::Table(inner) = &item.raw {
                        named_variables(inner, named);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the files that `{ file = "PATH" }` references in a value, which may be a table or a list.
pub(super) fn secret_files(value: &LocatedValue, env: &Environment) -> Vec<PathBuf> {
    let Ok(value) = value.structured() else {
        return Vec::new();
    };
    match &value.raw {
        Raw::List(items) => items.iter().flat_map(|item| secret_files(item, env)).collect(),
        Raw::Table(entries) => entries
            .iter()
            .flat_map(|entry| match &entry.value.raw {
                // A table with other keys refers to no file, so `file` is an ordinary name there.
                Raw::Text(_) if entry.key == "file" && entries.len() == 1 => {
                    entry.value.path(env).into_iter().collect()
                }
                _ => secret_files(&entry.value, env),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The environment that a config is read from.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Returns the process environment, without variables that are not UTF-8.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns a variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns all variables, sorted by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

// Shows the names only, because the values may be credentials.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
