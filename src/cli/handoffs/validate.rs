//! `baton handoffs check --syntax`: documents of the store and YAML files.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::lookup::{HandoffLookup, NamedHandoff, all, blocking};
use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::CheckHandoffArgs;
use crate::cli::output::{Out, plural, visible};
use crate::state::files::documents::{JSON, MARKDOWN};
use crate::state::files::yaml_files::{FileError, read_file};
use baton_core::handoffs::FieldError;
use baton_core::handoffs::document::fields::validate;

/// The errors of a document. The names are API.
#[derive(Serialize)]
struct CheckedDocument {
    path: String,
    valid: bool,
    errors: Vec<FieldError>,
    /// Hints that are no errors.
    notes: Vec<FieldError>,
}

impl CheckedDocument {
    fn new(path: &Path, errors: Vec<FieldError>, notes: Vec<FieldError>) -> Self {
        Self {
            path: path.display().to_string(),
            valid: errors.is_empty(),
            errors,
            notes,
        }
    }
}

pub(super) fn run(args: &CheckHandoffArgs, out: &mut Out) -> Result<(), CommandFailure> {
    let names = HandoffLookup::of(&args.folder)?;
    let wanted = match args.names.is_empty() {
        true => everything(&names)?,
        false => {
            let found = args.names.iter().map(|what| names.find(what));
            found.collect::<Result<_, _>>()?
        }
    };
    let (mut checked, mut unread) = (Vec::new(), None);
    for one in &wanted {
        match one {
            NamedHandoff::Stored(id) => {
                let record = blocking(&names.config, async |store| super::lookup::one(&store, *id).await)?;
                checked.push(document(&Path::new(&record.folder).join(JSON)));
            }
            NamedHandoff::Document(path) => checked.push(document(path)),
            NamedHandoff::File(path) => push(file(path), &mut checked, &mut unread),
            NamedHandoff::Session(session) => {
                for path in names.folder.paths(session)? {
                    push(file(&path), &mut checked, &mut unread);
                }
            }
        }
    }
    match args.json {
        true => out.json(&checked)?,
        false if wanted.is_empty() => Out::stderr().line("no files to check")?,
        false => print(&checked, out)?,
    }
    let wrong = checked.iter().filter(|one| !one.valid).count();
    match (unread, wrong) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, wrong) => {
            let are = if wrong == 1 { "is" } else { "are" };
            let all = plural(checked.len() as u64, "file");
            Err(Exit::DATA.failure(format!("{wrong} of {all} {are} not valid")))
        }
    }
}

fn push(
    done: Result<CheckedDocument, CommandFailure>,
    checked: &mut Vec<CheckedDocument>,
    unread: &mut Option<CommandFailure>,
) {
    match done {
        Ok(one) => checked.push(one),
        Err(failure) => *unread = unread.take().or(Some(failure)),
    }
}

/// Every document of the store, and every handoff file.
fn everything(names: &HandoffLookup) -> Result<Vec<NamedHandoff>, CommandFailure> {
    let documents = blocking(&names.config, async |store| all(&store, true).await)?;
    let documents = documents
        .into_iter()
        .map(|document| NamedHandoff::Stored(document.handoff));
    let sessions = names.folder.sessions()?;
    Ok(documents
        .chain(sessions.into_iter().map(NamedHandoff::Session))
        .collect())
}

/// A handoff file. Invalid YAML is one error; a missing file is a failure.
fn file(path: &Path) -> Result<CheckedDocument, CommandFailure> {
    match read_file(path) {
        Ok(found) => {
            let notes = found.file.notes();
            Ok(CheckedDocument::new(path, found.errors, notes))
        }
        Err(FileError::Malformed(_, error)) => {
            let error = FieldError {
                field: String::new(),
                message: error.to_string(),
                value: String::new(),
            };
            Ok(CheckedDocument::new(path, vec![error], Vec::new()))
        }
        Err(error) => Err(error.into()),
    }
}

/// A document's JSON, with its Markdown.
fn document(json: &Path) -> CheckedDocument {
    let errors = match fs::read_to_string(json) {
        Ok(text) => {
            // A JSON file of another name has no Markdown.
            let beside = json.file_name().is_some_and(|name| name == JSON);
            let markdown =
                beside.then(|| fs::read_to_string(json.with_file_name(MARKDOWN)).unwrap_or_default());
            validate(&text, markdown.as_deref())
        }
        Err(error) => vec![FieldError {
            field: JSON.to_owned(),
            message: error.to_string(),
            value: String::new(),
        }],
    };
    CheckedDocument::new(json, errors, Vec::new())
}

/// A line for each problem, or one that reports none.
fn print(checked: &[CheckedDocument], out: &mut Out) -> Result<(), CommandFailure> {
    for one in checked {
        let path = visible(&one.path);
        for error in &one.errors {
            out.line(format_args!("{path}: {}", visible(&error.to_string())))?;
        }
        for note in &one.notes {
            out.line(format_args!("{path}: note: {}", visible(&note.to_string())))?;
        }
        if one.valid {
            out.line(format_args!("{path}: valid"))?;
        }
    }
    Ok(())
}
