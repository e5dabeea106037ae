//! Text that precedes the model's output in a response.

use std::sync::Arc;

use uuid::Uuid;

use crate::marker::note::{self, BEGINS};

/// Text from baton before the model's output. A response has at most one.
#[derive(Clone, Default)]
pub enum AnswerOpening {
    /// No text: the response begins with the model's output, or with the sentinel of a handoff.
    #[default]
    None,
    /// Report of a handoff. The sentinel after it marks it as baton's, so it needs no note.
    Report(Arc<str>),
    /// Notice for the user, before the model's output.
    Notice(Arc<str>),
}

impl AnswerOpening {
    /// Creates a notice. Its note keeps it out of later requests.
    pub fn notice(text: &str) -> Self {
        Self::None.followed_by(text)
    }

    /// Appends a notice. Both notices share one note.
    pub fn followed_by(&self, text: &str) -> Self {
        let before = self.before_model().unwrap_or_default();
        Self::Notice(format!("{before}{}\n\n", note::answer(text, Uuid::nil())).into())
    }

    /// Appends the report of a handoff, a single line.
    pub fn reporting(&self, report: &str) -> Self {
        let before = self.before_model().unwrap_or_default();
        Self::Report(format!("{before}{BEGINS}{report}\n\n").into())
    }

    /// Text before the model's output, if no sentinel begins the response.
    pub fn before_model(&self) -> Option<&str> {
        match self {
            Self::Notice(text) => Some(text),
            Self::None | Self::Report(_) => None,
        }
    }

    /// Prepends the report, if there is one, to the sentinel that begins the response.
    pub fn with_sentinel(&self, sentinel: &str) -> String {
        match self {
            // The report ends with a blank line of its own.
            Self::Report(report) => format!("{report}{}", sentinel.trim_start_matches('\n')),
            Self::None | Self::Notice(_) => sentinel.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_only_before_a_sentinel_and_a_notice_only_before_the_model() {
        let report = AnswerOpening::None.reporting("handed over");
        assert_eq!(
            (&*report.with_sentinel("[[s]]"), report.before_model()),
            ("baton: handed over\n\n[[s]]", None)
        );
        assert_eq!(report.with_sentinel("\n\n[[s]]"), "baton: handed over\n\n[[s]]");
        let notice = AnswerOpening::notice("a draft is open");
        assert_eq!(
            (&*notice.with_sentinel("[[s]]"), notice.before_model()),
            ("[[s]]", Some("baton: a draft is open\n\n[[handoff-note:]]\n\n"))
        );
        assert_eq!(
            notice.reporting("handed over").with_sentinel("[[s]]"),
            "baton: a draft is open\n\n[[handoff-note:]]\n\nbaton: handed over\n\n[[s]]"
        );
        let none = AnswerOpening::default();
        assert_eq!(
            (&*none.with_sentinel("[[s]]"), none.before_model()),
            ("[[s]]", None)
        );
    }
}
