//! Findings of checks.

use std::fmt;

use anstyle::AnsiColor;
use serde::Serialize;

use crate::cli::output::without_os_codes;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FindingSeverity {
    Ok,
    Warning,
    Error,
}

impl FindingSeverity {
    /// Label and color of the severity.
    pub(super) fn shown(self) -> (&'static str, AnsiColor) {
        match self {
            Self::Ok => ("ok", AnsiColor::Green),
            Self::Warning => ("warning", AnsiColor::Yellow),
            Self::Error => ("error", AnsiColor::Red),
        }
    }
}

/// A line of the report. The field names are public API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Finding {
    pub(super) severity: FindingSeverity,
    /// The examined key, file, upstream or agent.
    pub(super) subject: String,
    pub(super) message: String,
    /// Remedy for a warning or an error.
    pub(super) help: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: FindingSeverity::Ok,
            subject: subject.into(),
            message: without_os_codes(&message.into()),
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
        let (severity, _) = self.severity.shown();
        // On one line, for `serve`, which prints a single warning.
        write!(f, "{severity}: {}: {}; {help}", self.subject, self.message)
    }
}
