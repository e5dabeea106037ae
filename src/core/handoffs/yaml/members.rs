//! Puts a mapping together, in the order of the format.

use std::collections::BTreeMap;

use super::terms::NO_TIME;
use super::time::Time;
use super::value::YamlValue;

/// A mapping that is being put together.
#[derive(Default)]
pub(super) struct MappingBuilder(Vec<(String, YamlValue)>);

impl MappingBuilder {
    pub(super) fn entry(&mut self, name: &str, value: YamlValue) {
        self.0.push((name.to_owned(), value));
    }

    pub(super) fn plain(&mut self, name: &str, text: String) {
        self.entry(name, YamlValue::Plain(text));
    }

    /// A text that is there even if it is empty.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.entry(name, YamlValue::Text(text.to_owned()));
    }

    /// A text that is left out if it is empty.
    pub(super) fn given(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.text(name, text);
        }
    }

    /// A time without quotes, as Go's reader expects it.
    pub(super) fn time(&mut self, name: &str, text: &str) {
        match text {
            "" => self.plain(name, NO_TIME.to_owned()),
            // Only what YAML reads as a time too; another text keeps its quotes.
            text => match YamlValue::unquoted(text) {
                value @ YamlValue::Plain(_) if Time::parse(text).is_some() => self.entry(name, value),
                _ => self.text(name, text),
            },
        }
    }

    pub(super) fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            self.plain(name, number.to_string());
        }
    }

    pub(super) fn list(&mut self, name: &str, items: Vec<YamlValue>) {
        if !items.is_empty() {
            self.entry(name, YamlValue::List(items));
        }
    }

    pub(super) fn texts(&mut self, name: &str, items: &[String]) {
        let items = items.iter().cloned().map(YamlValue::Text);
        self.list(name, items.collect());
    }

    pub(super) fn map(&mut self, name: &str, map: &BTreeMap<String, String>) {
        let entries = map
            .iter()
            .map(|(key, text)| (key.clone(), YamlValue::Text(text.clone())));
        self.value(name, YamlValue::Map(entries.collect()));
    }

    /// A mapping that is left out if it is empty.
    pub(super) fn value(&mut self, name: &str, value: YamlValue) {
        if value != YamlValue::Map(Vec::new()) {
            self.entry(name, value);
        }
    }

    pub(super) fn close(mut self, extra: &[(String, YamlValue)]) -> YamlValue {
        self.0.extend_from_slice(extra);
        YamlValue::Map(self.0)
    }
}
