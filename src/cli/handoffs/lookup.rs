//! Looks up the handoff that a user names.
//!
//! A handoff of the store has an id, a directory or a JSON document. A YAML file has a path or a session.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use super::args::DirectoryArgs;
use crate::cli::exit::{CliResult, CommandFailure, Exit};
use crate::cli::output::{Out, plural, shown, visible};
use crate::cli::stored::{find_id, is_id, open};
use crate::cli::{block_on, load_state};
use baton_core::handoffs::document::HandoffDocument;
use baton_core::handoffs::yaml::{HandoffFile, names};
use baton_core::record::{DocumentRecord, HandoffId};
use baton_state::config::Config;
use baton_state::disk;
use baton_state::files::documents::{JSON, document_of};
use baton_state::files::yaml_files::{HandoffDirectory, HandoffYaml, read_file};
use baton_state::store::{DocumentFilter, HandoffFilter, SharedStore};

/// Hint on where to find names.
const LISTS: &str = "`baton handoffs list --all` lists handoffs, `baton handoffs list --files` their files";

/// Failure for a name that refers to nothing.
fn unknown(given: &str) -> CommandFailure {
    let message = format!("there is no handoff, session or file {}", visible(given));
    Exit::NO_INPUT.with_help(message, LISTS)
}

/// Prints problems that do not stop a command.
pub(super) fn warn(warnings: &[impl Display]) {
    let mut err = Out::stderr();
    for warning in warnings {
        // Ignored: standard error may be closed.
        let _ = err.line(format_args!("warning: {}", visible(&warning.to_string())));
    }
}

/// Referent of a name.
pub(super) enum NamedHandoff {
    /// A handoff in the store.
    Stored(HandoffId),
    /// A document's JSON on disk.
    Document(PathBuf),
    /// A handoff file.
    File(PathBuf),
    /// A session with handoff files.
    Session(String),
}

/// Resolves names, in the directory of handoff files and in the store.
pub(super) struct HandoffLookup {
    pub(super) directory: HandoffDirectory,
    pub(super) config: Config,
}

impl HandoffLookup {
    pub(super) fn new(args: &DirectoryArgs) -> CliResult<Self> {
        let config = load_state(&args.state, &[])?;
        let dir = args.dir.clone().unwrap_or_else(|| config.handoffs_dir());
        let directory = HandoffDirectory::new(&dir)?.keeping(config.documents.keep_files);
        Ok(Self { directory, config })
    }

    /// Resolves a name: a path on disk, else a session, else a handoff's id or a unique prefix of one.
    pub(super) fn find(&self, given: &str) -> CliResult<NamedHandoff> {
        let path = self.directory.named(Path::new(given));
        if path.join(JSON).is_file() {
            return Ok(NamedHandoff::Document(path.join(JSON)));
        }
        let ends = |suffix: &str| given.ends_with(suffix);
        // Documents and handoff files may both be JSON, so the content decides.
        if ends(".json") && !is_handoff_file(&path) {
            return Ok(NamedHandoff::Document(path));
        }
        if ends(names::SUFFIX) || ends(".yml") || ends(".json") {
            return Ok(NamedHandoff::File(path));
        }
        if names::is_session(given) && self.directory.has_session(given) {
            return Ok(NamedHandoff::Session(given.to_owned()));
        }
        // For example a file that `create -o` has written, with any ending.
        if path.is_file() {
            return Ok(NamedHandoff::File(path));
        }
        if !is_id(given) {
            return Err(unknown(given));
        }
        let ids = blocking(&self.config, async |store| ids(&store).await)?;
        let id = find_id(ids.into_iter(), given).map_err(|failure| match failure.exit {
            // An unknown id may also be a misspelled session or file.
            Exit::NO_INPUT => unknown(given),
            _ => failure,
        })?;
        Ok(NamedHandoff::Stored(id))
    }

    /// Reads the newest handoff file of a session, or of all sessions.
    pub(super) fn latest(&self, session: Option<&str>) -> CliResult<Option<HandoffYaml>> {
        let listing = self.directory.latest(session)?;
        warn(&listing.warnings);
        Ok(listing.found)
    }

    /// Reads the newest handoff file of the session that hooks name after the working directory.
    ///
    /// Skips a file of another directory with that name, which may be of a hostile repository or read in one.
    pub(super) fn latest_here(&self) -> CliResult<Option<HandoffYaml>> {
        let here = fs::canonicalize(".")?;
        let session = names::session_of(&here.file_name().unwrap_or_default().to_string_lossy());
        let is_elsewhere = |found: &HandoffYaml| {
            // A directory that is gone was moved, or is on another machine.
            let stated = found.file.findings.get(names::DIRECTORY);
            stated
                .and_then(|dir| fs::canonicalize(dir).ok())
                .is_some_and(|dir| dir != here)
        };
        let paths = self.directory.paths(&session)?.into_iter();
        let mut found = paths.filter_map(|path| read_file(&path).ok());
        Ok(found.find(|found| !is_elsewhere(found)))
    }

    /// Resolves a name to a handoff file, by default the newest. A document is converted to one.
    ///
    /// The inner failure means that there is nothing to compare.
    pub(super) fn find_file(&self, given: Option<&str>) -> CliResult<CliResult<HandoffYaml>> {
        let nothing = |message| Exit::NO_INPUT.with_help(message, LISTS);
        let named = match given.map(|given| self.find(given)) {
            None => {
                let dir = shown(self.directory.dir());
                let none = || nothing(format!("there is no handoff file in {dir}"));
                return Ok(self.latest(None)?.ok_or_else(none));
            }
            Some(Err(unknown)) if [Exit::NO_INPUT, Exit::USAGE].contains(&unknown.exit) => {
                return Ok(Err(unknown));
            }
            Some(named) => named?,
        };
        Ok(match named {
            NamedHandoff::Stored(id) => match blocking(&self.config, async |store| one(&store, id).await) {
                Err(_) => Err(nothing(format!("handoff {id} has no document"))),
                Ok(record) => {
                    let document = document_of(&record).ok_or_else(|| other_version(&record))?;
                    Ok(found(PathBuf::from(&record.directory).join(JSON), &document))
                }
            },
            NamedHandoff::Document(path) => {
                let document = read_document(&path)?;
                Ok(found(path, &document))
            }
            NamedHandoff::File(path) => Ok(read_file(&path)?),
            NamedHandoff::Session(session) => self
                .latest(Some(&session))?
                .ok_or_else(|| nothing(format!("no file of session {session} can be read"))),
        })
    }

    /// Counts the handoff files and names the command that lists them; `None` if there are no files.
    pub(super) fn files_hint(&self) -> Option<String> {
        let files = self.directory.count().unwrap_or_default();
        let hint = || format!("{}: baton handoffs list --files", plural(files, "handoff file"));
        (files > 0).then(hint)
    }
}

/// Failure for a handoff file or a session, because only handoffs in the store can be resumed.
pub(super) fn only_stored(config: &Config, given: &str, failure: CommandFailure) -> CommandFailure {
    let end = Path::new(given).extension();
    let is_file = end.is_some_and(|end| end == "yaml" || end == "yml");
    let directory = HandoffDirectory::new(&config.handoffs_dir());
    let is_session = directory.is_ok_and(|directory| directory.has_session(given));
    if !(is_file || is_session) {
        return failure;
    }
    let given = visible(given);
    let kind = if is_session {
        "a session of handoff files"
    } else {
        "a handoff file"
    };
    let message = format!("{given} is {kind}; only handoffs in the store can be resumed");
    let help = format!("`baton handoffs show {given} --for fresh` prints a summary to begin a session with");
    Exit::USAGE.with_help(message, help)
}

/// Whether a JSON file is a handoff file (`--format json`) and not a document.
fn is_handoff_file(path: &Path) -> bool {
    let text = disk::read_named(path).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    value.get("goal").is_some() && value.get("next_action").is_none()
}

fn found(path: PathBuf, document: &HandoffDocument) -> HandoffYaml {
    HandoffYaml {
        path,
        file: HandoffFile::of_whole_document(document),
        errors: Vec::new(),
    }
}

/// Reads a document from its JSON.
pub(super) fn read_document(path: &Path) -> CliResult<HandoffDocument> {
    let text = disk::read_named(path)
        .map_err(|error| Exit::NO_INPUT.failure(format!("failed to read {}: {error}", shown(path))))?;
    HandoffDocument::read(&text).map_err(|error| {
        Exit::DATA.with_help(
            format!("{}: not the document of a handoff: {error}", shown(path)),
            "`baton handoffs create --from-file FILE` reads a handoff file in JSON",
        )
    })
}

pub(super) fn other_version(record: &DocumentRecord) -> CommandFailure {
    Exit::DATA.failure(format!(
        "the document of {} is of another version",
        record.handoff
    ))
}

/// Reads the records of all documents, newest first.
pub(super) async fn all(store: &SharedStore, without_documents: bool) -> CliResult<Vec<DocumentRecord>> {
    let all = DocumentFilter {
        without_documents,
        ..DocumentFilter::default()
    };
    Ok(store.documents(&all).await?)
}

/// Collects the ids of all handoffs and documents, including archived ones.
pub(super) async fn ids(store: &SharedStore) -> CliResult<BTreeSet<HandoffId>> {
    let handoffs = store.handoffs(&HandoffFilter::everything()).await?;
    let documents = all(store, true).await?.into_iter();
    let documents = documents.map(|document| document.handoff);
    Ok(handoffs
        .iter()
        .map(|handoff| handoff.id)
        // A document may outlive its handoff.
        .chain(documents)
        .collect())
}

/// Reads the document of a handoff.
pub(super) async fn one(store: &SharedStore, id: HandoffId) -> CliResult<DocumentRecord> {
    let one = DocumentFilter {
        handoff: Some(id),
        ..DocumentFilter::default()
    };
    let found = store.documents(&one).await?.pop();
    found.ok_or_else(|| {
        Exit::NO_INPUT.failure("this handoff has no document in the store of this state directory")
    })
}

/// Opens the config's store and runs `ask` on it. Must be called outside of any runtime.
pub(super) fn blocking<T>(
    config: &Config,
    ask: impl AsyncFnOnce(SharedStore) -> CliResult<T>,
) -> CliResult<T> {
    // Opened inside the runtime, because the client of a server spawns its tasks there.
    block_on(async { ask(open(config)?).await })
}
