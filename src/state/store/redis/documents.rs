//! Documents: a hash for each, an index by time, and one of those that are active by what they are about.

use redis::Pipeline;

use super::answers::{ScriptResult, document, document_written, read, unexpected_reply};
use super::link::Durable;
use super::scripts::RedisScript;
use super::shared::RedisCluster;
use crate::store::records::{PAGE, StoredRecord};
use crate::store::{DocumentFilter, StoreError, StoreResult, foreign_record};
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus, Principal};

/// The field with a document's status.
pub(super) const STATUS: &str = "s";

/// The arguments of the script.
struct Write<'a> {
    handoff: HandoffId,
    principal: &'a str,
    status: HandoffStatus,
    /// The key and the record; `None`: the status alone is written.
    document: Option<&'a DocumentRecord>,
    is_copy: bool,
}

impl RedisCluster {
    /// Writes a document; returns the handoffs of those that it superseded.
    pub(super) async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>> {
        let what = "write a document";
        match self.write_document(what, &Write::of(document, false)).await? {
            ScriptResult::Written(_, superseded) => Ok(superseded),
            ScriptResult::Foreign => Err(foreign_record(what)),
            ScriptResult::Unknown => Err(unexpected_reply(what)),
        }
    }

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
        let ScriptResult::Written(status, _) = self.write_document(what, &Write::of(document, true)).await?
        else {
            return Err(foreign_record(what));
        };
        let written = DocumentRecord {
            status: HandoffStatus::named(&status).unwrap_or(document.status),
            ..document.clone()
        };
        Ok(stored.is_none_or(|stored| *stored != written))
    }

    async fn write_document(&self, what: &'static str, write: &Write<'_>) -> StoreResult<ScriptResult> {
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

    /// The documents that are wanted, newest first.
    pub(super) async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>> {
        let what = "list documents";
        let mut found = Vec::new();
        for from in (0..).step_by(PAGE) {
            let ids = match &filter.handoff {
                Some(id) => vec![id.to_string()],
                None => {
                    let mut pipe = Pipeline::new();
                    let key = format!("{}documents", self.prefix);
                    pipe.cmd("ZREVRANGE").arg(&key).arg(from).arg(from + PAGE - 1);
                    self.query(what, pipe).await?
                }
            };
            let mut pipe = Pipeline::new();
            for id in &ids {
                let key = format!("{}document:{id}", self.prefix);
                pipe.cmd("HMGET").arg(key).arg("o").arg(STATUS).arg("r");
            }
            if !ids.is_empty() {
                for fields in self.all(what, pipe).await? {
                    let document = document(read(fields).map_err(StoreError::new)?)?;
                    found.extend(document.filter(|document| filter.matches(document)));
                }
            }
            let enough = filter.limit > 0 && found.len() >= filter.limit;
            if ids.len() < PAGE || enough || filter.handoff.is_some() {
                break;
            }
        }
        found.sort_by_key(|document| std::cmp::Reverse((document.created_ms, document.handoff)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        if filter.without_documents {
            found.iter_mut().for_each(|document| document.document.clear());
        }
        Ok(found)
    }

    /// Archives those that are superseded and older, a page at a time: each page is one script.
    pub(super) async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>> {
        let what = "archive old documents";
        let mut archived = Vec::new();
        for from in (0..).step_by(PAGE) {
            let args = [
                self.prefix.clone(),
                before_ms.to_string(),
                from.to_string(),
                PAGE.to_string(),
            ];
            let (looked, found): (usize, Vec<(Principal, String)>) =
                self.run(what, RedisScript::Archive, args, Durable::Yes).await?;
            let found = found.into_iter();
            archived.extend(found.filter_map(|(owner, id)| Some((owner, id.parse().ok()?))));
            if looked < PAGE {
                break;
            }
        }
        Ok(archived)
    }

    /// Gives a document another status; `None` for an unknown id.
    pub(super) async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>> {
        let write = Write {
            handoff: id,
            principal,
            status,
            document: None,
            is_copy: false,
        };
        Ok(match self.write_document("change a document", &write).await? {
            ScriptResult::Written(_, superseded) => Some(superseded),
            ScriptResult::Foreign | ScriptResult::Unknown => None,
        })
    }
}

impl<'a> Write<'a> {
    fn of(document: &'a DocumentRecord, is_copy: bool) -> Self {
        Self {
            handoff: document.handoff,
            principal: &document.principal,
            status: document.status,
            document: Some(document),
            is_copy,
        }
    }
}

/// The repository, branch and topic of a document as one key.
fn about(document: &DocumentRecord) -> String {
    let about = [
        &document.principal,
        &document.repository,
        &document.branch,
        &document.topic,
    ];
    about.map(|part| part.replace('\0', " ")).join("\0")
}

/// A document's record as it is stored.
fn stored(what: &str, document: &DocumentRecord) -> StoreResult<String> {
    serde_json::to_string(document).map_err(|error| StoreError::new(format!("{what}: {error}")))
}
