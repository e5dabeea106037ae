//! YAML as a tree, and its text: block style, two spaces per level, each scalar on one line.
//!
//! A scalar is quoted if a YAML 1.1 or 1.2 parser could read anything but that string. Multi-line strings are
//! written in double quotes with `\n`, so that readers which look for a line `goal: …` find all of it there.

use std::fmt::Write as _;

use serde_json::{Map, Number};

use crate::text::visible::acts;

/// A value of a YAML document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlValue {
    /// An empty value.
    Null,
    Text(String),
    /// An unquoted scalar that some reader does not take for a string: a number, a time, `true`.
    Plain(String),
    List(Vec<YamlValue>),
    /// A mapping in the order of the document.
    Map(Vec<(String, YamlValue)>),
}

/// Words that YAML 1.1 or 1.2 reads as null, a truth value, infinity or a merge, in lower case.
const WORDS: [&str; 17] = [
    "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "=", "<<", ".nan", ".inf", "+.inf",
    "-.inf",
];

impl YamlValue {
    /// The value of an unquoted scalar.
    pub(super) fn unquoted(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            _ if is_special(text) && is_plain(text) => Self::Plain(text.to_owned()),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// The string of a scalar; `None` for lists and mappings.
    pub fn scalar(&self) -> Option<&str> {
        match self {
            Self::Null => Some(""),
            Self::Text(text) | Self::Plain(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }

    /// Converts to JSON. Times and other scalars without a JSON type become strings.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Text(text) => text.clone().into(),
            Self::Plain(text) => match text.as_str() {
                "true" | "True" | "TRUE" => true.into(),
                "false" | "False" | "FALSE" => false.into(),
                text => json_number(text).map_or_else(|| text.into(), serde_json::Value::Number),
            },
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.clone(), value.to_json()));
                serde_json::Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

fn json_number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // JSON's own grammar: no leading zeros, no underscores.
    serde_json::from_str(text).ok()
}

/// Whether some reader takes this string, if unquoted, for something other than a string. Has a few false positives.
pub(super) fn is_special(text: &str) -> bool {
    let is_word = text.len() <= 5 && WORDS.contains(&text.to_ascii_lowercase().as_str());
    let is_numeric = |c: char| {
        c.is_ascii_hexdigit()
            || matches!(
                c,
                'x' | 'X' | 'o' | 'O' | '_' | '+' | '-' | '.' | ':' | 'T' | 't' | 'Z' | 'z' | ' '
            )
    };
    is_word
        || text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))
            && text.chars().all(is_numeric)
}

/// Whether a string can stand unquoted in block context, including as a key.
pub(super) fn is_plain(text: &str) -> bool {
    let begins = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '(' | '.' | '+');
    // A negative number.
    let is_negative = text
        .strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    (text.starts_with(begins) || is_negative)
        // At the start of a line, dots end a document.
        && !text.starts_with("...")
        && !text.ends_with(char::is_whitespace)
        && !text.ends_with(':')
        && !text.contains(": ")
        && !text.contains(" #")
        && text
            .chars()
            .all(|c| c == ' ' || !c.is_whitespace() && is_printable(c))
}

/// Whether a character can stand unescaped on a line of a document.
pub(super) fn is_printable(c: char) -> bool {
    !acts(c)
        && !matches!(c, '\u{fffe}' | '\u{ffff}')
        // The last two code points of each plane are not characters.
        && u32::from(c) & 0xfffe != 0xfffe
}

/// Length in bytes above which a key is written in the explicit form.
///
/// YAML looks for a key's colon within 1,024 characters only.
const KEY_BYTES: usize = 512;

/// Writes a mapping as a document.
pub(super) fn emitted(value: &YamlValue) -> String {
    let mut out = String::new();
    match value {
        YamlValue::Map(entries) if !entries.is_empty() => map(&mut out, entries, 0, false),
        other => {
            inline(&mut out, other);
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a mapping. If `begun` is set, the first one continues the current line.
fn map(out: &mut String, entries: &[(String, YamlValue)], depth: usize, mut begun: bool) {
    for (key, value) in entries {
        if !begun {
            indent(out, depth);
        }
        begun = false;
        let from = out.len();
        scalar(out, key);
        // Measures the written key, because an escape is longer than its character.
        if out.len() - from > KEY_BYTES {
            out.insert_str(from, "? ");
            out.push('\n');
            indent(out, depth);
        }
        out.push(':');
        nested(out, value, depth + 1, "\n");
    }
}

fn list(out: &mut String, items: &[YamlValue], depth: usize) {
    for item in items {
        indent(out, depth);
        out.push('-');
        nested(out, item, depth + 1, " ");
    }
}

/// Writes a value after its key or its dash. `before` separates it from a mapping: a space keeps it on the dash's line.
fn nested(out: &mut String, value: &YamlValue, depth: usize, before: &str) {
    match value {
        YamlValue::Map(inner) if !inner.is_empty() => {
            out.push_str(before);
            map(out, inner, depth, before == " ");
        }
        YamlValue::List(items) if !items.is_empty() => {
            out.push('\n');
            list(out, items, depth);
        }
        other => {
            out.push(' ');
            inline(out, other);
            out.push('\n');
        }
    }
}

/// Writes a value that fits on the line: a scalar, or an empty list or mapping.
fn inline(out: &mut String, value: &YamlValue) {
    match value {
        YamlValue::Null => out.push_str("null"),
        YamlValue::Plain(text) => out.push_str(text),
        YamlValue::Text(text) => scalar(out, text),
        YamlValue::List(_) => out.push_str("[]"),
        YamlValue::Map(_) => out.push_str("{}"),
    }
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Writes a string, in quotes if needed.
fn scalar(out: &mut String, text: &str) {
    if is_plain(text) && !is_special(text) {
        out.push_str(text);
    // Single quotes need no escapes, so the string stays readable.
    } else if text.chars().all(is_printable) && text.contains(['"', '\\']) {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    } else {
        double(out, text);
    }
}

fn double(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a string cannot fail.
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
}
