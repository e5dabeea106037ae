//! Bulk access: pages of records, and import of records as they are.

use std::collections::HashMap;

use redis::Pipeline;

use super::answers::{self, UsedFields, from_json};
use super::documents;
use super::kinds::{self, RedisKind};
use super::shared::RedisCluster;
use super::{ARCHIVED, Durable, HEAD, RedisRecord};
use crate::store::StoreResult;
use crate::store::records::{PAGE, RecordKind, RecordPage, StoredRecord};

impl RedisCluster {
    /// A page by the server's own cursor, which may return a record twice and misses none that is there all the time.
    pub(super) async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage> {
        let what = "read a page of records";
        let of = RedisKind::from(kind);
        let mut pipe = Pipeline::new();
        let cursor = Some(after).filter(|after| !after.is_empty()).unwrap_or("0");
        let key = format!("{}{}", self.prefix, of.times);
        pipe.cmd("ZSCAN").arg(key).arg(cursor).arg("COUNT").arg(PAGE);
        let (cursor, scored): (String, Vec<(String, f64)>) = self.query(what, pipe).await?;
        let ids: Vec<String> = scored.into_iter().map(|(id, _)| id).collect();
        let mut page = RecordPage {
            next: Some(cursor).filter(|cursor| cursor != "0"),
            ..RecordPage::default()
        };
        for (id, read) in ids.iter().zip(self.by_id(what, kind, &ids).await?) {
            match read {
                Some(Ok(record)) => page.records.push(record),
                Some(Err(error)) => page.unreadable.push((id.clone(), error.message)),
                None => {}
            }
        }
        Ok(page)
    }

    /// Writes records as they are; returns how many were not there like this.
    pub(super) async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let mut changed = 0;
        for (record, mut stored) in records.iter().zip(self.stored(records).await?) {
            if let StoredRecord::Document(document) = record {
                changed += u64::from(self.import_document(document, stored).await?);
                continue;
            }
            // A conversation may change between the check and the write.
            loop {
                if stored.as_ref().is_some_and(|stored| stored.covers(record)) {
                    break;
                }
                let over = match &stored {
                    Some(StoredRecord::Conversation(stored)) => stored.version,
                    _ => 0,
                };
                let mut copy = RedisRecord::of(record, over)?;
                if let StoredRecord::Handoff(handoff) = record {
                    copy = copy.archived(handoff.archived);
                }
                match self.write("write records", vec![copy], Durable::Yes).await? {
                    None => {
                        changed += 1;
                        break;
                    }
                    Some(newer) if newer.is_empty() => stored = None,
                    Some(newer) => stored = Some(StoredRecord::Conversation(from_json(&newer)?)),
                }
            }
        }
        Ok(changed)
    }

    /// The stored records of one kind by id, in the order of the ids, without unreadable ones.
    pub(super) async fn stored(&self, records: &[StoredRecord]) -> StoreResult<Vec<Option<StoredRecord>>> {
        let Some(kind) = records.first().map(StoredRecord::kind) else {
            return Ok(Vec::new());
        };
        let ids: Vec<String> = records.iter().map(id_of).collect();
        let found = self.by_id("look for records", kind, &ids).await?;
        Ok(found.into_iter().map(|read| read.and_then(Result::ok)).collect())
    }

    /// Records by id, each where its id is.
    async fn by_id(
        &self,
        what: &'static str,
        kind: RecordKind,
        ids: &[String],
    ) -> StoreResult<Vec<Option<StoreResult<StoredRecord>>>> {
        let of = RedisKind::from(kind);
        let fields = ["o", "r", ARCHIVED, HEAD, documents::STATUS];
        let found = self.records(what, of, "", fields, ids.iter().cloned()).await?;
        let mut found: HashMap<String, UsedFields<5>> = found.into_iter().collect();
        let mut take = |id: &String| found.remove(id).map(|fields| answers::record(kind, fields));
        Ok(ids.iter().map(&mut take).collect())
    }
}

fn id_of(record: &StoredRecord) -> String {
    match record {
        StoredRecord::Handoff(handoff) => handoff.id.to_string(),
        StoredRecord::Placed { record, .. } => record.columns().id.to_string(),
        StoredRecord::ResponseId { record, .. } => kinds::response(&record.principal, &record.shown),
        StoredRecord::Conversation(conversation) => conversation.key.clone(),
        StoredRecord::Document(document) => document.handoff.to_string(),
    }
}
