//! The commands over files that are there.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::common::print;
use crate::cli::exit::{Exit, Failure};
use crate::cli::handoff_file_args::{CleanArgs, FileArgs, Format, LedgerArgs, LineArgs};
use crate::cli::output::{Out, first_line, plural, table, visible};
use crate::cli::packet_args::{PacketForm, PacketLatestArgs, PacketListArgs};
use crate::cli::packet_names::{Named, Names};
use crate::cli::packet_names::{failure, folder, warn};
use crate::state::files::yaml_files::{LineReader, Listed, now, read_file};
use baton_core::handoffs::yaml::{FieldError, names};

/// Pause between two looks of `line --follow`.
const LOOK: Duration = Duration::from_secs(1);

/// Files of a list.
const LISTED: usize = 10;

/// Width of a goal in a list on a terminal.
const GOAL_WIDTH: usize = 60;

pub(in crate::cli) fn list(args: &PacketListArgs, names: &Names, out: &mut Out) -> Result<(), Failure> {
    let folder = &names.folder;
    if args.sessions {
        let sessions = folder.sessions().map_err(failure)?;
        if args.format.jsonl {
            out.rows(&sessions, args.format)?;
        } else if args.format.json {
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
    if args.format.jsonl {
        return Ok(out.rows(&found, args.format)?);
    }
    if args.format.json {
        out.json(&json!({"session": args.session, "count": found.len(), "handoffs": found}))?;
        return Ok(());
    }
    if found.is_empty() {
        return none(args.session.as_deref(), names);
    }
    for line in table(&found.iter().map(|one| row(one, out.width())).collect::<Vec<_>>()) {
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

/// Says to standard error what there is instead: that there is no file is no error.
fn none(session: Option<&str>, names: &Names) -> Result<(), Failure> {
    let mut beside = Out::stderr();
    let sessions = names.folder.sessions().map_err(failure)?;
    let dir = names.folder.dir().display().to_string();
    let of = session.map_or(String::new(), |session| format!(" of the session {session}"));
    beside.line(format_args!(
        "no handoff files{} in {}",
        visible(&of),
        visible(&dir)
    ))?;
    if !sessions.is_empty() {
        beside.line(format_args!("sessions that have some: {}", sessions.join(", ")))?;
    }
    beside.line(format_args!(
        "`baton packets list` lists the packets of the store"
    ))?;
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

pub(in crate::cli) fn show(
    path: &Path,
    form: PacketForm,
    given: Option<Format>,
    out: &mut Out,
) -> Result<(), Failure> {
    let found = read_file(path).map_err(failure)?;
    if form.path {
        out.line(format_args!("{}", visible(&found.path.display().to_string())))?;
        return Ok(());
    }
    tell_errors(&found.errors);
    print(&found.file, format(given, form), out)
}

pub(in crate::cli) fn latest(args: &PacketLatestArgs, names: &Names, out: &mut Out) -> Result<(), Failure> {
    let listing = names.folder.latest(args.session.as_deref()).map_err(failure)?;
    warn(&listing.warnings);
    let Some(found) = listing.found else {
        return none(args.session.as_deref(), names);
    };
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

pub(in crate::cli) fn archive(path: &Path, undo: bool, names: &Names, out: &mut Out) -> Result<(), Failure> {
    let place = match undo {
        true => names.folder.restore(path),
        false => names.folder.archive(path),
    };
    let place = place.map_err(failure)?;
    out.line(format_args!("{}", visible(&place.display().to_string())))?;
    Ok(())
}

pub(super) fn delete(args: &FileArgs, out: &mut Out) -> Result<(), Failure> {
    let names = Names::of(&args.folder)?;
    let path = named(
        &args.file,
        &names,
        "a packet is not deleted, since its handoff can be resumed: `baton packets archive ID`",
    )?;
    names.folder.delete(&path).map_err(failure)?;
    out.line(format_args!("deleted {}", visible(&path.display().to_string())))?;
    Ok(())
}

/// The handoff file that is meant; `not_of_packets` is what to do where it is a packet.
pub(super) fn named(given: &Path, names: &Names, not_of_packets: &str) -> Result<PathBuf, Failure> {
    let text = given.to_string_lossy();
    match names.find(&text)? {
        Named::File(path) => Ok(path),
        Named::Session(session) => Err(Failure::new(Exit::USAGE, format!("{session} is a session"))
            .help(format!("name one of its files: `baton packets list {session}`"))),
        Named::Packet(_) | Named::Json(_) => {
            let message = format!("{} is a packet, not a handoff file", visible(&text));
            Err(Failure::new(Exit::USAGE, message).help(not_of_packets))
        }
    }
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
    let names = Names::of(&args.folder)?;
    let session = names::session(&args.session);
    if !names::is_session(session) {
        return Err(Failure::new(
            Exit::USAGE,
            "no name for a session: letters, digits, `_` and `-` alone",
        ));
    }
    match std::fs::read(names.folder.ledger(session)) {
        Ok(text) => Ok(out.body(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => none(Some(session), &names),
        Err(error) => Err(Failure::new(
            Exit::IO,
            format!("the ledger cannot be read: {error}"),
        )),
    }
}
