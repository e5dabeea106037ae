//! The document as a tree of values and back. Reading is lenient: a value of the wrong type is reported, and converted
//! or left empty. One mistake does not cost the rest of the file.

use super::emit;
use super::fields;
use super::model::{HandoffFile, QualityReport};
use super::parse::{self, InvalidYaml};
use super::terms::VERSION;
use super::value::YamlValue;
use crate::handoffs::field_error::FieldError;

/// A file as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile {
    /// What it says.
    pub file: HandoffFile,
    /// What has the wrong type.
    pub mistyped: Vec<FieldError>,
}

impl ParsedFile {
    /// Everything that is wrong with the file.
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = self.mistyped.clone();
        let rules = self.file.errors();
        // A member that could not be read is not reported a second time as missing.
        errors.extend(
            rules
                .into_iter()
                .filter(|error| !self.mistyped.iter().any(|mistyped| mistyped.field == error.field)),
        );
        errors
    }
}

/// Reads a file; what breaks a rule of the format is listed by [`ParsedFile::errors`].
///
/// # Errors
/// It is no YAML mapping.
pub fn read(text: &str) -> Result<ParsedFile, InvalidYaml> {
    let nothing = |message: &str| InvalidYaml {
        message: message.to_owned(),
        line: 0,
    };
    let entries = match parse::document(text)? {
        Some(YamlValue::Map(entries)) => entries,
        None | Some(YamlValue::Null) => return Err(nothing("there is nothing in it")),
        Some(_) => return Err(nothing("it is not a YAML mapping (key: value)")),
    };
    let mut mistyped = Vec::new();
    let mut file: HandoffFile = fields::read(&mut mistyped, "", entries);
    if file.version.is_empty() {
        VERSION.clone_into(&mut file.version);
    }
    Ok(ParsedFile { file, mistyped })
}

impl HandoffFile {
    /// The file as a tree, its members in the format's order.
    pub fn to_value(&self) -> YamlValue {
        // Fields are borrowed to be read into as well.
        fields::write(&mut self.clone())
    }

    /// The file as text.
    pub fn to_yaml(&self) -> String {
        emit::document(&self.to_value())
    }
}

impl QualityReport {
    /// The report as a tree.
    pub fn to_value(&self) -> YamlValue {
        fields::write(&mut self.clone())
    }
}
