//! Fields of a mapping: a single list that serves for both reading and writing.

use std::collections::BTreeMap;

use super::lenient::FieldErrors;
use super::names::NO_TIME;
use super::time::Time;
use super::value::YamlValue;
use crate::handoffs::field_error::FieldError;

/// A field's value, borrowed from its mapping. The `Given…` variants are omitted if empty or zero.
pub(super) enum Field<'f> {
    Text(&'f mut String),
    GivenText(&'f mut String),
    Time(&'f mut String),
    GivenTime(&'f mut String),
    Whole(&'f mut i64),
    GivenWhole(&'f mut i64),
    GivenShare(&'f mut f64),
    Flag(&'f mut bool),
    Texts(&'f mut Vec<String>),
    Named(&'f mut BTreeMap<String, String>),
    /// A mapping, or a list of mappings.
    Inner(&'f mut dyn InnerField),
}

use Field::{
    Flag, GivenShare, GivenText, GivenTime, GivenWhole, Inner, Named, Text, Texts, Time as TimeField, Whole,
};

/// The fields of a mapping in the format's order, and the keys that the format does not define.
pub(super) struct MappingFields<'f> {
    pub(super) known: Vec<(&'static str, Field<'f>)>,
    pub(super) extra: &'f mut Vec<(String, YamlValue)>,
}

/// A mapping of the format.
pub(super) trait Mapping: Default {
    fn fields(&mut self) -> MappingFields<'_>;

    /// Reads a string that stands where a mapping belongs. `None` if such a string is an error.
    fn of_text(_: &str) -> Option<Self> {
        None
    }
}

/// Reads a mapping, and reports values of the wrong type.
pub(super) fn read<T: Mapping>(
    errors: &mut Vec<FieldError>,
    path: &str,
    entries: Vec<(String, YamlValue)>,
) -> T {
    let mut mapping = T::default();
    let mut fields = mapping.fields();
    for (name, value) in entries {
        match fields.known.iter_mut().find(|(known, _)| *known == name) {
            Some((known, field)) => field.read(&mut FieldErrors::new(errors, path, known), value),
            // Kept and written back, because other tools add keys of their own.
            None => fields.extra.push((name, value)),
        }
    }
    mapping
}

/// Reads a mapping inside another one.
fn inner<T: Mapping>(e: &mut FieldErrors<'_>, value: YamlValue) -> T {
    let entries = e.entries(value);
    let (errors, path) = e.inside();
    read(errors, path, entries)
}

/// Converts a mapping to a tree.
pub(super) fn write<T: Mapping>(mapping: &mut T) -> YamlValue {
    let fields = mapping.fields();
    let known = fields.known.into_iter();
    let mut entries: Vec<_> = known
        .filter_map(|(name, field)| Some((name.to_owned(), field.write()?)))
        .collect();
    // After the known fields, whose order is that of the format.
    entries.extend_from_slice(fields.extra);
    YamlValue::Map(entries)
}

/// Redacts the strings of a mapping except for times. `clean` gets the name of a value with it, because a password is
/// recognized by its name.
pub(super) fn redact<T: Mapping>(mapping: &mut T, clean: &dyn Fn(&str) -> String) {
    let fields = mapping.fields();
    for (_, field) in fields.known {
        field.redact(clean);
    }
    for (name, value) in fields.extra {
        redact_value(name, value, clean);
    }
}

/// Redacts a value with a name that the format does not define.
fn redact_value(name: &str, value: &mut YamlValue, clean: &dyn Fn(&str) -> String) {
    match value {
        YamlValue::Text(text) | YamlValue::Plain(text) => {
            let cleaned = redacted_under(name, text, clean);
            if cleaned != *text {
                *value = YamlValue::Text(cleaned);
            }
        }
        YamlValue::List(items) => items.iter_mut().for_each(|item| redact_value(name, item, clean)),
        YamlValue::Map(entries) => {
            entries
                .iter_mut()
                .for_each(|(name, value)| redact_value(name, value, clean));
        }
        YamlValue::Null => {}
    }
}

fn redacted_under(name: &str, text: &str, clean: &dyn Fn(&str) -> String) -> String {
    let line = clean(&format!("{name}: {text}"));
    let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": "));
    value.map_or_else(|| clean(text), str::to_owned)
}

impl Field<'_> {
    fn redact(self, clean: &dyn Fn(&str) -> String) {
        match self {
            Text(text) | GivenText(text) => *text = clean(text),
            Texts(texts) => texts.iter_mut().for_each(|text| *text = clean(text)),
            Named(texts) => {
                let pairs = std::mem::take(texts).into_iter();
                texts.extend(pairs.map(|(name, text)| {
                    let text = redacted_under(&name, &text, clean);
                    (clean(&name), text)
                }));
            }
            Inner(field) => field.redact(clean),
            TimeField(_) | GivenTime(_) | Whole(_) | GivenWhole(_) | GivenShare(_) | Flag(_) => {}
        }
    }

    fn read(&mut self, e: &mut FieldErrors<'_>, value: YamlValue) {
        match self {
            Text(text) | GivenText(text) => **text = e.text(value),
            TimeField(time) | GivenTime(time) => **time = e.time(value),
            Whole(number) | GivenWhole(number) => **number = e.whole(value),
            GivenShare(share) => **share = e.share(value),
            Flag(flag) => **flag = e.flag(value),
            Texts(texts) => **texts = e.texts(value),
            Named(texts) => **texts = e.map(value),
            Inner(field) => field.read(e, value),
        }
    }

    fn write(self) -> Option<YamlValue> {
        let plain = |text: String| Some(YamlValue::Plain(text));
        let texts = |texts: &[String]| texts.iter().cloned().map(YamlValue::Text).collect();
        match self {
            GivenText(text) | GivenTime(text) if text.is_empty() => None,
            GivenWhole(0) => None,
            GivenShare(share) if *share == 0.0 => None,
            Texts(items) if items.is_empty() => None,
            Named(items) if items.is_empty() => None,
            Text(text) | GivenText(text) => Some(YamlValue::Text(text.clone())),
            TimeField(text) | GivenTime(text) => Some(time(text)),
            Whole(number) | GivenWhole(number) => plain(number.to_string()),
            GivenShare(share) => plain(share.to_string()),
            Flag(flag) => plain(flag.to_string()),
            Texts(items) => Some(YamlValue::List(texts(items))),
            Named(items) => {
                let entries = items.iter();
                let entries = entries.map(|(key, text)| (key.clone(), YamlValue::Text(text.clone())));
                Some(YamlValue::Map(entries.collect()))
            }
            Inner(field) => field.write(),
        }
    }
}

/// A time without quotes, as Go's reader expects it.
fn time(text: &str) -> YamlValue {
    match text {
        "" => YamlValue::Plain(NO_TIME.to_owned()),
        // Only a time that YAML also recognizes; other text keeps its quotes.
        text => match YamlValue::unquoted(text) {
            value @ YamlValue::Plain(_) if Time::parse(text).is_some() => value,
            _ => YamlValue::Text(text.to_owned()),
        },
    }
}

/// A mapping inside another one.
pub(super) trait InnerField {
    fn read(&mut self, e: &mut FieldErrors<'_>, value: YamlValue);

    /// Converts the field to a tree; `None` if it is omitted.
    fn write(&mut self) -> Option<YamlValue>;

    fn redact(&mut self, clean: &dyn Fn(&str) -> String);
}

impl<T: Mapping> InnerField for T {
    fn read(&mut self, e: &mut FieldErrors<'_>, value: YamlValue) {
        *self = inner(e, value);
    }

    fn write(&mut self) -> Option<YamlValue> {
        Some(write(self)).filter(|value| *value != YamlValue::Map(Vec::new()))
    }

    fn redact(&mut self, clean: &dyn Fn(&str) -> String) {
        redact(self, clean);
    }
}

impl<T: Mapping> InnerField for Option<T> {
    fn read(&mut self, e: &mut FieldErrors<'_>, value: YamlValue) {
        if value != YamlValue::Null {
            *self = Some(inner(e, value));
        }
    }

    fn write(&mut self) -> Option<YamlValue> {
        self.as_mut().map(write)
    }

    fn redact(&mut self, clean: &dyn Fn(&str) -> String) {
        self.iter_mut().for_each(|mapping| redact(mapping, clean));
    }
}

impl<T: Mapping> InnerField for Vec<T> {
    fn read(&mut self, e: &mut FieldErrors<'_>, value: YamlValue) {
        let items = e.items(value);
        let read = |item: YamlValue| {
            let text = match &item {
                YamlValue::Text(text) | YamlValue::Plain(text) => T::of_text(text),
                _ => None,
            };
            text.unwrap_or_else(|| inner(e, item))
        };
        *self = items.into_iter().map(read).collect();
    }

    fn write(&mut self) -> Option<YamlValue> {
        (!self.is_empty()).then(|| YamlValue::List(self.iter_mut().map(write).collect()))
    }

    fn redact(&mut self, clean: &dyn Fn(&str) -> String) {
        self.iter_mut().for_each(|mapping| redact(mapping, clean));
    }
}

/// Declares a mapping of the format: its fields in order, each with its kind. The key is the member's name.
macro_rules! mapping {
    ($(#[$about:meta])* $of:ident {
        $($(#[$of_field:meta])* $name:ident: $kind:ident($type:ty),)+
    } $($rest:item)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $of {
            $($(#[$of_field])* pub $name: $type,)+
            /// Keys that the format does not define, as they were read.
            pub extra: Vec<(String, YamlValue)>,
        }

        impl Mapping for $of {
            fn fields(&mut self) -> MappingFields<'_> {
                MappingFields {
                    known: vec![$((stringify!($name), Field::$kind(&mut self.$name))),+],
                    extra: &mut self.extra,
                }
            }

            $($rest)*
        }
    };
}
pub(super) use mapping;
