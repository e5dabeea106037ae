//! The raw config: values from TOML, environment and flags with their origin, not checked yet.

use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// Unquoted text from the environment or a flag; its key decides the type.
    Word(String),
    Text(String),
    Number(String),
    Flag(bool),
    List(Vec<LocatedValue>),
    Table(Vec<RawEntry>),
    /// A date or time, which no key accepts.
    Other(&'static str),
}

/// A table's key with its value.
#[derive(Debug, Clone)]
pub(super) struct RawEntry {
    pub(super) key: String,
    pub(super) key_origin: KeyOrigin,
    pub(super) value: LocatedValue,
}

impl Raw {
    /// The type's name for messages.
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

/// Parses TOML. Returns what can be read, in the order of the file, and all problems.
pub(super) fn read_toml(file: &str, text: &str, problems: &mut Vec<Problem>) -> Vec<RawEntry> {
    let places = LineIndex::new(file, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    problems.extend(errors.iter().map(|error| syntax(error, text, &places)));
    entries(table.into_inner(), &places)
}

fn syntax(error: &toml::de::Error, text: &str, places: &LineIndex<'_>) -> Problem {
    let span = error.span().unwrap_or_default();
    // For a duplicate the span is the key's. Other spans may hold a secret, and are not shown.
    let duplicate = error.message() == "duplicate key";
    let name = text
        .get(span.clone())
        .filter(|name| duplicate && !name.is_empty());
    Problem {
        kind: ProblemKind::Syntax,
        origin: places.at(span.start),
        key: String::new(),
        message: match name {
            Some(name) => format!("`{name}` is there twice"),
            None => error.message().to_owned(),
        },
        help: duplicate.then(|| "keep one and delete the other".to_owned()),
    }
}

/// Parses one TOML value: lists and tables in environment variables.
pub(super) fn read_value(text: &str, origin: &KeyOrigin) -> Result<LocatedValue, String> {
    let value = DeValue::parse(text).map_err(|error| error.message().to_owned())?;
    let mut given = given(value, &LineIndex::new("", text));
    relocate(&mut given, origin);
    Ok(given)
}

fn entries(table: DeTable<'_>, places: &LineIndex<'_>) -> Vec<RawEntry> {
    let mut entries: Vec<(usize, RawEntry)> = table
        .into_iter()
        .map(|(key, value): (Spanned<Cow<'_, str>>, _)| {
            let start = key.span().start;
            let entry = RawEntry {
                key_origin: places.at(start),
                key: key.into_inner().into_owned(),
                value: given(value, places),
            };
            (start, entry)
        })
        .collect();
    entries.sort_by_key(|(start, _)| *start);
    entries.into_iter().map(|(_, entry)| entry).collect()
}

fn given(value: Spanned<DeValue<'_>>, places: &LineIndex<'_>) -> LocatedValue {
    let origin = places.at(value.span().start);
    let raw = match value.into_inner() {
        DeValue::String(text) => Raw::Text(text.into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Raw::Number(number.to_string()),
            Err(_) => Raw::Number(number.as_str().to_owned()),
        },
        DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Raw::Flag(flag),
        DeValue::Datetime(_) => Raw::Other("a date or time"),
        DeValue::Array(list) => Raw::List(list.into_iter().map(|item| given(item, places)).collect()),
        DeValue::Table(table) => Raw::Table(entries(table, places)),
    };
    LocatedValue { raw, origin }
}

/// Sets the origin of a value and everything in it to the variable it was read from.
fn relocate(given: &mut LocatedValue, origin: &KeyOrigin) {
    given.origin = origin.clone();
    match &mut given.raw {
        Raw::List(list) => list.iter_mut().for_each(|item| relocate(item, origin)),
        Raw::Table(entries) => {
            for entry in entries {
                entry.key_origin = origin.clone();
                relocate(&mut entry.value, origin);
            }
        }
        Raw::Word(_) | Raw::Text(_) | Raw::Number(_) | Raw::Flag(_) | Raw::Other(_) => {}
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

/// The environment the config is read from.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The process environment without variables that are not UTF-8.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// A variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All variables, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

// The values may be credentials: only the names are shown.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
