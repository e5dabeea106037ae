//! Reads an agent's session file line by line, within bounds.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cli::exit::{CommandFailure, Exit};
use baton_core::handoffs::yaml::{MAX_LINE_BYTES, SessionReader};

/// Only the end of a longer file is read, since an agent's last words matter.
const MOST: u64 = 64 << 20;

/// Codex's file of the session with this id: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl` in its folder.
pub(super) fn of_codex(id: &str) -> Option<PathBuf> {
    let home = std::env::var_os("CODEX_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".codex")))?;
    in_codex(&home.join("sessions"), id)
}

fn in_codex(sessions: &Path, id: &str) -> Option<PathBuf> {
    /// Newest days that are searched.
    const DAYS: usize = 60;
    let newest_first = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort_unstable_by(|a, b| b.cmp(a));
        paths
    };
    let ends = format!("-{id}.jsonl");
    let years = newest_first(sessions).into_iter();
    let days = years
        .flat_map(|year| newest_first(&year))
        .flat_map(|month| newest_first(&month));
    let mut files = days.take(DAYS).flat_map(|day| newest_first(&day));
    files.find(|file| file.to_string_lossy().ends_with(&ends))
}

/// Gives every line of a session file to the reader, until the time is over.
pub(super) fn read(path: &Path, reader: &mut SessionReader, until: Instant) -> Result<(), CommandFailure> {
    let unread = |error: std::io::Error| Exit::NO_INPUT.failure(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    let mut lines = BufReader::with_capacity(1 << 16, {
        if length > MOST {
            file.seek(SeekFrom::Start(length - MOST)).map_err(unread)?;
        }
        file
    });
    let mut line = Vec::new();
    // A file that is read from its middle begins with the end of a line.
    let mut partial = length > MOST;
    while Instant::now() < until {
        let is_whole = match next(&mut lines, &mut line).map_err(unread)? {
            LineRead::End => return Ok(()),
            LineRead::Line => true,
            LineRead::TooLong => false,
        };
        match is_whole {
            _ if std::mem::take(&mut partial) => {}
            true => reader.line(&line),
            false => reader.skip(),
        }
    }
    Ok(())
}

/// What of a file was read.
pub(in crate::cli) enum LineRead {
    Line,
    TooLong,
    End,
}

/// Reads the next line; skips one that is too long.
pub(in crate::cli) fn next(lines: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<LineRead> {
    line.clear();
    let most = MAX_LINE_BYTES as u64 + 1;
    if lines.by_ref().take(most).read_until(b'\n', line)? == 0 {
        return Ok(LineRead::End);
    }
    if line.len() <= MAX_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(LineRead::Line);
    }
    line.clear();
    lines.skip_until(b'\n')?;
    Ok(LineRead::TooLong)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn codexs_session_file_is_found_by_its_id() {
        let dir = tempfile::tempdir().unwrap();
        for (day, name) in [
            ("2026/11/25", "rollout-2026-11-25T06-11-48-01a2167b.jsonl"),
            ("2026/11/26", "rollout-2026-11-26T06-11-48-01a21999.jsonl"),
        ] {
            let day = dir.path().join(day);
            std::fs::create_dir_all(&day).unwrap();
            std::fs::write(day.join(name), "").unwrap();
        }
        let found = in_codex(dir.path(), "01a2167b").unwrap();
        assert!(found.ends_with("2026/11/25/rollout-2026-11-25T06-11-48-01a2167b.jsonl"));
        assert_eq!(in_codex(dir.path(), "01a2"), None);
        assert_eq!(in_codex(&dir.path().join("none"), "01a2167b"), None);
    }

    #[test]
    fn long_and_malformed_lines_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let long = format!(
            "{{\"role\":\"assistant\",\"content\":\"{}\"}}",
            "x".repeat(MAX_LINE_BYTES)
        );
        let text = format!(
            "{{\"role\":\"assistant\",\"content\":\"Done: the parser\"}}\n\nnot JSON\n[1]\n{long}\n{{\"role\":\"user\",\"content\":\"thanks\"}}"
        );
        std::fs::write(&path, text).unwrap();
        let mut reader = SessionReader::default();
        read(&path, &mut reader, Instant::now() + Duration::from_secs(60)).unwrap();
        assert_eq!(reader.skipped, 3);
        let (_, request) = reader.request();
        assert!(String::from_utf8_lossy(&request).contains("Done: the parser"));
        let mut late = SessionReader::default();
        read(&path, &mut late, Instant::now()).unwrap();
        assert_eq!(late.skipped, 0);
    }
}
