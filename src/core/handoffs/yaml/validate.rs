//! The rules of a file; all violations are reported at once.

use super::lenient::violation;
use super::model::HandoffFile;
use super::names;
use super::names::{AGENT_TYPE, OUTCOME, STATUS, VERSION};
use super::time::{Time, is_date};
use crate::handoffs::field_error::FieldError;

impl HandoffFile {
    /// All violations; empty for a valid file.
    pub fn errors(&self) -> Vec<FieldError> {
        let mut broken = Vec::new();
        let mut rule = |field, value: &str, holds: bool, rule: &str| {
            broken.extend((!holds).then(|| violation(field, rule, value)));
        };
        for (field, value) in [("goal", &self.goal), ("now", &self.now)] {
            rule(field, value, !value.trim().is_empty(), "required");
        }
        let is_named = names::is_session(self.session_name());
        let name = "only letters, digits, `_` and `-`, or empty";
        rule("session", &self.session, is_named, name);
        let is_day = self.date.is_empty() || is_date(&self.date);
        rule("date", &self.date, is_day, "an existing date, YYYY-MM-DD");
        for (field, value) in [("created_at", &self.created_at), ("updated_at", &self.updated_at)] {
            let is_time = value.is_empty() || Time::parse(value).is_some();
            rule(field, value, is_time, "a time as in RFC 3339");
        }
        for (field, value, choices) in [
            ("status", &self.status, &STATUS[..]),
            ("outcome", &self.outcome, &OUTCOME),
            ("agent_type", &self.agent_type, &AGENT_TYPE),
        ] {
            let is_one = value.is_empty() || choices.contains(&value.as_str());
            let one_of = format!("one of {}, or empty", choices.join(", "));
            rule(field, value, is_one, &one_of);
        }
        let (used, max, share) = (self.tokens_used, self.tokens_max, self.tokens_pct);
        let most = format!("at most tokens_max, which is {max}");
        rule("tokens_used", &used.to_string(), used >= 0, "at least 0");
        rule("tokens_max", &max.to_string(), max >= 0, "at least 0");
        rule("tokens_used", &used.to_string(), max <= 0 || used <= max, &most);
        let is_share = (0.0..=100.0).contains(&share);
        rule("tokens_pct", &share.to_string(), is_share, "0 to 100");
        broken
    }

    /// Remarks that are not errors: a version that this program does not support.
    pub fn notes(&self) -> Vec<FieldError> {
        let is_known = self.version.is_empty() || self.version == VERSION;
        let another = format!("another version than {VERSION}");
        let note = (!is_known).then(|| violation("version", another, &self.version));
        note.into_iter().collect()
    }
}
