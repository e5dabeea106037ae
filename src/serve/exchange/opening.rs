//! What an answer begins with, in front of the model's own words.

use std::sync::Arc;

use super::undo::FirstWords;

/// The text of baton's own that an answer begins with. One answer begins with one at most.
#[derive(Clone, Default)]
pub(super) enum AnswerOpening {
    /// The model's own words, or a handoff's sentinel alone.
    #[default]
    None,
    /// The report of a handoff, in front of its sentinel.
    Report(Arc<str>),
    /// The report of an undo that was requested from outside of the chat.
    Undo(FirstWords),
    /// A notice for the person, in front of the model's own words.
    Notice(Arc<str>),
}

impl AnswerOpening {
    /// The text in front of the model's own words, where no sentinel begins the answer.
    pub(super) fn before_model(&self) -> Option<&str> {
        match self {
            Self::Undo(words) => Some(&words.text),
            Self::Notice(text) => Some(text),
            Self::None | Self::Report(_) => None,
        }
    }

    /// The text in front of the sentinel that begins the answer.
    pub(super) fn before_sentinel(&self) -> &str {
        match self {
            Self::Report(text) => text,
            Self::None | Self::Undo(_) | Self::Notice(_) => "",
        }
    }

    /// The undo that the answer reports.
    pub(super) fn undo(&self) -> Option<&FirstWords> {
        match self {
            Self::Undo(words) => Some(words),
            Self::None | Self::Report(_) | Self::Notice(_) => None,
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
            (report.before_sentinel(), report.before_model()),
            ("handed over", None)
        );
        let notice = AnswerOpening::Notice("a draft is open".into());
        assert_eq!(
            (notice.before_sentinel(), notice.before_model()),
            ("", Some("a draft is open"))
        );
        let none = AnswerOpening::default();
        assert_eq!((none.before_sentinel(), none.before_model()), ("", None));
        assert!(report.undo().is_none() && notice.undo().is_none() && none.undo().is_none());
    }
}
