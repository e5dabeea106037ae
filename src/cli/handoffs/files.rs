//! Commands over existing handoff files in YAML.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::args::{DeleteArgs, DocumentFormat, ListArgs, ShowArgs};
use super::lookup::{HandoffLookup, NamedHandoff, warn};
use crate::cli::exit::{CliResult, CommandFailure, Exit};
use crate::cli::output::{Out, first_line, plural, shown, table, visible};
use baton_core::handoffs::yaml::{HandoffFile, names};
use baton_state::files::yaml_files::{FileSummary, HandoffYaml};

/// Pause between two reads of `show --line --follow`.
const LOOK: Duration = Duration::from_secs(1);

/// Default length of a list of files.
const LISTED: usize = 10;

/// Width of a goal in a list on a terminal.
const GOAL_WIDTH: usize = 60;

pub(super) fn list(args: &ListArgs, names: &HandoffLookup, out: &mut Out) -> CliResult {
    let directory = &names.directory;
    if args.ledger {
        return ledger(args.session.as_deref().unwrap_or_default(), names, out);
    }
    if args.sessions {
        let sessions = directory.sessions()?;
        if args.format.jsonl {
            out.rows(&sessions, args.format)?;
        } else if args.format.json {
            out.json(&json!({"count": sessions.len(), "sessions": sessions}))?;
        } else {
            for session in sessions {
                out.line(session)?;
            }
        }
        return Ok(());
    }
    let listing = directory.list(args.session.as_deref(), args.limit.unwrap_or(LISTED), args.all)?;
    warn(&listing.warnings);
    let found = listing.found;
    if args.format.jsonl {
        return out.rows(&found, args.format);
    }
    if args.format.json {
        return out.json(&json!({"session": args.session, "count": found.len(), "handoffs": found}));
    }
    if found.is_empty() {
        return none(args.session.as_deref(), names);
    }
    let rows: Vec<_> = found.iter().map(|one| row(one, out.width())).collect();
    out.lines(table(&rows))
}

/// Prints to standard error which files exist instead. A missing file is not an error.
fn none(session: Option<&str>, names: &HandoffLookup) -> CliResult {
    let mut beside = Out::stderr();
    let sessions = names.directory.sessions()?;
    let dir = shown(names.directory.dir());
    let of = session.map_or(String::new(), |session| format!(" of the session {session}"));
    beside.line(format_args!("no handoff files{} in {}", visible(&of), dir))?;
    if !sessions.is_empty() {
        beside.line(format_args!("sessions that have some: {}", sessions.join(", ")))?;
    }
    beside.line("`baton handoffs list` lists the handoffs of the store")
}

fn row(one: &FileSummary, width: Option<usize>) -> Vec<String> {
    let name = one.path.file_name().unwrap_or_default().to_string_lossy();
    let archive = if one.archived { ".archive/" } else { "" };
    // Without seconds and offset.
    let date: String = one.date.chars().take("2026-11-22T18:05".len()).collect();
    let status = if one.status.is_empty() { "-" } else { &one.status };
    vec![
        visible(&date),
        first_line(&format!("{}/{archive}{name}", one.session), None),
        first_line(status, None),
        first_line(&one.goal, width.map(|_| GOAL_WIDTH)),
    ]
}

/// Shows the newest file of a session.
///
/// Without a session it is the newest of the working directory (`--here`), or of all sessions.
pub(super) fn newest(
    args: &ShowArgs,
    session: Option<&str>,
    lookup: &HandoffLookup,
    out: &mut Out,
) -> CliResult {
    let found = match args.here {
        true => lookup.latest_here()?,
        false => lookup.latest(session)?,
    };
    match found {
        Some(found) => print_found(args, &found, out),
        None => none(session, lookup),
    }
}

/// Prints a file in this format.
pub(super) fn print(file: &HandoffFile, format: DocumentFormat, out: &mut Out) -> CliResult {
    match format {
        DocumentFormat::Yaml => out.document(&file.to_yaml())?,
        DocumentFormat::Json => out.json(&file.to_value().to_json())?,
        DocumentFormat::Md => out.document(&file.to_markdown())?,
    }
    Ok(())
}

pub(super) fn print_found(args: &ShowArgs, found: &HandoffYaml, out: &mut Out) -> CliResult {
    if args.path {
        return out.line(shown(&found.path));
    }
    // A file with invalid fields is printed nevertheless.
    warn(&found.errors);
    let by_default = match args.json {
        true => DocumentFormat::Json,
        false => DocumentFormat::Yaml,
    };
    print(&found.file, args.format.unwrap_or(by_default), out)
}

/// Failure for a session if a single file is needed.
pub(super) fn is_session(session: &str) -> CommandFailure {
    Exit::USAGE.with_help(format!("{session} is a session"), format!(
        "`baton handoffs show {session}` prints its newest handoff file, `baton handoffs list {session}` lists them"
    ))
}

pub(super) fn line(session: Option<&str>, follow: bool, lookup: &HandoffLookup, out: &mut Out) -> CliResult {
    let mut before = String::new();
    loop {
        let newest = lookup.directory.line(session)?;
        let line = newest.map_or(String::new(), |newest| newest.line());
        if line != before && !line.is_empty() {
            out.line(visible(&line))?;
        }
        before = line;
        if !follow {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// Archives a file, or restores it.
///
/// A file to restore is named by its path in the archive or by its original path.
pub(super) fn archive(path: &Path, undo: bool, names: &HandoffLookup, out: &mut Out) -> CliResult {
    // An original path finds the archived file as well, but only to restore it.
    let archived = names.directory.archived(path).filter(|_| undo);
    let path = archived.as_deref().unwrap_or(path);
    exists(path, names)?;
    let place = match undo {
        true => names.directory.restore(path),
        false => names.directory.archive(path),
    };
    let place = place?;
    out.line(shown(&place))
}

/// Fails for a missing file of the directory, and for a relative path to nothing.
fn exists(path: &Path, names: &HandoffLookup) -> CliResult {
    let dir = names.directory.dir();
    let is_missing =
        std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    if !is_missing || (path.is_absolute() && !path.starts_with(dir)) {
        return Ok(());
    }
    let inside = |path: &Path| shown(path.strip_prefix(dir).unwrap_or(path));
    let given = inside(path);
    Err(match names.directory.archived(path) {
        Some(place) => {
            let help = format!("its name there is {}", inside(&place));
            Exit::NO_INPUT.with_help(format!("{given} is in the archive"), help)
        }
        None => {
            let message = format!("there is no handoff file {given} in {}", shown(dir));
            let help = "`baton handoffs list --files` lists the files, and --all includes archived ones";
            Exit::NO_INPUT.with_help(message, help)
        }
    })
}

/// Resolves the path of the handoff file to delete. Sessions and stored handoffs are refused.
pub(super) fn deletable(given: &Path, names: &HandoffLookup) -> CliResult<PathBuf> {
    let text = given.to_string_lossy();
    let (message, help) = match names.find(&text)? {
        NamedHandoff::File(path) => return exists(&path, names).map(|()| path),
        NamedHandoff::Session(session) => (
            format!("{session} is a session"),
            format!("name one of its files: `baton handoffs list {session}`"),
        ),
        NamedHandoff::Stored(_) | NamedHandoff::Document(_) => (
            format!("{} is a handoff of the store, not a handoff file", visible(&text)),
            "a handoff of the store is archived (`baton handoffs archive ID`), or deleted with all its traces (`baton store forget --handoff ID`)"
                .to_owned(),
        ),
    };
    Err(Exit::USAGE.with_help(message, help))
}

pub(super) fn clean(before: i64, args: &DeleteArgs, lookup: &HandoffLookup, out: &mut Out) -> CliResult {
    let deleted = lookup.directory.clean(before, args.archived, args.dry_run)?;
    if args.dry_run {
        for path in &deleted {
            out.line(shown(path))?;
        }
    }
    let would = if args.dry_run { "would be " } else { "" };
    out.line(format_args!(
        "{} {would}deleted",
        plural(deleted.len() as u64, "file")
    ))
}

fn ledger(session: &str, lookup: &HandoffLookup, out: &mut Out) -> CliResult {
    let session = names::session(session);
    if !names::is_session(session) {
        return Err(Exit::USAGE.failure("not a valid session name: use letters, digits, `_` and `-`"));
    }
    match std::fs::read(lookup.directory.ledger(session)) {
        Ok(text) => out.body(&text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => none(Some(session), lookup),
        Err(error) => Err(Exit::IO.failure(format!("failed to read the ledger: {error}"))),
    }
}
