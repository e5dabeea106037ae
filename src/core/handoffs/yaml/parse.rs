//! Reads YAML into a tree.
//!
//! `saphyr-parser` supplies the events. This module limits the size of the tree that they build.

use std::collections::{HashMap, HashSet};
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::fields;
use super::model::{HandoffFile, QualityReport};
use super::names::VERSION;
use super::value::{YamlValue, emitted};
use crate::handoffs::field_error::FieldError;

/// Maximum size of a file in bytes. The largest real ones have a hundredth of it.
pub const MAX_BYTES: usize = 1 << 20;

/// Maximum number of values in a document. Every [`TEXT_BYTES`] of text count as another value.
///
/// Values that an alias repeats count again, because aliases of aliases grow exponentially.
const MAX_VALUES: usize = 100_000;
const TEXT_BYTES: usize = 64;

/// Line breaks of YAML 1.1 that are ordinary text in 1.2.
const BREAKS_OF_1_1: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Maximum depth of nested lists and mappings.
const MAX_DEPTH: usize = 32;

/// The reason why a string is not a valid document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidYaml {
    /// The error, for syntax errors in the parser's words.
    pub message: String,
    /// The line, from 1; 0 if the error is not on a single line.
    pub line: usize,
}

impl fmt::Display for InvalidYaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for InvalidYaml {}

fn malformed(message: impl Into<String>, line: usize) -> InvalidYaml {
    InvalidYaml {
        message: message.into(),
        line,
    }
}

/// A document; `None` if there is none.
type ParseResult = Result<Option<YamlValue>, InvalidYaml>;

/// Parses the first document of a string.
pub(super) fn document(text: &str) -> ParseResult {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_BYTES {
        return Err(malformed(format!("more than {MAX_BYTES} bytes"), 0));
    }
    let read = events(text);
    match read {
        // YAML 1.1 has three more line breaks. Its writers put them into blocks unescaped, which is invalid in 1.2.
        Err(_) if text.contains(BREAKS_OF_1_1) => events(&text.replace(BREAKS_OF_1_1, "\n")).or(read),
        read => read,
    }
}

/// Builds the first document from the parser's events.
fn events(text: &str) -> ParseResult {
    let mut builder = Builder::default();
    for next in Parser::new_from_str(text) {
        let (event, span) = next.map_err(|error| malformed(error.info(), error.marker().line()))?;
        if let Some(root) = builder.event(event, span.start.line())? {
            return Ok(Some(root));
        }
    }
    Ok(None)
}

/// An incomplete list or mapping. A mapping has its keys, and the one that still lacks a value.
enum OpenNode {
    List(Vec<YamlValue>),
    Map(Vec<(String, YamlValue)>, HashSet<String>, Option<String>),
}

#[derive(Default)]
struct Builder {
    /// Open nodes, outermost first, each with its anchor (0 for none).
    open: Vec<(OpenNode, usize)>,
    anchors: HashMap<usize, YamlValue>,
    values: usize,
}

impl Builder {
    /// Takes an event. Returns the root once it is complete.
    fn event(&mut self, event: Event<'_>, line: usize) -> ParseResult {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = match (tag.as_ref().map(|tag| tag.suffix.as_str()), style) {
                    // Other writers tag quoted and block scalars with their type.
                    (Some("null"), _) => YamlValue::Null,
                    (Some("int" | "float" | "bool" | "timestamp"), _) | (None, ScalarStyle::Plain) => {
                        YamlValue::unquoted(text.trim())
                    }
                    _ => YamlValue::Text(text.into_owned()),
                };
                let values = count(&value);
                self.complete(value, anchor, values, line)
            }
            Event::Alias(anchor) => {
                let open = || malformed("an alias of an anchor that is not complete", line);
                let value = self.anchors.get(&anchor).cloned().ok_or_else(open)?;
                let values = count(&value);
                self.complete(value, 0, values, line)
            }
            Event::SequenceStart(anchor, _) => self.begin(OpenNode::List(Vec::new()), anchor, line),
            Event::MappingStart(anchor, _) => {
                self.begin(OpenNode::Map(Vec::new(), HashSet::new(), None), anchor, line)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                // The inner values have been counted already.
                Some((OpenNode::List(items), at)) => self.complete(YamlValue::List(items), at, 1, line),
                Some((OpenNode::Map(all, ..), at)) => self.complete(YamlValue::Map(all), at, 1, line),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn begin(&mut self, open: OpenNode, anchor: usize, line: usize) -> ParseResult {
        if self.open.len() >= MAX_DEPTH {
            return Err(malformed(format!("nested deeper than {MAX_DEPTH} levels"), line));
        }
        self.open.push((open, anchor));
        Ok(None)
    }

    fn complete(&mut self, value: YamlValue, anchor: usize, values: usize, line: usize) -> ParseResult {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            return Err(malformed(format!("more than {MAX_VALUES} values"), line));
        }
        // Known only once complete, so an alias inside of its own anchor is an error instead of a cycle.
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some((OpenNode::List(items), _)) => items.push(value),
            Some((OpenNode::Map(entries, seen, key), _)) => match key.take() {
                Some(key) => entries.push((key, value)),
                None => {
                    let name = value.scalar();
                    let name = name.ok_or_else(|| malformed("a key that is not a string", line))?;
                    // YAML forbids repeated keys, and readers differ in the value that they take.
                    if !seen.insert(name.to_owned()) {
                        return Err(malformed(format!("the key {name:?} occurs twice"), line));
                    }
                    *key = Some(name.to_owned());
                }
            },
        }
        Ok(None)
    }
}

/// The number of values that this counts for in [`MAX_VALUES`].
fn count(value: &YamlValue) -> usize {
    match value {
        YamlValue::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        YamlValue::Map(entries) => {
            let entry = |(key, value): &(String, YamlValue)| 1 + key.len() / TEXT_BYTES + count(value);
            1 + entries.iter().map(entry).sum::<usize>()
        }
        scalar => 1 + scalar.scalar().map_or(0, str::len) / TEXT_BYTES,
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile {
    /// The document.
    pub file: HandoffFile,
    /// Values of the wrong type.
    pub mistyped: Vec<FieldError>,
}

impl ParsedFile {
    /// All errors of the file.
    pub fn errors(&self) -> Vec<FieldError> {
        // A mistyped member is not also reported as missing.
        let is_new = |error: &FieldError| self.mistyped.iter().all(|mistyped| mistyped.field != error.field);
        let rules = self.file.errors().into_iter().filter(is_new);
        self.mistyped.iter().cloned().chain(rules).collect()
    }
}

/// Reads a file. [`ParsedFile::errors`] lists violations of the format.
///
/// # Errors
/// The text is not a YAML mapping.
pub fn read(text: &str) -> Result<ParsedFile, InvalidYaml> {
    let entries = match document(text)? {
        Some(YamlValue::Map(entries)) => entries,
        None | Some(YamlValue::Null) => return Err(malformed("there is nothing in it", 0)),
        Some(_) => return Err(malformed("it is not a YAML mapping (key: value)", 0)),
    };
    let mut mistyped = Vec::new();
    let mut file: HandoffFile = fields::read(&mut mistyped, "", entries);
    if file.version.is_empty() {
        VERSION.clone_into(&mut file.version);
    }
    Ok(ParsedFile { file, mistyped })
}

impl HandoffFile {
    /// The file as a tree, with the members in the format's order.
    pub fn to_value(&self) -> YamlValue {
        // A copy, because fields are borrowed mutably: the same list serves for reading.
        fields::write(&mut self.clone())
    }

    /// The file as text.
    pub fn to_yaml(&self) -> String {
        emitted(&self.to_value())
    }
}

impl QualityReport {
    /// The report as a tree.
    pub fn to_value(&self) -> YamlValue {
        fields::write(&mut self.clone())
    }
}
