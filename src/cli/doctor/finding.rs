//! What a check finds.

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FindingSeverity {
    Ok,
    Warning,
    Error,
}

impl FindingSeverity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    pub(super) fn style(self) -> Style {
        let colour = match self {
            Self::Ok => AnsiColor::Green,
            Self::Warning => AnsiColor::Yellow,
            Self::Error => AnsiColor::Red,
        };
        Style::new().fg_color(Some(colour.into())).bold()
    }
}

/// One line of the report. The field names are API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Finding {
    pub(super) severity: FindingSeverity,
    /// What was examined: a key, a file, an upstream, an agent.
    pub(super) subject: String,
    pub(super) message: String,
    /// What to do about a warning or an error.
    pub(super) help: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: FindingSeverity::Ok,
            subject: subject.into(),
            message: message.into(),
            help: None,
        }
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            severity: FindingSeverity::Warning,
            help: Some(help.into()),
            ..Self::ok(subject, message)
        }
    }

    pub(super) fn error(
        subject: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self {
            severity: FindingSeverity::Error,
            ..Self::warning(subject, message, help)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let help = self.help.as_deref().unwrap_or_default();
        write!(
            f,
            "{}: {}: {}; {help}",
            self.severity.name(),
            self.subject,
            self.message
        )
    }
}
