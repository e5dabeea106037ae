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
        let has_text = |text: &str| !text.trim().is_empty();
        let is_time = |text: &str| text.is_empty() || Time::parse(text).is_some();
        let is_one = |text: &str, choices: &[&str]| text.is_empty() || choices.contains(&text);
        let one_of = |choices: &[&str]| format!("one of {}, or empty", choices.join(", "));
        let name = "letters, digits, `_` and `-` alone, or empty";
        let day = "a date of the calendar, YYYY-MM-DD";
        let time = "a time as in RFC 3339";
        let (status, outcome, agent) = (one_of(&STATUS), one_of(&OUTCOME), one_of(&AGENT_TYPE));
        let (used, max, share) = (self.tokens_used, self.tokens_max, self.tokens_pct);
        let most = format!("at most tokens_max, which is {max}");
        let rules: [(&str, &str, bool, &str); 13] = [
            ("goal", &self.goal, has_text(&self.goal), "required"),
            ("now", &self.now, has_text(&self.now), "required"),
            (
                "session",
                &self.session,
                names::is_session(self.session_name()),
                name,
            ),
            (
                "date",
                &self.date,
                self.date.is_empty() || is_date(&self.date),
                day,
            ),
            ("created_at", &self.created_at, is_time(&self.created_at), time),
            ("updated_at", &self.updated_at, is_time(&self.updated_at), time),
            ("status", &self.status, is_one(&self.status, &STATUS), &status),
            (
                "outcome",
                &self.outcome,
                is_one(&self.outcome, &OUTCOME),
                &outcome,
            ),
            (
                "agent_type",
                &self.agent_type,
                is_one(&self.agent_type, &AGENT_TYPE),
                &agent,
            ),
            ("tokens_used", &used.to_string(), used >= 0, "at least 0"),
            ("tokens_max", &max.to_string(), max >= 0, "at least 0"),
            ("tokens_used", &used.to_string(), max <= 0 || used <= max, &most),
            (
                "tokens_pct",
                &share.to_string(),
                (0.0..=100.0).contains(&share),
                "0 to 100",
            ),
        ];
        let broken = rules.iter().filter(|(.., holds, _)| !holds);
        broken
            .map(|(field, value, _, rule)| violation(field, *rule, value))
            .collect()
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
