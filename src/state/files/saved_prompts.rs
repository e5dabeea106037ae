//! Saves prompts of automatic handoffs as files (`handoff.save_dir`).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::disk::private_file;
use baton_core::text::date::rfc3339;

/// Maximum number of files in one second. More are an error.
const MAX_ALIKE: u32 = 100;

/// Returns the file name without extension, such as `handoff-2026-11-22T19-30-00`.
fn stem(at_ms: u64) -> String {
    let date = rfc3339(at_ms / 1000);
    format!("handoff-{}", date.trim_end_matches('Z').replace(':', "-"))
}

/// Saves a prompt as a file in the background and passes the file's path to `kept`.
///
/// Nothing waits for the file. A failure is only logged.
pub fn keep(
    (directory, at_ms): (PathBuf, u64),
    text: String,
    exchange: String,
    kept: impl FnOnce(PathBuf) + Send + 'static,
) {
    tokio::task::spawn_blocking(move || match write_new(&directory, &stem(at_ms), &text) {
        Ok(path) => {
            tracing::info!(exchange, path = %path.display(), "saved the prompt of an automatic handoff");
            kept(path);
        }
        Err(error) => {
            tracing::warn!(exchange, directory = %directory.display(), %error, "failed to save the prompt of an automatic handoff; the handoff itself is stored");
        }
    });
}

/// Writes a file that only its owner can read, under this name or the next free one.
///
/// # Errors
/// Returns the file system's error, or an error if all names of one second are taken.
fn write_new(directory: &Path, stem: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    for n in 1..=MAX_ALIKE {
        let name = match n {
            1 => format!("{stem}.md"),
            n => format!("{stem}-{n}.md"),
        };
        let path = directory.join(name);
        // `create_new` claims the name atomically: two handoffs of one second cannot overwrite each other.
        match private_file().create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{MAX_ALIKE} files of that name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_second_and_none_is_overwritten() {
        let name = stem(1_732_272_000_999);
        assert_eq!(name, "handoff-2024-11-22T10-40-00");
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a/b");
        for n in 1..=3 {
            let path = write_new(&inner, &name, &format!("{n}\n")).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), format!("{n}\n"));
        }
        let mut names: Vec<_> = fs::read_dir(&inner)
            .unwrap()
            .map(|f| f.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "handoff-2024-11-22T10-40-00-2.md",
                "handoff-2024-11-22T10-40-00-3.md",
                "handoff-2024-11-22T10-40-00.md"
            ]
        );
        let file = inner.join("handoff-2024-11-22T10-40-00.md");
        assert!(write_new(&file, &name, "x").is_err(), "its directory is a file");
    }
}
