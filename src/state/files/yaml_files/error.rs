//! Errors of YAML files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use baton_core::handoffs::FieldError;
use baton_core::handoffs::yaml::InvalidYaml;

/// A result of reading or writing handoff files.
pub type FileResult<T> = Result<T, FileError>;

/// The reason why a file was not written, read or moved.
#[derive(Debug)]
pub enum FileError {
    /// The content breaks rules of the format.
    Invalid(Vec<FieldError>),
    /// The file is not a YAML mapping.
    Malformed(PathBuf, InvalidYaml),
    /// The path may not be touched, for this reason.
    Refused(PathBuf, &'static str),
    /// The file does not exist.
    Missing(PathBuf),
    /// A directory cannot be created.
    Directory(PathBuf, io::Error),
    /// Another process holds the directory's lock.
    Busy(PathBuf),
    /// Reading or writing failed.
    Io(PathBuf, io::Error),
}

impl FileError {
    /// Converts an IO error to an error about a path.
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::NotFound => Self::Missing(path.to_owned()),
            _ => Self::Io(path.to_owned(), error),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(errors) => {
                let errors: Vec<_> = errors.iter().map(FieldError::to_string).collect();
                f.write_str(&errors.join("\n"))
            }
            Self::Malformed(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Refused(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Missing(path) => write!(f, "{}: there is no such file", path.display()),
            Self::Directory(path, error) => {
                write!(f, "cannot create the directory {}: {error}", path.display())
            }
            Self::Busy(path) => write!(f, "{}: another process has locked the directory", path.display()),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for FileError {}
