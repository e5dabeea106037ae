//! Exit codes after sysexits.h, those of shells for programs that are run, and the failures that carry them.

use std::io;
use std::process::ExitCode;

use crate::state::files::documents::DocumentError;
use crate::state::files::yaml_files::FileError;
use crate::state::journal::JournalError;
use crate::state::store::StoreError;
use baton_core::text::visible;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit(u8);

impl Exit {
    /// Done.
    pub(super) const OK: Self = Self(0);
    /// The compared items differ.
    pub(super) const DRIFT: Self = Self(1);
    /// The command line is wrong.
    pub(super) const USAGE: Self = Self(64);
    /// The input is not what it should be.
    pub(super) const DATA: Self = Self(65);
    /// The named input does not exist or cannot be read.
    pub(super) const NO_INPUT: Self = Self(66);
    /// A resource is unavailable: a port is taken, a store does not answer.
    pub(super) const UNAVAILABLE: Self = Self(69);
    /// An internal error.
    pub(super) const SOFTWARE: Self = Self(70);
    /// A file cannot be made.
    pub(super) const CANNOT_CREATE: Self = Self(73);
    /// Reading or writing failed.
    pub(super) const IO: Self = Self(74);
    /// The config is wrong.
    pub(super) const CONFIG: Self = Self(78);
    /// A program cannot be executed (shell convention).
    pub(super) const NOT_EXECUTABLE: Self = Self(126);
    /// A program is not found (shell convention).
    pub(super) const NOT_FOUND: Self = Self(127);

    /// The failure that ends with it.
    pub(super) fn failure(self, message: impl Into<String>) -> CommandFailure {
        CommandFailure {
            exit: self,
            message: message.into(),
            help: None,
        }
    }

    /// The failure that ends with it, and what to do about it.
    pub(super) fn with_help(self, message: impl Into<String>, help: impl Into<String>) -> CommandFailure {
        self.failure(message).help(help)
    }

    /// The failure that ends with it, whose reason was printed already.
    pub(super) fn silent(self) -> CommandFailure {
        self.failure("")
    }

    /// The number, for a process that ends at once.
    pub(super) fn code(self) -> i32 {
        self.0.into()
    }

    /// The exit code of the agent that ran.
    pub(super) fn of_agent(code: u8) -> Self {
        Self(code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// What a command, or a step of one, ends with.
pub(super) type CliResult<T = ()> = Result<T, CommandFailure>;

/// Why a command failed.
#[derive(Debug)]
pub(super) struct CommandFailure {
    pub(super) exit: Exit,
    /// The message; empty if it was printed already.
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl CommandFailure {
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into()).filter(|help| !help.is_empty());
        self
    }
}

/// The failure of a store that does not answer.
impl From<StoreError> for CommandFailure {
    fn from(error: StoreError) -> Self {
        let message = format!("the store does not answer: {}", visible::visible(&error.message));
        Exit::UNAVAILABLE.failure(message)
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

/// The failure of a handoff file.
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

/// The failure of a write to standard output. Whoever closes the pipe (`| head -1`) has read what was wanted, so that is
/// no failure.
impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::OK.silent(),
            _ => Exit::IO.failure(format!("cannot write: {error}")),
        }
    }
}
