//! Looks up what a user names: a handoff of the store (by its id, its folder or its JSON), or a YAML file (by its path
//! or its session).

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::FolderArgs;
use crate::cli::output::{Out, plural, shown, visible};
use crate::cli::stored::{find_id, is_id, open};
use crate::cli::{load_state, runtime};
use crate::state::config::Config;
use crate::state::files::documents::{JSON, document_of};
use crate::state::files::yaml_files::{HandoffFolder, HandoffYaml, read_file};
use crate::state::store::{DocumentFilter, HandoffFilter, SharedStore};
use baton_core::handoffs::document::fields::HandoffDocument;
use baton_core::handoffs::yaml::{HandoffFile, names};
use baton_core::record::{DocumentRecord, HandoffId};

/// The folder of handoff files, and the config that it was found by.
pub(super) fn folder(args: &FolderArgs) -> Result<(HandoffFolder, Config), CommandFailure> {
    let config = load_state(&args.state)?;
    let dir = args.dir.clone().unwrap_or_else(|| config.handoffs_dir());
    let folder = HandoffFolder::new(&dir)?;
    Ok((folder.keeping(config.documents.keep_files), config))
}

/// Where names come from.
const LISTS: &str = "`baton handoffs list --all` lists handoffs, `baton handoffs list --files` their files";

/// The failure for a name of nothing.
fn unknown(given: &str) -> CommandFailure {
    Exit::NO_INPUT
        .failure(format!("there is no handoff, session or file {}", visible(given)))
        .help(LISTS)
}

/// Prints problems that do not stop a command.
pub(super) fn warn(warnings: &[impl Display]) {
    let mut err = Out::stderr();
    for warning in warnings {
        // Standard error may be closed.
        let _ = err.line(format_args!("warning: {}", visible(&warning.to_string())));
    }
}

/// The referent of a name.
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

/// Looks names up.
pub(super) struct HandoffLookup {
    pub(super) folder: HandoffFolder,
    pub(super) config: Config,
}

impl HandoffLookup {
    pub(super) fn of(args: &FolderArgs) -> Result<Self, CommandFailure> {
        let (folder, config) = folder(args)?;
        Ok(Self { folder, config })
    }

    /// Resolves a name: a path on disk, else a session, else a handoff's id or a unique prefix of one.
    pub(super) fn find(&self, given: &str) -> Result<NamedHandoff, CommandFailure> {
        let path = self.folder.named(Path::new(given));
        if path.join(JSON).is_file() {
            return Ok(NamedHandoff::Document(path.join(JSON)));
        }
        let ends = |suffix: &str| given.ends_with(suffix);
        if ends(".json") && !is_handoff_file(&path) {
            return Ok(NamedHandoff::Document(path));
        }
        if ends(names::SUFFIX) || ends(".yml") || ends(".json") {
            return Ok(NamedHandoff::File(path));
        }
        if names::is_session(given) && self.folder.has_session(given) {
            return Ok(NamedHandoff::Session(given.to_owned()));
        }
        if path.is_file() {
            return Ok(NamedHandoff::File(path));
        }
        if !is_id(given) {
            return Err(unknown(given));
        }
        blocking(&self.config, async |store| {
            let documents = all(&store, true).await?;
            let handoffs = store.handoffs(&HandoffFilter::everything()).await?;
            let mut ids: Vec<_> = handoffs.iter().map(|handoff| handoff.id).collect();
            ids.extend(documents.iter().map(|document| document.handoff));
            ids.sort();
            ids.dedup();
            let id = find_id(ids.into_iter(), given).map_err(|failure| match failure.exit {
                Exit::NO_INPUT => unknown(given),
                _ => failure,
            })?;
            Ok(NamedHandoff::Stored(id))
        })
    }

    /// Resolves a name to a handoff file; a document is converted to one. `None` where nothing has this name, or a
    /// session has no file that can be read.
    pub(super) fn find_file(&self, given: &str) -> Result<Option<HandoffYaml>, CommandFailure> {
        let named = match self.find(given) {
            Err(unknown) if unknown.exit == Exit::NO_INPUT || unknown.exit == Exit::USAGE => return Ok(None),
            named => named?,
        };
        match named {
            NamedHandoff::Stored(id) => {
                let Ok(record) = blocking(&self.config, async |store| one(&store, id).await) else {
                    return Ok(None);
                };
                let document = document_of(&record).ok_or_else(|| other_version(&record))?;
                Ok(Some(found(PathBuf::from(&record.folder).join(JSON), &document)))
            }
            NamedHandoff::Document(path) => {
                let document = read_document(&path)?;
                Ok(Some(found(path, &document)))
            }
            NamedHandoff::File(path) => Ok(Some(read_file(&path)?)),
            NamedHandoff::Session(session) => {
                let listing = self.folder.latest(Some(&session))?;
                warn(&listing.warnings);
                Ok(listing.found)
            }
        }
    }

    /// Why [`Self::find_file`] found nothing to compare.
    pub(super) fn nothing(&self, given: Option<&str>) -> CommandFailure {
        let dir = shown(self.folder.dir());
        let message = match given.map(|given| self.find(given)) {
            Some(Err(unknown)) => return unknown,
            Some(Ok(NamedHandoff::Stored(id))) => format!("handoff {id} has no document"),
            Some(Ok(NamedHandoff::Session(session))) => format!("no file of session {session} can be read"),
            Some(Ok(NamedHandoff::Document(_) | NamedHandoff::File(_))) | None => {
                format!("there is no handoff file in {dir}")
            }
        };
        Exit::NO_INPUT.failure(message).help(LISTS)
    }

    /// How many handoff files there are, and the command that lists them; `None` where there is none.
    pub(super) fn files_hint(&self) -> Option<String> {
        let files = self.folder.count().unwrap_or_default();
        let hint = || format!("{}: baton handoffs list --files", plural(files, "handoff file"));
        (files > 0).then(hint)
    }
}

/// The failure for an argument that names a handoff file or a session where only a handoff in the store can be resumed.
pub(super) fn only_stored(config: &Config, given: &str, failure: CommandFailure) -> CommandFailure {
    let is_file = Path::new(given)
        .extension()
        .is_some_and(|end| end == "yaml" || end == "yml");
    let folder = HandoffFolder::new(&config.handoffs_dir());
    let is_session = folder.is_ok_and(|folder| folder.has_session(given));
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
    Exit::USAGE.failure(message).help(format!(
        "`baton handoffs show {given} --for fresh` prints a summary to begin a session with"
    ))
}

/// Whether a JSON file is a handoff file (`--format json`), and no document.
fn is_handoff_file(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
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

/// A document from its JSON.
pub(super) fn read_document(path: &Path) -> Result<HandoffDocument, CommandFailure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Exit::NO_INPUT.failure(format!("{}: {error}", shown(path))))?;
    HandoffDocument::read(&text).map_err(|error| {
        Exit::DATA
            .failure(format!("{}: not the document of a handoff: {error}", shown(path)))
            .help("`baton handoffs create --from-file FILE` reads a handoff file in JSON")
    })
}

pub(super) fn other_version(record: &DocumentRecord) -> CommandFailure {
    Exit::DATA.failure(format!(
        "the document of {} is of another version",
        record.handoff
    ))
}

/// All documents, newest first.
pub(super) async fn all(
    store: &SharedStore,
    without_documents: bool,
) -> Result<Vec<DocumentRecord>, CommandFailure> {
    let all = DocumentFilter {
        without_documents,
        ..DocumentFilter::default()
    };
    Ok(store.documents(&all).await?)
}

/// The document of a handoff.
pub(super) async fn one(store: &SharedStore, id: HandoffId) -> Result<DocumentRecord, CommandFailure> {
    let one = DocumentFilter {
        handoff: Some(id),
        ..DocumentFilter::default()
    };
    let found = store.documents(&one).await?.pop();
    found.ok_or_else(|| {
        Exit::NO_INPUT.failure("this handoff has no document in the store of this state directory")
    })
}

/// Asks the store of a config, from outside of any runtime.
pub(super) fn blocking<T>(
    config: &Config,
    ask: impl AsyncFnOnce(SharedStore) -> Result<T, CommandFailure>,
) -> Result<T, CommandFailure> {
    // Within the runtime: a client of a server starts its tasks there.
    runtime()?.block_on(async { ask(open(config)?).await })
}
