//! Reads values of a tree as their intended types. A value of the wrong type is reported, and left empty or converted
//! to the probable intention.

use std::collections::BTreeMap;

use super::terms::NO_TIME;
use super::time::Time;
use super::validate::violation;
use super::value::YamlValue;
use crate::handoffs::field_error::FieldError;

/// The position of a value, and the errors so far.
pub(super) struct FieldErrors<'e> {
    list: &'e mut Vec<FieldError>,
    path: &'e str,
    name: &'e str,
}

impl<'e> FieldErrors<'e> {
    pub(super) fn new(list: &'e mut Vec<FieldError>, path: &'e str, name: &'e str) -> Self {
        Self { list, path, name }
    }

    fn field(&self) -> String {
        match self.path {
            "" => self.name.to_owned(),
            path => format!("{path}.{}", self.name),
        }
    }

    pub(super) fn wrong(&mut self, expected: &str, value: &YamlValue) {
        let found = match value.scalar() {
            Some(text) => text.to_owned(),
            None => value.to_json().to_string(),
        };
        let field = self.field();
        self.list.push(violation(&field, expected, &found));
    }

    pub(super) fn text(&mut self, value: YamlValue) -> String {
        match value {
            YamlValue::Null => String::new(),
            YamlValue::Text(text) | YamlValue::Plain(text) => text,
            other => {
                self.wrong("a text", &other);
                String::new()
            }
        }
    }

    pub(super) fn time(&mut self, value: YamlValue) -> String {
        let text = self.text(value);
        let is_none = Time::parse(&text).is_some_and(|time| time.rfc3339() == NO_TIME);
        if is_none { String::new() } else { text }
    }

    pub(super) fn whole(&mut self, value: YamlValue) -> i64 {
        let number = value.scalar().map(str::trim).map(|text| match text {
            "" => Some(0),
            text => text.replace('_', "").parse().ok(),
        });
        number.flatten().unwrap_or_else(|| {
            self.wrong("a whole number", &value);
            0
        })
    }

    pub(super) fn share(&mut self, value: YamlValue) -> f64 {
        let number = value.scalar().map(str::trim).map(|text| match text {
            "" => Some(0.0),
            text => text.parse::<f64>().ok().filter(|number| number.is_finite()),
        });
        number.flatten().unwrap_or_else(|| {
            self.wrong("a number", &value);
            0.0
        })
    }

    pub(super) fn flag(&mut self, value: YamlValue) -> bool {
        match value.scalar().map(str::to_ascii_lowercase).as_deref() {
            Some("true" | "yes" | "on") => true,
            Some("" | "false" | "no" | "off") => false,
            _ => {
                self.wrong("true or false", &value);
                false
            }
        }
    }

    /// A list of texts. One text alone is a list of it.
    pub(super) fn texts(&mut self, value: YamlValue) -> Vec<String> {
        match value {
            YamlValue::Null => Vec::new(),
            YamlValue::List(items) => items.into_iter().map(|item| self.text(item)).collect(),
            YamlValue::Text(text) | YamlValue::Plain(text) => {
                self.wrong("a list", &YamlValue::Text(text.clone()));
                vec![text]
            }
            other => {
                self.wrong("a list", &other);
                Vec::new()
            }
        }
    }

    pub(super) fn map(&mut self, value: YamlValue) -> BTreeMap<String, String> {
        let entries = self.entries(value);
        let entries = entries.into_iter().map(|(key, value)| {
            let text = match value {
                YamlValue::List(_) | YamlValue::Map(_) => {
                    self.wrong("a mapping of texts", &value);
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
            other => {
                self.wrong("a mapping", &other);
                Vec::new()
            }
        }
    }

    pub(super) fn items(&mut self, value: YamlValue) -> Vec<YamlValue> {
        match value {
            YamlValue::Null => Vec::new(),
            YamlValue::List(items) => items,
            other => {
                self.wrong("a list", &other);
                Vec::new()
            }
        }
    }

    /// The list of errors, and where this value is, for what is inside of it.
    pub(super) fn inside(&mut self) -> (&mut Vec<FieldError>, String) {
        let path = self.field();
        (self.list, path)
    }
}
