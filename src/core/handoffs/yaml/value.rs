//! YAML as a tree: a document's values, without its layout.

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
