//! What an answer begins with, in front of the model's own words.

use std::sync::Arc;

use crate::marker::note::BEGINS;

/// The text of baton's own that an answer begins with. One answer begins with one at most.
#[derive(Clone, Default)]
pub enum AnswerOpening {
    /// The model's own words, or a handoff's sentinel alone.
    #[default]
    None,
    /// The report of a handoff, in front of its sentinel.
    Report(Arc<str>),
    /// A notice for the user, in front of the model's own words.
    Notice(Arc<str>),
}

impl AnswerOpening {
    /// The text in front of the model's own words, where no sentinel begins the answer.
    pub fn before_model(&self) -> Option<&str> {
        match self {
            Self::Notice(text) => Some(text),
            Self::None | Self::Report(_) => None,
        }
    }

    /// The sentinel that begins the answer, with the report in front of it.
    pub fn with_sentinel(&self, sentinel: &str) -> String {
        match self {
            Self::Report(report) => format!("{BEGINS}{report}\n\n{}", sentinel.trim_start_matches('\n')),
            Self::None | Self::Notice(_) => sentinel.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_only_before_a_sentinel_and_a_notice_only_before_the_model() {
        let report = AnswerOpening::Report("handed over".into());
        assert_eq!(
            (&*report.with_sentinel("[[s]]"), report.before_model()),
            ("baton: handed over\n\n[[s]]", None)
        );
        assert_eq!(report.with_sentinel("\n\n[[s]]"), "baton: handed over\n\n[[s]]");
        let notice = AnswerOpening::Notice("a draft is open".into());
        assert_eq!(
            (&*notice.with_sentinel("[[s]]"), notice.before_model()),
            ("[[s]]", Some("a draft is open"))
        );
        let none = AnswerOpening::default();
        assert_eq!(
            (&*none.with_sentinel("[[s]]"), none.before_model()),
            ("[[s]]", None)
        );
    }
}
