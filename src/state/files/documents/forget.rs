//! Deletes the files of handoffs on this machine: documents, YAML files and entries of ledgers.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use super::steps::{JSON, MARKDOWN};
use super::value::{DocumentError, document_error};
use crate::files::yaml_files::{FileError, FileResult, HandoffDirectory};
use crate::store::{HandoffFilter, SharedStore};
use baton_core::handoffs::document::HandoffDocument;
use baton_core::handoffs::yaml::names;
use baton_core::handoffs::yaml::time::Time;
use baton_core::record::{HandoffId, LOCAL, Principal};

/// A handoff with files on this machine.
#[derive(Debug)]
pub struct FiledHandoff {
    pub id: HandoffId,
    /// Creation time in seconds since the Unix epoch.
    pub created: i64,
    /// Client and conversation. `None` if only a YAML file names the handoff.
    pub owner: Option<(Principal, String)>,
}

/// Lists the handoffs that have files in a directory. A document of another version is not listed.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn filed(directory: &HandoffDirectory) -> FileResult<Vec<FiledHandoff>> {
    let yaml = directory.handoffs()?.into_iter().map(|(id, at)| FiledHandoff {
        id,
        created: at.seconds,
        owner: None,
    });
    let mut found: Vec<_> = yaml.collect();
    // A missing directory has no documents.
    for entry in fs::read_dir(directory.dir()).into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let document = fs::read_to_string(entry.path().join(JSON)).ok();
        let document = document.and_then(|text| HandoffDocument::read(&text).ok());
        if let (Some(id), Some(document)) = (id, document) {
            let client = document.client.unwrap_or_else(|| LOCAL.to_owned());
            found.push(FiledHandoff {
                id,
                created: Time::parse(&document.created_at).map_or(0, |at| at.seconds),
                owner: Some((client, document.conversation)),
            });
        }
    }
    Ok(found)
}

/// Deletes the files of these handoffs, and all YAML files of a client. Returns the paths of the files, and of
/// the documents' directories.
///
/// With `dry_run` nothing is deleted.
///
/// # Errors
/// Returns an error if a directory cannot be read or a file cannot be deleted.
pub fn delete_files(
    directory: &HandoffDirectory,
    ids: &HashSet<HandoffId>,
    client: Option<&str>,
    dry_run: bool,
) -> FileResult<Vec<PathBuf>> {
    let prefix = client.map(names::client_prefix);
    let is_selected = |session: &str, handoff: Option<HandoffId>| {
        handoff.is_some_and(|id| ids.contains(&id))
            || prefix
                .as_deref()
                .is_some_and(|prefix| session.starts_with(prefix))
    };
    let mut deleted = directory.forget(is_selected, dry_run)?;
    for id in ids {
        let dir = directory.dir().join(id.to_string());
        // A link is not followed: baton makes none, so its target is not baton's to delete.
        if !fs::symlink_metadata(&dir).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        if !dry_run {
            for path in [JSON, MARKDOWN].map(|name| dir.join(name)) {
                if path.exists() {
                    fs::remove_file(&path).map_err(|error| FileError::Io(path, error))?;
                }
            }
            // Stays if another program keeps files in it.
            let _ = fs::remove_dir(&dir);
        }
        deleted.push(dir);
    }
    deleted.sort();
    Ok(deleted)
}

/// Deletes the files of handoffs created before `before_ms` that the store no longer has. Returns their
/// number.
///
/// Each process does this for its own directory, because a shared store cannot reach the files of another
/// machine.
///
/// # Errors
/// Returns an error if the directory or the store cannot be read, or a file cannot be deleted.
pub async fn sweep_files(
    directory: HandoffDirectory,
    store: &SharedStore,
    before_ms: u64,
) -> Result<usize, DocumentError> {
    let failed =
        |error: &dyn std::fmt::Display| document_error("failed to delete files of old handoffs", error);
    let looked_in = directory.clone();
    let before = i64::try_from(before_ms / 1000).unwrap_or(i64::MAX);
    let old = tokio::task::spawn_blocking(move || filed(&looked_in)).await;
    let old = old.map_err(|error| failed(&error))?;
    let old = old.map_err(|error| failed(&error))?;
    let mut ids = HashSet::new();
    for handoff in old.iter().filter(|handoff| handoff.created < before) {
        let one = HandoffFilter {
            ids: Some((handoff.id, handoff.id)),
            ..HandoffFilter::everything()
        };
        let found = store.handoffs(&one).await;
        if found.map_err(|error| failed(&error))?.is_empty() {
            ids.insert(handoff.id);
        }
    }
    let deleted = tokio::task::spawn_blocking(move || delete_files(&directory, &ids, None, false)).await;
    let deleted = deleted.map_err(|error| failed(&error))?;
    Ok(deleted.map_err(|error| failed(&error))?.len())
}
