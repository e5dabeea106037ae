//! The store on a server that several proxies share: Redis or Valkey.
//!
//! All keys have one prefix and share one slot of a cluster. Each write of several records is one script, and
//! so atomic. A conversation's record replaces only the version that its writer knows; otherwise the change
//! is repeated on the newer one. Reads and writes have separate connections: a write may wait for a replica
//! or for the server's file, and reads must not queue after it. Nothing expires on the server.
//! [`Store::sweep`] deletes.

mod answers;
mod dial;
mod kinds;
mod link;
mod scripts;
mod settings;
mod shared;

#[cfg(any(test, fuzzing))]
#[cfg_attr(test, allow(unreachable_pub))]
#[path = "../../../../tests/fuzz/checks/resp.rs"]
pub mod fuzzed;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Instant;

use async_trait::async_trait;
use redis::Pipeline;
use uuid::Uuid;

use self::answers::{ScriptResult, from_json, handoff, placed, unexpected_reply};
use self::kinds::{ARCHIVED, CONVERSATION, HANDOFF, HANDOFF_IDS, HEAD, RESPONSE_ID, RedisKind, RedisRecord};
use self::scripts::RedisScript;
pub use self::shared::RedisStore;
use self::shared::{DocumentWrite, redis_records};
use super::records::{
    Lookup, PAGE, PlacedKind, PlacedRecord, RecordKind, RecordPage, ResponseId, Retention, StoredRecord,
    TOUCH_AFTER_MS,
};
use super::{DocumentFilter, Durable, HandoffFilter, Store, StoreError, StoreResult, foreign_record, random};
use crate::clock::now_ms;
use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};

/// Maximum attempts to repeat a change while others change the same record. In each round one of them
/// succeeds.
const MAX_OVERTAKEN: usize = 256;

#[async_trait]
impl Store for RedisStore {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn shared(&self) -> bool {
        true
    }

    async fn handoff(&self, principal: &str, id: HandoffId) -> StoreResult<Option<Handoff>> {
        let (what, fields) = ("read a handoff", ["r", ARCHIVED, HEAD]);
        let found = self.records(what, HANDOFF, principal, fields, [id.to_string()]);
        match found.await?.into_iter().next() {
            Some((_, (_, [record, archived, head]))) => handoff([record, archived], head),
            None => Ok(None),
        }
    }

    async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>> {
        let what = "list handoffs";
        let index = match (&filter.ids, &filter.conversation) {
            (Some(_), _) => HANDOFF_IDS.to_owned(),
            (None, Some(key)) => kinds::of_conversation(key),
            (None, None) => HANDOFF.times.to_owned(),
        };
        let key = format!("{}{index}", self.prefix);
        // A range of ids is read completely: the index sorts it by id, and the result is sorted by creation
        // time.
        let limit = Some(filter.limit).filter(|limit| *limit > 0 && filter.ids.is_none());
        let mut found = Vec::new();
        // In pages, because the server does nothing else during a call.
        for from in (0..).step_by(PAGE) {
            let mut pipe = Pipeline::new();
            match &filter.ids {
                Some((first, last)) => {
                    let (first, last) = (format!("[{first}"), format!("[{last}"));
                    let command = pipe.cmd("ZREVRANGEBYLEX").arg(&key).arg(last).arg(first);
                    command.arg("LIMIT").arg(from).arg(PAGE)
                }
                None => pipe.cmd("ZREVRANGE").arg(&key).arg(from).arg(from + PAGE - 1),
            };
            let ids: Vec<String> = self.query(what, pipe).await?;
            let last = ids.len() < PAGE;
            for (_, (_, values)) in self.records(what, HANDOFF, "", ["r", ARCHIVED], ids).await? {
                let handoff = handoff(values, String::new())?;
                found.extend(handoff.filter(|handoff| filter.fits(handoff)));
            }
            if last || limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
        }
        found.sort_by_key(|handoff| std::cmp::Reverse((handoff.created_ms, handoff.id)));
        if filter.limit > 0 {
            found.truncate(filter.limit);
        }
        Ok(found)
    }

    async fn archive(&self, principal: &str, id: HandoffId, archived: bool) -> StoreResult<bool> {
        let key = self.key(HANDOFF, &id.to_string());
        let args = [&*key, principal, ARCHIVED, if archived { "1" } else { "0" }];
        let what = "archive a handoff";
        self.run(what, RedisScript::Set, args, Durable::Yes).await
    }

    async fn find(
        &self,
        kind: PlacedKind,
        principal: &str,
        by: Lookup<'_>,
    ) -> StoreResult<Vec<PlacedRecord>> {
        let found = match by {
            Lookup::Ids(ids) => {
                let ids = ids.iter().map(Uuid::to_string);
                self.records(kind.reading(), kind.into(), principal, ["r"], ids)
                    .await?
            }
            Lookup::Places(places) => self.at_places(kind, principal, places).await?,
        };
        let stale = found
            .iter()
            .filter(|(_, (used_ms, _))| now_ms().saturating_sub(*used_ms) > TOUCH_AFTER_MS);
        let stale: Vec<String> = stale.map(|(id, _)| id.clone()).collect();
        if !stale.is_empty() {
            self.touch(kind.into(), stale);
        }
        let found = found.iter().map(|(_, (_, [record]))| placed(kind, record));
        let mut found = found.collect::<Result<Vec<_>, _>>()?;
        if matches!(by, Lookup::Places(_)) {
            PlacedRecord::sort_oldest_first(&mut found, |record| record);
        }
        Ok(found)
    }

    async fn conversation(&self, key: &str) -> StoreResult<Option<Conversation>> {
        let mut pipe = Pipeline::new();
        pipe.cmd("HGET").arg(self.key(CONVERSATION, key)).arg("r");
        let record: Option<String> = self.query("read a conversation", pipe).await?;
        record.map(|record| from_json(&record)).transpose()
    }

    async fn put(&self, action: &'static str, records: Vec<StoredRecord>) -> StoreResult<()> {
        let records = redis_records(&records)?;
        self.write(action, records, Durable::Yes).await.map(drop)
    }

    async fn put_with(
        &self,
        what: &'static str,
        records: Vec<StoredRecord>,
        update: &Update,
    ) -> StoreResult<UpdateOutcome> {
        let durable = Durable::where_new(&records);
        let known = &update.known;
        // Optimistic: the version in memory is usually the stored one, which saves a read.
        let mut stored = (known.version > 0).then(|| known.clone());
        let began = Instant::now();
        for attempt in 0..MAX_OVERTAKEN {
            // No further attempt begins after the timeout of one call.
            if attempt > 0 && began.elapsed() >= self.time {
                break;
            }
            let over = stored.as_ref().map_or(0, |stored| stored.version);
            let written = update.on(stored, step()?).ok_or_else(|| foreign_record(what))?;
            let mut all = redis_records(&records)?;
            let conversation = StoredRecord::Conversation(Box::new(written.record.clone()));
            all.push(RedisRecord::from_record(&conversation, over)?);
            match self.write(what, all, durable).await? {
                None => return Ok(written),
                // The record was swept meanwhile.
                Some(newer) if newer.is_empty() => stored = None,
                Some(newer) => stored = Some(from_json(&newer)?),
            }
        }
        Err(StoreError::new(format!(
            "{what}: other processes changed the conversation during each attempt"
        )))
    }

    async fn response(&self, principal: &str, shown: &str) -> StoreResult<Option<ResponseId>> {
        let (what, id) = ("read a response id", kinds::response(principal, shown));
        let found = self.records(what, RESPONSE_ID, principal, ["r"], [id]).await?;
        let record = found.first().map(|(_, (_, [record]))| record);
        let record = record.map(|record| from_json::<ResponseId>(record));
        record.transpose()
    }

    async fn put_document(&self, document: &DocumentRecord) -> StoreResult<Vec<HandoffId>> {
        let what = "write a document";
        let write = DocumentWrite::new(document, false);
        match self.write_document(what, &write).await? {
            ScriptResult::Written(_, superseded) => Ok(superseded),
            ScriptResult::Foreign => Err(foreign_record(what)),
            ScriptResult::Unknown => Err(unexpected_reply(what)),
        }
    }

    async fn documents(&self, filter: &DocumentFilter) -> StoreResult<Vec<DocumentRecord>> {
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
            let stored = self.by_id(what, RecordKind::Document, &ids).await?;
            for record in stored.into_iter().flatten() {
                if let StoredRecord::Document(document) = record?
                    && filter.matches(&document)
                {
                    found.push(*document);
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

    async fn set_document_status(
        &self,
        principal: &str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreResult<Option<Vec<HandoffId>>> {
        let write = DocumentWrite {
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

    async fn archive_documents(&self, before_ms: u64) -> StoreResult<Vec<(Principal, HandoffId)>> {
        let what = "archive old documents";
        let mut archived = Vec::new();
        for from in (0..).step_by(PAGE) {
            let [before, from, page] = [before_ms, from, PAGE as u64].map(|n| n.to_string());
            let args = [self.prefix.clone(), before, from, page];
            // Archived documents stay in the index, so a page begins after all the earlier ones.
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

    async fn sweep(&self, retention: &Retention) -> StoreResult<u64> {
        let mut gone = 0;
        for (kind, before_ms) in retention.kinds() {
            gone += self.sweep_kind(kind.into(), before_ms).await?;
        }
        Ok(gone)
    }

    async fn page(&self, kind: RecordKind, after: &str) -> StoreResult<RecordPage> {
        // Uses the server's cursor: it may return a record twice, but misses none that exists the whole time.
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

    async fn import(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let mut changed = 0;
        for (record, mut stored) in records.iter().zip(self.stored(records).await?) {
            if let StoredRecord::Document(document) = record {
                changed += u64::from(self.import_document(document, stored).await?);
                continue;
            }
            // Repeated, because a conversation may change between the check and the write.
            loop {
                if stored.as_ref().is_some_and(|stored| stored.covers(record)) {
                    break;
                }
                let over = match &stored {
                    Some(StoredRecord::Conversation(stored)) => stored.version,
                    _ => 0,
                };
                let mut copy = RedisRecord::from_record(record, over)?;
                if let StoredRecord::Handoff(handoff) = record {
                    // Unlike an ordinary write, a copy sets the archive flag of an existing handoff.
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

    async fn delete(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let mut gone = 0;
        for page in records.chunks(PAGE) {
            let kind = RedisKind::from(page[0].kind());
            let mut args = vec![self.prefix.clone(), kind.name.to_owned(), kind.times.to_owned()];
            args.extend(page.iter().map(kinds::id_of));
            let deleted = self.run::<u64>("delete records", RedisScript::Delete, args, Durable::Yes);
            gone += deleted.await?;
        }
        Ok(gone)
    }

    async fn has(&self, records: &[StoredRecord]) -> StoreResult<u64> {
        let stored = self.stored(records).await?;
        Ok(stored.iter().flatten().count() as u64)
    }

    async fn ping(&self) -> StoreResult<()> {
        let mut pipe = Pipeline::new();
        pipe.cmd("EXISTS").arg(&self.slot);
        self.query::<bool>("ask the store", pipe).await.map(drop)
    }

    async fn probe(&self) -> StoreResult<()> {
        let records = vec![RedisRecord::probe()];
        self.write("try to write", records, Durable::Yes).await.map(drop)
    }

    async fn settings_problem(&self) -> StoreResult<Option<String>> {
        let line = self.writer().line().await?;
        Ok(line.server.fit(self.durability).err())
    }
}

/// Returns a random step between two versions.
///
/// After a failover has lost a version, no other record can then have the same one.
fn step() -> StoreResult<u64> {
    let mut bytes = [0; 4];
    random(&mut bytes).map_err(|error| StoreError::new(format!("no randomness: {error}")))?;
    Ok(1 + u64::from(u32::from_be_bytes(bytes) >> 12))
}
