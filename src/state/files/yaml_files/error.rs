//! Errors of YAML files.

use std::io;
use std::path::{Path, PathBuf};

use baton_core::handoffs::FieldError;
use baton_core::handoffs::yaml::InvalidYaml;

/// A result of reading or writing handoff files.
pub type FileResult<T> = Result<T, FileError>;

/// The reason why a file was not written, read or moved.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The content breaks rules of the format.
    #[error("{}", joined(.0))]
    Invalid(Vec<FieldError>),
    /// The file is not a YAML mapping.
    #[error("{path}: {1}", path = .0.display())]
    Malformed(PathBuf, InvalidYaml),
    /// The path may not be touched, for this reason.
    #[error("{path}: {1}", path = .0.display())]
    Refused(PathBuf, &'static str),
    /// The file does not exist.
    #[error("{}: there is no such file", .0.display())]
    Missing(PathBuf),
    /// A directory cannot be created.
    #[error("cannot create the directory {path}: {1}", path = .0.display())]
    Directory(PathBuf, io::Error),
    /// Another process holds the directory's lock.
    #[error("{}: another process has locked the directory", .0.display())]
    Busy(PathBuf),
    /// Reading or writing failed.
    #[error("{path}: {1}", path = .0.display())]
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

fn joined(errors: &[FieldError]) -> String {
    let errors: Vec<_> = errors.iter().map(FieldError::to_string).collect();
    errors.join("\n")
}
