//! Text that precedes the model's output in a response.

use std::sync::Arc;

use crate::marker::note::BEGINS;

/// Text from baton before the model's output. A response has at most one.
#[derive(Clone, Default)]
pub enum AnswerOpening {
    /// No text: the response begins with the model's output, or with the sentinel of a handoff.
    #[default]
    None,
    /// Report of a handoff, before its sentinel.
    Report(Arc<str>),
    /// Notice for the user, before the model's output.
    Notice(Arc<str>),
}

impl AnswerOpening {
    /// Text before the model's output, if no sentinel begins the response.
    pub fn before_model(&self) -> Option<&str> {
        match self {
            Self::Notice(text) => Some(text),
            Self::None | Self::Report(_) => None,
        }
    }

    /// A further report, after the one that there is, if any.
    pub fn followed_by(&self, report: &str) -> String {
        match self {
            Self::Report(before) => format!("{before}\n\n{BEGINS}{report}"),
            Self::None | Self::Notice(_) => report.to_owned(),
        }
    }

    /// The sentinel that begins the response, preceded by the report, if any.
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
