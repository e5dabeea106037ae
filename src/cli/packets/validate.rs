//! `baton packets validate`: packets and handoff files alike.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Out, visible};
use crate::cli::packet_args::PacketValidateArgs;
use crate::cli::packet_names::failure;
use crate::cli::packet_names::{Named, Names, all, blocking};
use crate::state::files::documents::{JSON, MARKDOWN};
use crate::state::files::yaml_files::{FileError, read_file};
use baton_core::handoffs::document::fields::{SchemaViolation, validate};
use baton_core::handoffs::yaml::FieldError;

/// What is wrong with one document. The names are API.
#[derive(Serialize)]
struct Checked {
    path: String,
    valid: bool,
    errors: Vec<Wrong>,
    /// What is worth telling and no error.
    notes: Vec<Wrong>,
}

/// One thing that is wrong. The names are API.
#[derive(Serialize)]
struct Wrong {
    field: String,
    message: String,
    value: String,
}

impl From<SchemaViolation> for Wrong {
    fn from(it: SchemaViolation) -> Self {
        Self {
            field: it.field,
            message: it.message,
            value: it.value,
        }
    }
}

impl From<FieldError> for Wrong {
    fn from(it: FieldError) -> Self {
        Self {
            field: it.field,
            message: it.message,
            value: it.value,
        }
    }
}

impl Checked {
    fn new(path: &Path, errors: Vec<Wrong>, notes: Vec<Wrong>) -> Self {
        Self {
            path: path.display().to_string(),
            valid: errors.is_empty(),
            errors,
            notes,
        }
    }
}

pub(super) fn run(args: &PacketValidateArgs, out: &mut Out) -> Result<(), Failure> {
    let names = Names::of(&args.folder)?;
    let wanted = match args.what.is_empty() {
        true => everything(&names)?,
        false => {
            let found = args.what.iter().map(|what| names.find(what));
            found.collect::<Result<_, _>>()?
        }
    };
    let (mut checked, mut unread) = (Vec::new(), None);
    for one in &wanted {
        match one {
            Named::Packet(record) => checked.push(packet(&Path::new(&record.folder).join(JSON))),
            Named::Json(path) => checked.push(packet(path)),
            Named::File(path) => push(file(path), &mut checked, &mut unread),
            Named::Session(session) => {
                for path in names.folder.paths(session).map_err(failure)? {
                    push(file(&path), &mut checked, &mut unread);
                }
            }
        }
    }
    match args.json {
        true => out.json(&checked)?,
        false => print(&checked, out)?,
    }
    let wrong = checked.iter().filter(|one| !one.valid).count();
    match (unread, wrong) {
        (Some(failure), _) => Err(failure),
        (None, 0) => Ok(()),
        (None, wrong) => Err(Failure::new(
            Exit::DATA,
            format!("{wrong} of {} are not valid", checked.len()),
        )),
    }
}

fn push(done: Result<Checked, Failure>, checked: &mut Vec<Checked>, unread: &mut Option<Failure>) {
    match done {
        Ok(one) => checked.push(one),
        Err(failure) => *unread = unread.take().or(Some(failure)),
    }
}

/// Every packet of the store, and every handoff file.
fn everything(names: &Names) -> Result<Vec<Named>, Failure> {
    let packets = blocking(&names.config, async |store| all(&store, true).await)?;
    let packets = packets.into_iter().map(|packet| Named::Packet(Box::new(packet)));
    let sessions = names.folder.sessions().map_err(failure)?;
    Ok(packets.chain(sessions.into_iter().map(Named::Session)).collect())
}

/// A handoff file. One that is no YAML has one error; one that is not there is a failure.
fn file(path: &Path) -> Result<Checked, Failure> {
    let wrong = |all: Vec<FieldError>| all.into_iter().map(Wrong::from).collect();
    match read_file(path) {
        Ok(found) => {
            let notes = found.file.notes();
            Ok(Checked::new(path, wrong(found.errors), wrong(notes)))
        }
        Err(FileError::Malformed(_, error)) => {
            let error = Wrong {
                field: String::new(),
                message: error.to_string(),
                value: String::new(),
            };
            Ok(Checked::new(path, vec![error], Vec::new()))
        }
        Err(error) => Err(failure(error)),
    }
}

/// A packet's JSON, with the Markdown beside it.
fn packet(json: &Path) -> Checked {
    let errors = match fs::read_to_string(json) {
        Ok(text) => {
            // A JSON file of another name stands alone.
            let beside = json.file_name().is_some_and(|name| name == JSON);
            let markdown =
                beside.then(|| fs::read_to_string(json.with_file_name(MARKDOWN)).unwrap_or_default());
            validate(&text, markdown.as_deref())
        }
        Err(error) => vec![SchemaViolation {
            field: JSON.to_owned(),
            message: error.to_string(),
            value: String::new(),
        }],
    };
    let errors = errors.into_iter().map(Wrong::from).collect();
    Checked::new(json, errors, Vec::new())
}

/// A line for everything that is wrong, or one that says that nothing is.
fn print(checked: &[Checked], out: &mut Out) -> Result<(), Failure> {
    for one in checked {
        let path = visible(&one.path);
        for error in &one.errors {
            out.line(format_args!("{path}: {}", told(error)))?;
        }
        for note in &one.notes {
            out.line(format_args!("{path}: note: {}", told(note)))?;
        }
        if one.valid {
            out.line(format_args!("{path}: valid"))?;
        }
    }
    Ok(())
}

fn told(wrong: &Wrong) -> String {
    let field = match wrong.field.as_str() {
        "" => String::new(),
        field => format!("{field}: "),
    };
    let value = match wrong.value.as_str() {
        "" => String::new(),
        value => format!(" (found {value:?})"),
    };
    visible(&format!("{field}{}{value}", wrong.message))
}
