//! `baton handoffs check`, and the summary of `show --for`: a file's contents, and whether they are still
//! true.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::args::{CheckHandoffArgs, ShowArgs};
use super::lookup::{self, HandoffLookup, NamedHandoff, blocking};
use crate::cli::exit::{CliResult, Exit};
use crate::cli::output::{Out, plural, shown, visible};
use baton_core::handoffs::FieldError;
use baton_core::handoffs::document::validate;
use baton_core::handoffs::yaml::{Drift, RecoveryPurpose, recover as recovered, score};
use baton_state::config::Config;
use baton_state::files::documents::{JSON, MARKDOWN};
use baton_state::files::yaml_files::gather::compared;
use baton_state::files::yaml_files::{FileError, now, read_file};

/// Time limit for all git queries together.
const LIMIT: Duration = Duration::from_secs(20);

/// Prints a summary of a handoff file, and whether it is still true.
pub(super) fn summary(args: &ShowArgs, names: &HandoffLookup, out: &mut Out) -> CliResult {
    let found = match (args.here, &args.name) {
        (true, _) => names.latest_here()?,
        (false, name) => names.find_file(name.as_deref())?.ok(),
    };
    // Not an error, because hooks ask for a summary in sessions without a file as well.
    let Some(found) = found else {
        if args.json {
            out.json(&json!({"path": null, "text": "", "drift": null}))?;
        }
        return Ok(());
    };
    let purpose = args.purpose.unwrap_or_default();
    let text = recovered(&found.file, purpose);
    let dir = repository(args.git_dir.as_deref(), &names.config);
    let drift = compared(&found.file, Some(dir), LIMIT);
    if args.json {
        return out.json(&json!({
            "path": found.path,
            "text": text,
            "drift": drift,
            "drifted": drift.is_drift(),
            "compared": drift.compared,
        }));
    }
    out.line(visible(&text))?;
    if purpose != RecoveryPurpose::Compact {
        let line = match drift.compared {
            true => drift.line(),
            false => uncompared(&drift, dir),
        };
        out.line(visible(&line))?;
    }
    Ok(())
}

pub(super) fn run(args: &CheckHandoffArgs, out: &mut Out) -> CliResult {
    let names = HandoffLookup::new(&args.directory)?;
    let name = match &args.names[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => {
            let message = "only one handoff at a time can be compared with the repository";
            return Err(Exit::USAGE.with_help(message, "--syntax checks any number"));
        }
    };
    let found = names.find_file(name)??;
    let dir = repository(args.git_dir.as_deref(), &names.config);
    let drift = compared(&found.file, Some(dir), LIMIT);
    // Success would claim that the file is still true.
    if !drift.compared {
        let failure = Exit::NO_INPUT.failure(format!("{}; nothing was compared", no_repository(dir)));
        return Err(failure.help("give the repository that the handoff is about: --git-dir DIR"));
    }
    if args.json {
        let quality = score(&found.file, now()).to_value().to_json();
        out.json(&json!({
            "path": found.path,
            "drifted": drift.is_drift(),
            "drift": drift,
            "quality": quality,
            "errors": found.errors,
        }))?;
    } else {
        out.line(visible(&drift.line()))?;
    }
    match drift.is_drift() {
        true => Err(Exit::DRIFT.silent()),
        false => Ok(()),
    }
}

/// Directory that a handoff is compared with.
fn repository<'a>(git_dir: Option<&'a Path>, config: &'a Config) -> &'a Path {
    let dir = git_dir.or(config.documents.git_dir.as_deref());
    dir.unwrap_or(Path::new("."))
}

fn no_repository(dir: &Path) -> String {
    match dir == Path::new(".") {
        true => "the working directory is not a Git repository".to_owned(),
        false => format!("{} is not a Git repository", shown(dir)),
    }
}

/// Line for a handoff that could not be compared.
fn uncompared(drift: &Drift, dir: &Path) -> String {
    let why = no_repository(dir);
    match drift.age() {
        Some(age) => format!("Not compared: {why}; {age}"),
        None => format!("Not compared: {why}"),
    }
}

/// Errors of a document. The field names are public API.
#[derive(Serialize)]
struct CheckedDocument {
    path: String,
    valid: bool,
    errors: Vec<FieldError>,
    /// Hints that are not errors.
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

/// Runs `check --syntax` over documents of the store and handoff files.
pub(super) fn syntax(args: &CheckHandoffArgs, out: &mut Out) -> CliResult {
    let names = HandoffLookup::new(&args.directory)?;
    let wanted = match args.names.is_empty() {
        true => everything(&names)?,
        false => {
            let found = args.names.iter().map(|what| names.find(what));
            found.collect::<Result<_, _>>()?
        }
    };
    let (mut checked, mut unread) = (Vec::new(), None);
    for one in &wanted {
        let files = match one {
            NamedHandoff::Stored(id) => {
                let record = blocking(&names.config, async |store| lookup::one(&store, *id).await)?;
                checked.push(document(&Path::new(&record.directory).join(JSON)));
                continue;
            }
            NamedHandoff::Document(path) => {
                checked.push(document(path));
                continue;
            }
            NamedHandoff::File(path) => vec![path.clone()],
            NamedHandoff::Session(session) => names.directory.paths(session)?,
        };
        for path in files {
            match file(&path) {
                Ok(one) => checked.push(one),
                // The other files are still checked, and the first failure is reported at the end.
                Err(failure) => unread = unread.or(Some(failure)),
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

/// Returns every document of the store, and every handoff file.
fn everything(names: &HandoffLookup) -> CliResult<Vec<NamedHandoff>> {
    let documents = blocking(&names.config, async |store| lookup::all(&store, true).await)?;
    let documents = documents
        .into_iter()
        .map(|document| NamedHandoff::Stored(document.handoff));
    let sessions = names.directory.sessions()?;
    let sessions = sessions.into_iter().map(NamedHandoff::Session);
    Ok(documents.chain(sessions).collect())
}

/// Checks a handoff file. Invalid YAML is one error; a missing file is a failure.
fn file(path: &Path) -> CliResult<CheckedDocument> {
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

/// Checks a document's JSON together with its Markdown.
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

/// Prints a line for each problem, and a line `valid` for each valid file.
fn print(checked: &[CheckedDocument], out: &mut Out) -> CliResult {
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
