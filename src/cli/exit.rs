//! Exit codes of sysexits.h and of shells, and the failures that carry them.

use std::io;
use std::process::ExitCode;

use baton_core::text::visible;
use baton_state::files::documents::DocumentError;
use baton_state::files::yaml_files::FileError;
use baton_state::journal::JournalError;
use baton_state::store::StoreError;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit(u8);

impl Exit {
    /// Success.
    pub(super) const OK: Self = Self(0);
    /// The compared items differ.
    pub(super) const DRIFT: Self = Self(1);
    /// The command line is invalid.
    pub(super) const USAGE: Self = Self(64);
    /// The input is invalid.
    pub(super) const DATA: Self = Self(65);
    /// The named input does not exist or cannot be read.
    pub(super) const NO_INPUT: Self = Self(66);
    /// A resource is unavailable, such as a port in use or a store that does not answer.
    pub(super) const UNAVAILABLE: Self = Self(69);
    /// An internal error.
    pub(super) const SOFTWARE: Self = Self(70);
    /// A file cannot be created.
    pub(super) const CANNOT_CREATE: Self = Self(73);
    /// Reading or writing failed.
    pub(super) const IO: Self = Self(74);
    /// The config is invalid.
    pub(super) const CONFIG: Self = Self(78);
    /// A program cannot be executed (shell convention).
    pub(super) const NOT_EXECUTABLE: Self = Self(126);
    /// A program is not found (shell convention).
    pub(super) const NOT_FOUND: Self = Self(127);

    /// Creates a failure with this exit code.
    pub(super) fn failure(self, message: impl Into<String>) -> CommandFailure {
        CommandFailure {
            exit: self,
            message: message.into(),
            help: None,
        }
    }

    /// Creates a failure with a hint on how to fix it.
    pub(super) fn with_help(self, message: impl Into<String>, help: impl Into<String>) -> CommandFailure {
        self.failure(message).help(help)
    }

    /// Creates a failure whose reason was printed already.
    pub(super) fn silent(self) -> CommandFailure {
        self.failure("")
    }

    /// Fails silently with this code, unless `ok` holds.
    pub(super) fn unless(self, ok: bool) -> CliResult {
        if ok { Ok(()) } else { Err(self.silent()) }
    }

    /// Number of the code, for a process that exits at once.
    pub(super) fn code(self) -> i32 {
        self.0.into()
    }

    /// Exit code of an agent, passed on unchanged.
    pub(super) fn of_agent(code: u8) -> Self {
        Self(code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Result of a command, or of one of its steps.
pub(super) type CliResult<T = ()> = Result<T, CommandFailure>;

/// Failure of a command, with the exit code that it leads to.
#[derive(Debug)]
pub(super) struct CommandFailure {
    pub(super) exit: Exit,
    /// Message for the user; empty if it was printed already.
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl CommandFailure {
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        // An empty hint would print as a bare `help:`.
        self.help = Some(help.into()).filter(|help| !help.is_empty());
        self
    }
}

/// Reports a store that does not answer.
impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        let message = format!("the store does not answer: {}", visible::visible(&error.message));
        let help = error.help.as_deref().map(visible::visible);
        Exit::UNAVAILABLE.with_help(message, help.unwrap_or_default())
    }
}

impl From<JournalError> for CommandFailure {
    fn from(error: JournalError) -> Self {
        Exit::UNAVAILABLE.failure(visible::visible(&error.to_string()))
    }
}

impl From<DocumentError> for CommandFailure {
    fn from(error: DocumentError) -> Self {
        Exit::UNAVAILABLE.failure(visible::visible(&error.to_string()))
    }
}

/// Maps each error of a handoff file to its exit code.
impl From<FileError> for CommandFailure {
    fn from(error: FileError) -> Self {
        let exit = match &error {
            FileError::Invalid(_) | FileError::Malformed(..) => Exit::DATA,
            FileError::Refused(..) => Exit::USAGE,
            FileError::Missing(_) => Exit::NO_INPUT,
            FileError::Directory(..) => Exit::CANNOT_CREATE,
            FileError::Busy(_) => Exit::UNAVAILABLE,
            FileError::Io(..) => Exit::IO,
        };
        exit.failure(visible::visible(&error.to_string()))
    }
}

/// Reports a failed write to standard output.
///
/// A reader that closes the pipe (`| head -1`) has read enough, so that case counts as success.
impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::OK.silent(),
            _ => Exit::IO.failure(format!("failed to write the output: {error}")),
        }
    }
}
