//! Documents: a hash for each, an index by time, and an index of active ones by subject.

use super::answers::{ScriptResult, document_written};
use super::scripts::RedisScript;
use super::shared::RedisStore;
use crate::store::records::StoredRecord;
use crate::store::{Durable, StoreError, StoreResult, foreign_record};
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus};

/// Arguments of the script.
pub(super) struct DocumentWrite<'a> {
    pub(super) handoff: HandoffId,
    pub(super) principal: &'a str,
    pub(super) status: HandoffStatus,
    /// The document, or `None` to write only the status.
    pub(super) document: Option<&'a DocumentRecord>,
    pub(super) is_copy: bool,
}

impl RedisStore {
    /// Writes a document of another store. Returns whether anything changed.
    pub(super) async fn import_document(
        &self,
        document: &DocumentRecord,
        stored: Option<StoredRecord>,
    ) -> StoreResult<bool> {
        let stored = match stored {
            Some(StoredRecord::Document(stored)) if *stored == *document => return Ok(false),
            Some(StoredRecord::Document(stored)) => Some(stored),
            _ => None,
        };
        let what = "write records";
        let ScriptResult::Written(status, _) = self
            .write_document(what, &DocumentWrite::new(document, true))
            .await?
        else {
            return Err(foreign_record(what));
        };
        let written = DocumentRecord {
            status: HandoffStatus::named(&status).unwrap_or(document.status),
            ..document.clone()
        };
        // Compared with the written status, because the script may have superseded the document.
        Ok(stored.is_none_or(|stored| *stored != written))
    }

    pub(super) async fn write_document(
        &self,
        what: &'static str,
        write: &DocumentWrite<'_>,
    ) -> StoreResult<ScriptResult> {
        let (about, record, time) = match write.document {
            Some(document) => (about(document), stored(what, document)?, document.created_ms),
            None => Default::default(),
        };
        let args = [
            self.prefix.clone(),
            write.handoff.to_string(),
            write.principal.to_owned(),
            write.status.name().to_owned(),
            about,
            record,
            time.to_string(),
            u8::from(write.is_copy).to_string(),
        ];
        let answer = self.run(what, RedisScript::Document, args, Durable::Yes).await?;
        document_written(what, answer)
    }
}

impl<'a> DocumentWrite<'a> {
    pub(super) fn new(document: &'a DocumentRecord, is_copy: bool) -> Self {
        Self {
            handoff: document.handoff,
            principal: &document.principal,
            status: document.status,
            document: Some(document),
            is_copy,
        }
    }
}

/// Returns the principal, repository, branch and topic of a document as one key.
fn about(document: &DocumentRecord) -> String {
    let about = [
        &document.principal,
        &document.repository,
        &document.branch,
        &document.topic,
    ];
    // NUL separates the parts, so it must not occur inside of them.
    about.map(|part| part.replace('\0', " ")).join("\0")
}

/// Serializes a document for the store.
fn stored(what: &str, document: &DocumentRecord) -> StoreResult<String> {
    serde_json::to_string(document).map_err(|error| StoreError::new(format!("{what}: {error}")))
}
