//! The store's connections, and the building blocks of its calls: scripts, pipelines, and reads by id and by
//! anchor.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::{FromRedisValue, Pipeline};

use super::answers::{self, ScriptResult, UsedFields, document_written, first};
use super::dial::Dialer;
use super::kinds::{self, ARCHIVED, HEAD, RedisKind, RedisRecord, STATUS};
use super::link::{Link, LinkRequest};
use super::scripts::{RedisScript, ScriptCall};
use crate::clock::now_ms;
use crate::config::{ServerDurability, StoreConfig};
use crate::store::records::{PAGE, PlacedKind, RecordKind, StoredRecord};
use crate::store::{Durable, StoreError, StoreResult, foreign_record};
use baton_core::record::{DocumentRecord, HandoffId, HandoffStatus};

/// Number of connections for writes. While one waits for a replica, further writes do not queue after it.
pub(super) const WRITERS: usize = 4;

/// The Redis store: its connections and the prefix of its keys.
pub struct RedisStore {
    pub(super) prefix: String,
    pub(super) slot: String,
    pub(super) durability: ServerDurability,
    pub(super) time: Duration,
    reader: Link,
    writers: Vec<Arc<Link>>,
    next_writer: AtomicUsize,
}

/// Converts records to their form on the server.
pub(super) fn redis_records(records: &[StoredRecord]) -> StoreResult<Vec<RedisRecord>> {
    let records = records.iter();
    records
        .map(|record| RedisRecord::from_record(record, 0))
        .collect()
}

impl RedisStore {
    /// Creates the configured store. Connects with the first call.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be read.
    pub fn new(settings: &StoreConfig) -> StoreResult<Self> {
        let address = settings.address.clone();
        let address = address.ok_or_else(|| StoreError::new("store.url is missing"))?;
        // In a cluster the part in braces determines the slot, so all keys of a store share one.
        let prefix = format!("{{{}}}:", settings.prefix);
        let slot = format!("{prefix}schema");
        let (durability, time) = (settings.durability, settings.timeout);
        let dial = Dialer::new(address, durability, slot.clone(), settings.ca_file.as_deref());
        let dial = Arc::new(dial.map_err(StoreError::new)?);
        let link = || Link::new(Arc::clone(&dial), time);
        Ok(Self {
            prefix,
            slot,
            durability,
            time,
            reader: link(),
            writers: (0..WRITERS).map(|_| Arc::new(link())).collect(),
            next_writer: AtomicUsize::new(0),
        })
    }

    pub(super) fn key(&self, kind: RedisKind, id: &str) -> String {
        format!("{}{}:{id}", self.prefix, kind.name)
    }

    fn reader(&self) -> &Link {
        // The first call opens all connections, so that no later call has to wait for one.
        self.writers.iter().for_each(|writer| writer.start());
        &self.reader
    }

    pub(super) fn writer(&self) -> &Arc<Link> {
        self.writers.iter().for_each(|writer| writer.start());
        // Round robin, so that a writer waiting for a replica delays only some of the calls.
        let next = self.next_writer.fetch_add(1, Ordering::Relaxed);
        &self.writers[next % self.writers.len()]
    }

    /// Runs a script that reads, and returns its result.
    pub(super) async fn read<T: FromRedisValue>(
        &self,
        what: &'static str,
        script: RedisScript,
        args: impl IntoIterator<Item: AsRef<[u8]>>,
    ) -> StoreResult<T> {
        let request = LinkRequest::Script(ScriptCall::new(script, args), Durable::No);
        first(what, self.reader().send(what, &request).await?)
    }

    /// Runs a script that writes, and returns its result.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        what: &'static str,
        script: RedisScript,
        args: impl IntoIterator<Item: AsRef<[u8]>>,
        durable: Durable,
    ) -> StoreResult<T> {
        let request = LinkRequest::Script(ScriptCall::new(script, args), durable);
        first(what, self.writer().send(what, &request).await?)
    }

    /// Sends one plain command and returns its result.
    pub(super) async fn query<T: FromRedisValue>(
        &self,
        what: &'static str,
        pipe: Pipeline,
    ) -> StoreResult<T> {
        first(what, self.reader().send(what, &LinkRequest::Plain(pipe)).await?)
    }

    /// Writes records. Returns `Some` with the stored record if one has another version than expected.
    pub(super) async fn write(
        &self,
        what: &'static str,
        records: Vec<RedisRecord>,
        durable: Durable,
    ) -> StoreResult<Option<String>> {
        let mut args = vec![self.prefix.clone().into_bytes()];
        for record in records {
            record.args(&mut args);
        }
        let answer = self.run(what, RedisScript::Write, args, durable).await?;
        answers::written(what, answer)
    }

    /// Returns the stored counterparts of records of one kind, in the same order. Unreadable ones count as
    /// missing.
    pub(super) async fn stored(&self, records: &[StoredRecord]) -> StoreResult<Vec<Option<StoredRecord>>> {
        let Some(kind) = records.first().map(StoredRecord::kind) else {
            return Ok(Vec::new());
        };
        let ids: Vec<String> = records.iter().map(kinds::id_of).collect();
        let found = self.by_id("look for records", kind, &ids).await?;
        Ok(found.into_iter().map(|read| read.and_then(Result::ok)).collect())
    }

    /// Returns records by id, in the order of the ids.
    pub(super) async fn by_id(
        &self,
        what: &'static str,
        kind: RecordKind,
        ids: &[String],
    ) -> StoreResult<Vec<Option<StoreResult<StoredRecord>>>> {
        let of = RedisKind::from(kind);
        let fields = ["o", "r", ARCHIVED, HEAD, STATUS];
        let found = self.records(what, of, "", fields, ids.iter().cloned()).await?;
        let mut found: HashMap<String, UsedFields<5>> = found.into_iter().collect();
        let mut take = |id: &String| found.remove(id).map(|fields| answers::record(kind, fields));
        Ok(ids.iter().map(&mut take).collect())
    }

    /// Returns the known records by id, in the given order, with their last use and the requested fields.
    pub(super) async fn records<const N: usize>(
        &self,
        what: &'static str,
        kind: RedisKind,
        owner: &str,
        fields: [&str; N],
        ids: impl IntoIterator<Item = String>,
    ) -> StoreResult<Vec<(String, UsedFields<N>)>> {
        let ids: Vec<String> = ids.into_iter().collect();
        let count = N.to_string();
        // All pages are sent at once, so any number of ids takes one round trip.
        let pages = ids.chunks(PAGE).map(|ids| {
            let mut args = vec![&*self.prefix, kind.name, owner, kind.times, &count];
            args.extend(fields);
            args.extend(ids.iter().map(String::as_str));
            self.read::<Vec<_>>(what, RedisScript::Read, args)
        });
        Ok(try_join_all(pages).await?.concat())
    }

    /// Returns the records that are anchored at these places.
    pub(super) async fn at_places(
        &self,
        kind: PlacedKind,
        principal: &str,
        places: &[String],
    ) -> StoreResult<Vec<(String, UsedFields<1>)>> {
        let (what, kind) = (kind.reading(), RedisKind::from(kind));
        let indexes: HashSet<String> = places.iter().map(|key| kind.at_place(principal, key)).collect();
        let indexes: Vec<String> = indexes.into_iter().collect();
        let pages = indexes.chunks(PAGE).map(|indexes| {
            let args = [&*self.prefix, kind.name, principal, kind.times].into_iter();
            let args = args.chain(indexes.iter().map(String::as_str));
            self.read::<Vec<_>>(what, RedisScript::Find, args)
        });
        Ok(try_join_all(pages).await?.concat())
    }

    /// Marks records as used now, in the background. Happens once a day for each record.
    pub(super) fn touch(&self, kind: RedisKind, ids: Vec<String>) {
        let mut pipe = Pipeline::new();
        let key = format!("{}{}", self.prefix, kind.times);
        let now = now_ms();
        for id in ids {
            // `XX` does not revive a swept record, and `GT` never sets an earlier time.
            pipe.cmd("ZADD").arg(&key).arg("XX").arg("GT").arg(now).arg(id);
        }
        let writer = Arc::clone(self.writer());
        // If this fails, the next reader tries again.
        tokio::spawn(async move { writer.send("touch records", &LinkRequest::Plain(pipe)).await });
    }

    /// Deletes records that were last used before a time and are not in use.
    pub(super) async fn sweep_kind(&self, kind: RedisKind, before_ms: u64) -> StoreResult<u64> {
        let (mut gone, mut kept) = (0, 0);
        loop {
            let (before, from) = (before_ms.to_string(), kept.to_string());
            let limit = PAGE.to_string();
            let args = [
                &*self.prefix,
                kind.name,
                kind.times,
                &before,
                &from,
                &limit,
                kind.owned_by,
                kind.used_by,
            ];
            let what = "sweep old records";
            let (looked, deleted): (u32, u32) = self.run(what, RedisScript::Sweep, args, Durable::No).await?;
            gone += u64::from(deleted);
            // Records in use stay at the front of the index, and the next round skips them.
            kept += u64::from(looked.saturating_sub(deleted));
            if (looked as usize) < PAGE {
                return Ok(gone);
            }
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
        let write = DocumentWrite::new(document, true);
        let ScriptResult::Written(status, _) = self.write_document(what, &write).await? else {
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

/// Arguments of the script.
pub(super) struct DocumentWrite<'a> {
    pub(super) handoff: HandoffId,
    pub(super) principal: &'a str,
    pub(super) status: HandoffStatus,
    /// The document, or `None` to write only the status.
    pub(super) document: Option<&'a DocumentRecord>,
    pub(super) is_copy: bool,
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
