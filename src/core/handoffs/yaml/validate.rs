//! The rules of a file; all violations are reported at once.

use super::model::HandoffFile;
use super::names;
use super::names::{AGENT_TYPE, OUTCOME, STATUS, VERSION};
use super::time::{Time, is_date};
use crate::handoffs::field_error::FieldError;

/// Bytes of a wrong value that an error quotes.
const QUOTED_BYTES: usize = 200;

pub(super) fn violation(field: &str, message: impl Into<String>, value: &str) -> FieldError {
    FieldError::quoting(QUOTED_BYTES, field, message, value)
}

impl HandoffFile {
    /// All violations; none for a valid file.
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut wrong = |field: &str, message: String, value: &str| {
            errors.push(violation(field, message, value));
        };
        for (field, text) in [("goal", &self.goal), ("now", &self.now)] {
            if text.trim().is_empty() {
                wrong(field, "required".to_owned(), text);
            }
        }
        if !self.session.is_empty() && !names::is_session(&self.session) {
            let message = "letters, digits, `_` and `-` alone, or empty";
            wrong("session", message.to_owned(), &self.session);
        }
        if !self.date.is_empty() && !is_date(&self.date) {
            wrong(
                "date",
                "a date of the calendar, YYYY-MM-DD".to_owned(),
                &self.date,
            );
        }
        for (field, text) in [("created_at", &self.created_at), ("updated_at", &self.updated_at)] {
            if !text.is_empty() && Time::parse(text).is_none() {
                wrong(field, "a time as in RFC 3339".to_owned(), text);
            }
        }
        let choices: [(&str, &str, &[&str]); 3] = [
            ("status", &self.status, &STATUS),
            ("outcome", &self.outcome, &OUTCOME),
            ("agent_type", &self.agent_type, &AGENT_TYPE),
        ];
        for (field, text, choices) in choices {
            if !text.is_empty() && !choices.contains(&text) {
                wrong(field, format!("one of {}, or empty", choices.join(", ")), text);
            }
        }
        self.token_errors(&mut errors);
        errors
    }

    fn token_errors(&self, errors: &mut Vec<FieldError>) {
        for (field, number) in [("tokens_used", self.tokens_used), ("tokens_max", self.tokens_max)] {
            if number < 0 {
                errors.push(violation(field, "at least 0", &number.to_string()));
            }
        }
        if self.tokens_max > 0 && self.tokens_used > self.tokens_max {
            let message = format!("at most tokens_max, which is {}", self.tokens_max);
            errors.push(violation("tokens_used", message, &self.tokens_used.to_string()));
        }
        if !(0.0..=100.0).contains(&self.tokens_pct) {
            errors.push(violation("tokens_pct", "0 to 100", &self.tokens_pct.to_string()));
        }
    }

    /// Notes that are no errors: a version that this program does not know.
    pub fn notes(&self) -> Vec<FieldError> {
        let is_known = self.version.is_empty() || self.version == VERSION;
        let note = || {
            violation(
                "version",
                format!("another version than {VERSION}"),
                &self.version,
            )
        };
        (!is_known).then(note).into_iter().collect()
    }
}
