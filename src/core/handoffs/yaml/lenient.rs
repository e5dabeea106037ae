//! Reads values of a tree as their intended types.
//!
//! A value of the wrong type is reported. Then it is converted to the likely intention, or left empty.

use std::collections::BTreeMap;

use super::names::NO_TIME;
use super::time::Time;
use super::value::YamlValue;
use crate::handoffs::field_error::FieldError;

/// Maximum size of a wrong value quoted in an error, in bytes.
const QUOTED_BYTES: usize = 200;

pub(super) fn violation(field: &str, message: impl Into<String>, value: &str) -> FieldError {
    FieldError::quoting(QUOTED_BYTES, field, message, value)
}

/// The path of the current value, and the errors so far.
pub(super) struct FieldErrors<'e> {
    list: &'e mut Vec<FieldError>,
    field: String,
}

impl<'e> FieldErrors<'e> {
    pub(super) fn new(list: &'e mut Vec<FieldError>, path: &str, name: &str) -> Self {
        let field = format!("{path}.{name}").trim_start_matches('.').to_owned();
        Self { list, field }
    }

    pub(super) fn wrong(&mut self, expected: &str, value: &YamlValue) {
        let found = match value.scalar() {
            Some(text) => text.to_owned(),
            None => value.to_json().to_string(),
        };
        self.list.push(violation(&self.field, expected, &found));
    }

    /// Reports a value of the wrong type, and returns the default as if the field were absent.
    fn instead_of<T: Default>(&mut self, expected: &str, value: &YamlValue) -> T {
        self.wrong(expected, value);
        T::default()
    }

    /// Reads a number; an empty value is zero.
    fn number<T: Default>(
        &mut self,
        value: &YamlValue,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> T {
        let number = value.scalar().map(str::trim).and_then(|text| match text {
            "" => Some(T::default()),
            text => read(text),
        });
        number.unwrap_or_else(|| self.instead_of(expected, value))
    }

    pub(super) fn text(&mut self, value: YamlValue) -> String {
        match value {
            YamlValue::Null => String::new(),
            YamlValue::Text(text) | YamlValue::Plain(text) => text,
            other => self.instead_of("a string", &other),
        }
    }

    pub(super) fn time(&mut self, value: YamlValue) -> String {
        let text = self.text(value);
        let is_none = Time::parse(&text).is_some_and(|time| time.rfc3339() == NO_TIME);
        // Go writes a time that was never set as year 1.
        if is_none { String::new() } else { text }
    }

    pub(super) fn whole(&mut self, value: YamlValue) -> i64 {
        self.number(&value, "a whole number", |text| {
            // YAML 1.1 allows `1_000`.
            text.replace('_', "").parse().ok()
        })
    }

    pub(super) fn share(&mut self, value: YamlValue) -> f64 {
        let finite = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        self.number(&value, "a number", finite)
    }

    pub(super) fn flag(&mut self, value: YamlValue) -> bool {
        match value.scalar().map(str::to_ascii_lowercase).as_deref() {
            // Including the truth values of YAML 1.1.
            Some("true" | "yes" | "on") => true,
            Some("" | "false" | "no" | "off") => false,
            _ => self.instead_of("true or false", &value),
        }
    }

    /// Reads a list of strings. A single string counts as a list of one.
    pub(super) fn texts(&mut self, value: YamlValue) -> Vec<String> {
        match value {
            YamlValue::Text(text) | YamlValue::Plain(text) => {
                self.wrong("a list", &YamlValue::Text(text.clone()));
                vec![text]
            }
            other => {
                let items = self.items(other).into_iter();
                items.map(|item| self.text(item)).collect()
            }
        }
    }

    pub(super) fn map(&mut self, value: YamlValue) -> BTreeMap<String, String> {
        let entries = self.entries(value);
        let entries = entries.into_iter().map(|(key, value)| {
            let text = match value {
                YamlValue::List(_) | YamlValue::Map(_) => {
                    self.wrong("a mapping of strings", &value);
                    value.to_json().to_string()
                }
                scalar => self.text(scalar),
            };
            (key, text)
        });
        entries.collect()
    }

    pub(super) fn entries(&mut self, value: YamlValue) -> Vec<(String, YamlValue)> {
        match value {
            YamlValue::Null => Vec::new(),
            YamlValue::Map(entries) => entries,
            other => self.instead_of("a mapping", &other),
        }
    }

    pub(super) fn items(&mut self, value: YamlValue) -> Vec<YamlValue> {
        match value {
            YamlValue::Null => Vec::new(),
            YamlValue::List(items) => items,
            other => self.instead_of("a list", &other),
        }
    }

    /// The list of errors and the path of this value, for reading nested values.
    pub(super) fn inside(&mut self) -> (&mut Vec<FieldError>, &str) {
        (self.list, &self.field)
    }
}
