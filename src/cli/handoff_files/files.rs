//! The commands over files that are there.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::common::{failure, folder, print, warn};
use crate::cli::exit::{Exit, Failure};
use crate::cli::handoff_file_args::{CleanArgs, FileArgs, Format, LedgerArgs, LineArgs};
use crate::cli::output::{Out, first_line, plural, table, visible};
use crate::cli::packet_args::{
    PacketArchiveArgs, PacketForm, PacketLatestArgs, PacketListArgs, PacketShowArgs, PacketValidateArgs,
};
use crate::handoff_files::{FileError, LineReader, Listed, now, read_file};
use crate::packet::ntm::{FieldError, names};

/// Pause between two looks of `line --follow`.
const LOOK: Duration = Duration::from_secs(1);

/// Files of a list.
const LISTED: usize = 10;

/// Width of a goal in a list on a terminal.
const GOAL_WIDTH: usize = 60;

pub(super) fn list(args: &PacketListArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    if args.sessions {
        let sessions = folder.sessions().map_err(failure)?;
        if args.json {
            out.json(&json!({"count": sessions.len(), "sessions": sessions}))?;
        } else {
            for session in sessions {
                out.line(format_args!("{session}"))?;
            }
        }
        return Ok(());
    }
    let listing = folder
        .list(args.session.as_deref(), args.limit.unwrap_or(LISTED))
        .map_err(failure)?;
    warn(&listing.warnings);
    let found = listing.found;
    if args.json {
        out.json(&json!({"session": args.session, "count": found.len(), "handoffs": found}))?;
        return Ok(());
    }
    if found.is_empty() {
        out.line(format_args!(
            "no handoff files in {}",
            visible(&folder.dir().display().to_string())
        ))?;
    }
    for line in table(&found.iter().map(|one| row(one, out.width())).collect::<Vec<_>>()) {
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

fn row(one: &Listed, width: Option<usize>) -> Vec<String> {
    let name = one.path.file_name().unwrap_or_default().to_string_lossy();
    let date: String = one.date.chars().take("2026-11-22T18:05".len()).collect();
    let status = if one.status.is_empty() { "-" } else { &one.status };
    vec![
        visible(&date),
        first_line(&format!("{}/{name}", one.session), None),
        first_line(status, None),
        first_line(&one.goal, width.map(|_| GOAL_WIDTH)),
    ]
}

pub(super) fn show(args: &PacketShowArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let found = read_file(&folder.named(Path::new(&args.id))).map_err(failure)?;
    if args.form.path {
        out.line(format_args!("{}", visible(&found.path.display().to_string())))?;
        return Ok(());
    }
    tell_errors(&found.errors);
    print(&found.file, format(args.format, args.form), out)
}

pub(super) fn latest(args: &PacketLatestArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let listing = folder.latest(args.session.as_deref()).map_err(failure)?;
    warn(&listing.warnings);
    let Some(found) = listing.found else { return Ok(()) };
    if args.form.path {
        out.line(format_args!("{}", visible(&found.path.display().to_string())))?;
        return Ok(());
    }
    tell_errors(&found.errors);
    print(&found.file, format(args.format, args.form), out)
}

fn format(given: Option<Format>, form: PacketForm) -> Format {
    let otherwise = if form.json { Format::Json } else { Format::Yaml };
    given.unwrap_or(otherwise)
}

/// A file that breaks rules is printed all the same.
fn tell_errors(errors: &[FieldError]) {
    let mut err = Out::stderr();
    for error in errors {
        // Standard error may be closed.
        let _ = err.line(format_args!("warning: {}", visible(&error.to_string())));
    }
}

pub(super) fn validate(args: &PacketValidateArgs, out: &mut Out) -> Result<(), Failure> {
    let mut reports = Vec::new();
    let (mut wrong, mut unread) = (false, None);
    for path in args.what.iter().map(Path::new) {
        let (errors, notes) = match read_file(path) {
            Ok(found) => (found.errors, found.file.notes()),
            Err(FileError::Malformed(_, error)) => {
                let error = FieldError {
                    field: String::new(),
                    message: error.to_string(),
                    value: String::new(),
                };
                (vec![error], Vec::new())
            }
            Err(error) => {
                unread = unread.or(Some(error));
                continue;
            }
        };
        wrong |= !errors.is_empty();
        reports.push((path.display().to_string(), errors, notes));
    }
    if args.json {
        let reports = reports.iter().map(|(path, errors, notes)| {
            json!({"path": path, "valid": errors.is_empty(), "errors": errors, "notes": notes})
        });
        out.json(&reports.collect::<Vec<_>>())?;
    } else {
        for (path, errors, notes) in &reports {
            let path = visible(path);
            for error in errors {
                out.line(format_args!(
                    "{path}: {}",
                    visible(&error.to_string()).trim_start_matches(": ")
                ))?;
            }
            for note in notes {
                out.line(format_args!("{path}: note: {}", visible(&note.to_string())))?;
            }
            if errors.is_empty() {
                out.line(format_args!("{path}: ok"))?;
            }
        }
    }
    match unread {
        Some(error) => Err(failure(error)),
        None if wrong => Err(Failure::silent(Exit::DATA)),
        None => Ok(()),
    }
}

pub(super) fn line(args: &LineArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let mut reader = LineReader::new(folder);
    let mut before = String::new();
    loop {
        let told = reader
            .read(args.session.as_deref(), Instant::now())
            .map_err(failure)?;
        let line = told.map_or(String::new(), |told| told.line());
        if line != before && !line.is_empty() {
            out.line(format_args!("{}", visible(&line)))?;
        }
        before = line;
        if !args.follow {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

pub(super) fn archive(args: &PacketArchiveArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let place = folder
        .archive(&folder.named(Path::new(&args.id)))
        .map_err(failure)?;
    out.line(format_args!("{}", visible(&place.display().to_string())))?;
    Ok(())
}

pub(super) fn delete(args: &FileArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let path = folder.named(&args.file);
    folder.delete(&path).map_err(failure)?;
    out.line(format_args!("deleted {}", visible(&path.display().to_string())))?;
    Ok(())
}

pub(super) fn clean(args: &CleanArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let deleted = folder
        .clean(args.older_than, now(), args.dry_run)
        .map_err(failure)?;
    if args.dry_run {
        for path in &deleted {
            out.line(format_args!("{}", visible(&path.display().to_string())))?;
        }
    }
    let done = if args.dry_run {
        "would be deleted"
    } else {
        "deleted"
    };
    out.line(format_args!("{} {done}", plural(deleted.len() as u64, "file")))?;
    Ok(())
}

pub(super) fn ledger(args: &LedgerArgs, out: &mut Out) -> Result<(), Failure> {
    let (folder, _) = folder(&args.folder)?;
    let session = names::session(&args.session);
    if !names::is_session(session) {
        return Err(Failure::new(
            Exit::USAGE,
            "no name for a session: letters, digits, `_` and `-` alone",
        ));
    }
    match std::fs::read(folder.ledger(session)) {
        Ok(text) => Ok(out.body(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::new(
            Exit::IO,
            format!("the ledger cannot be read: {error}"),
        )),
    }
}
