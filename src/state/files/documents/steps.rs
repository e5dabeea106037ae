//! The steps from a stored handoff to its document's files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use super::make;
use super::value::{DocumentError, DocumentSettings, StoredHandoff, document_error};
use crate::disk::{self, FileAccess};
use crate::files::yaml_files::{HandoffDirectory, gather};
use crate::store::{DocumentFilter, SharedStore, StoreError, StoreResult, make_dir};
use baton_core::handoffs::document::HandoffDocument;
use baton_core::handoffs::yaml::{Drift, HandoffFile};
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus, LOCAL};

/// Composes the document of a handoff, stores it, and writes its files. Returns the document's directory.
///
/// # Errors
/// Returns an error if the document cannot be stored or written. Once it is stored, the next start writes the
/// files.
pub async fn write(
    settings: &Arc<DocumentSettings>,
    store: &SharedStore,
    stored: StoredHandoff,
) -> Result<PathBuf, DocumentError> {
    let (principal, created_ms) = (stored.handoff.principal.clone(), stored.handoff.created_ms);
    let made = Arc::clone(settings);
    // Reading a transcript and running git take seconds, which must not block the runtime's threads.
    let document = tokio::task::spawn_blocking(move || make::compose(&made, stored)).await;
    let document = document.map_err(|error| document_error("the document was not made", error))?;
    let directory = settings.dir.join(document.id.to_string());
    let record = DocumentRecord {
        handoff: document.id,
        principal,
        repository: document.repository.clone(),
        branch: document.branch.clone(),
        topic: document.topic.clone(),
        status: HandoffStatus::Active,
        created_ms,
        directory: directory.to_string_lossy().into_owned(),
        document: document.json(),
    };
    // The row comes before the files: the next start writes missing files, but cannot restore a row.
    let superseded = store.put_document(&record).await;
    let superseded = superseded.map_err(|error| document_error("the document was not stored", error))?;
    disk::reached("stored");
    // Written before the two files: the next start repairs a document only while one of those is missing.
    write_yaml(record.clone(), settings.keep_files).await;
    write_files(record.clone()).await?;
    rewrite_files(store, &record.principal, &superseded).await;
    disk::reached("superseded");
    Ok(directory)
}

/// Writes the handoff file of a document into its session's directory, once.
///
/// A failure is only logged, because the document itself is stored.
pub(super) async fn write_yaml(record: DocumentRecord, keep_files: usize) {
    let id = record.handoff;
    let written = tokio::task::spawn_blocking(move || {
        let Some(document) = document_of(&record) else {
            return Ok(());
        };
        // Session directories are siblings of the document's directory.
        let dir = Path::new(&record.directory).parent().unwrap_or(Path::new("."));
        let directory = HandoffDirectory::new(dir)?.keeping(keep_files);
        let client = Some(record.principal.as_str()).filter(|name| *name != LOCAL);
        directory.write_document(&document, client).map(|_| ())
    });
    let error = match written.await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(target: "baton", handoff = %id, %error, "failed to write the handoff file of a document; the document itself is stored");
}

/// Sets the status of a handoff that has a document, in the handoff, the document and the files.
///
/// Also rewrites the files of the handoffs that it supersedes. Returns the previous status and those
/// handoffs, or `None` for an unknown id.
///
/// # Errors
/// Returns an error if the store cannot be read or written.
pub async fn set_status(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
    status: HandoffStatus,
) -> Result<Option<StatusChange>, DocumentError> {
    let failed = |error: StoreError| DocumentError {
        is_full: error.is_full,
        ..document_error("the document's status was not changed", error)
    };
    let Some(record) = find(store, principal, id).await? else {
        return Ok(None);
    };
    let superseded = store.set_document_status(principal, id, status).await;
    let superseded = superseded.map_err(failed)?;
    // The document's status comes first: `archive_old` reads it after setting the handoff's archive flag.
    let archived = store.archive(principal, id, status == HandoffStatus::Archived);
    archived.await.map_err(failed)?;
    let superseded = superseded.unwrap_or_default();
    let all: Vec<HandoffId> = superseded.iter().copied().chain([id]).collect();
    rewrite_files(store, principal, &all).await;
    Ok(Some(StatusChange {
        before: record.status,
        superseded,
    }))
}

/// The result of a status change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusChange {
    pub before: HandoffStatus,
    /// Handoffs whose documents this one superseded.
    pub superseded: Vec<HandoffId>,
}

/// Finds the document of a handoff.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn find(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
) -> Result<Option<DocumentRecord>, DocumentError> {
    let filter = DocumentFilter::for_handoff(principal, id);
    let found = store.documents(&filter).await;
    let unread = |error| document_error("the documents were not read", error);
    Ok(found.map_err(unread)?.pop())
}

/// Returns the documents of all handoffs.
///
/// `without_documents` omits their JSON contents.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn by_handoff(
    store: &SharedStore,
    without_documents: bool,
) -> StoreResult<HashMap<HandoffId, DocumentRecord>> {
    let all = DocumentFilter {
        without_documents,
        ..DocumentFilter::default()
    };
    let records = store.documents(&all).await?.into_iter();
    Ok(records.map(|record| (record.handoff, record)).collect())
}

/// Compares a handoff's document with the repository of its directory, or else with the configured
/// repository.
///
/// The document's directory counts only if it is on this machine. Any other directory may belong to another
/// project. Returns `None` if there is no document.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub async fn compare_with_repository(
    store: &SharedStore,
    principal: &str,
    id: HandoffId,
    configured: Option<PathBuf>,
    limit: Duration,
) -> Result<Option<Drift>, DocumentError> {
    let found = find(store, principal, id).await?;
    let Some(document) = found.as_ref().and_then(document_of) else {
        return Ok(None);
    };
    let is_here = principal == LOCAL;
    let compared = tokio::task::spawn_blocking(move || {
        // A client's directory is on the client's machine, even if one of the same name exists here.
        let own = Some(PathBuf::from(&document.repository)).filter(|dir| is_here && dir.is_dir());
        let file = HandoffFile::of_whole_document(&document);
        gather::compared(&file, own.or(configured).as_deref(), limit)
    });
    let compared = compared.await;
    compared
        .map(Some)
        .map_err(|error| document_error("the document was not compared", error))
}

/// Parses the document of a record and applies the record's status. Returns `None` if a later version wrote
/// it.
pub fn document_of(record: &DocumentRecord) -> Option<HandoffDocument> {
    let document = HandoffDocument::read(&record.document).ok()?;
    Some(document.with_status(record.status))
}

/// Rewrites the files of these documents with their current status.
///
/// Skips documents whose directory is not on this machine, since a store may be shared. A failure is logged.
async fn rewrite_files(store: &SharedStore, principal: &str, ids: &[HandoffId]) {
    for id in ids {
        let written = match find(store, principal, *id).await {
            Ok(Some(record)) if is_here(&record) => write_files(record).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tracing::warn!(target: "baton", handoff = %id, %error, "failed to write the new status to a document's files; the store has it");
        }
    }
}

/// Whether a document's own directory is on this machine. Another process that uses the store may have named any other.
fn is_here(record: &DocumentRecord) -> bool {
    let directory = Path::new(&record.directory);
    directory.ends_with(record.handoff.to_string()) && directory.is_dir()
}

/// Archives handoffs that are superseded and older than `before_ms`, with their documents and files.
///
/// Returns the number of archived handoffs.
///
/// # Errors
/// Returns an error if the store cannot be read or written.
pub async fn archive_old(store: &SharedStore, before_ms: u64) -> Result<usize, DocumentError> {
    let failed = |error| document_error("old handoffs were not archived", error);
    let archived = store.archive_documents(before_ms).await.map_err(failed)?;
    for (principal, id) in &archived {
        store.archive(principal, *id, true).await.map_err(failed)?;
        // The handoff may have been resumed in between: undo its archive flag.
        let record = find(store, principal, *id).await?;
        if record.is_some_and(|record| record.status != HandoffStatus::Archived) {
            store.archive(principal, *id, false).await.map_err(failed)?;
        }
        rewrite_files(store, principal, &[*id]).await;
    }
    Ok(archived.len())
}

/// Writes the files of a document on a thread that may block.
pub(super) async fn write_files(record: DocumentRecord) -> Result<(), DocumentError> {
    let done = tokio::task::spawn_blocking(move || {
        let Some(document) = document_of(&record) else {
            let why = "another version wrote this document";
            return Err(document_error(&record.directory, why));
        };
        let written = write_both(record.directory.as_ref(), &document);
        written.map_err(|error| document_error(&record.directory, error))
    });
    done.await
        .map_err(|error| document_error("the document was not written", error))?
}

/// Prefix and suffix of a temporary file's name.
const TEMP: (&str, &str) = (".handoff.", ".tmp");

/// File name of the document as JSON.
pub const JSON: &str = "handoff.json";

/// File name of the document as Markdown.
pub const MARKDOWN: &str = "handoff.md";

/// Writes both files into a directory, which is created if needed.
///
/// Only the owner can read the files, because they contain what the agent saw.
fn write_both(directory: &Path, document: &HandoffDocument) -> io::Result<()> {
    make_dir(directory).map_err(|error| io::Error::other(error.message))?;
    // Removes the temporary files of a killed process.
    disk::sweep(directory, TEMP.0, TEMP.1);
    replace(directory, JSON, &document.json())?;
    replace(directory, MARKDOWN, &document.markdown())?;
    directory.parent().map_or(Ok(()), disk::sync_dir)
}

/// Whether both files exist and match the document.
pub(super) fn are_current(directory: &Path, document: &HandoffDocument) -> bool {
    let says =
        |name: &str, text: String| fs::read(directory.join(name)).is_ok_and(|found| found == text.as_bytes());
    says(JSON, document.json()) && says(MARKDOWN, document.markdown())
}

/// Replaces a file atomically.
fn replace(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let mut named = tempfile::Builder::new();
    let named = named.prefix(TEMP.0).suffix(TEMP.1);
    let filled = disk::fill(named, directory, text.as_bytes(), FileAccess::Owner)?;
    disk::put(filled, &directory.join(name))?;
    disk::reached("named");
    Ok(())
}
