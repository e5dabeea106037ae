//! Exit codes after sysexits.h, and the failures that carry them.

use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use super::output::Out;

/// An exit code of sysexits.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit(u8);

impl Exit {
    /// The command line is wrong.
    pub(super) const USAGE: Self = Self(64);
    /// What was named does not exist, or cannot be read.
    pub(super) const NO_INPUT: Self = Self(66);
    /// Something needed is not there: a port is taken, a store does not answer.
    pub(super) const UNAVAILABLE: Self = Self(69);
    /// Our own fault.
    pub(super) const SOFTWARE: Self = Self(70);
    /// A file cannot be made.
    pub(super) const CANNOT_CREATE: Self = Self(73);
    /// Reading or writing failed.
    pub(super) const IO: Self = Self(74);
    /// The config is wrong.
    pub(super) const CONFIG: Self = Self(78);
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Why a command ends without having done its work.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// Empty: all has been said already.
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            help: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// An end whose reason is on the screen already.
    pub(super) fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// Says on standard error what went wrong, and gives the code to end with.
    pub(super) fn report(self) -> ExitCode {
        let mut out = Out::stderr();
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        if !self.message.is_empty() {
            // With standard error closed there is nobody left to tell.
            let _ = out.line(format_args!("{red}error{red:#}: {}", self.message));
            if let Some(help) = &self.help {
                let _ = out.line(format_args!("  help: {help}"));
            }
        }
        self.exit.into()
    }
}

/// A failed write to standard output. A reader that has seen enough (`| head`) is no failure to speak of.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(Exit::IO),
            _ => Self::new(Exit::IO, format!("cannot write: {error}")),
        }
    }
}
