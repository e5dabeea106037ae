//! The store in a server that several proxies share: Redis or Valkey.
//!
//! All keys have one prefix, which is in one slot of a cluster: each write of several records is one script, and
//! atomic. The record of a conversation is written over the version that the writer knows, or the change is made again
//! on the newer one. Reads and writes have connections of their own: a write may wait for a replica or for the server's
//! file, and what is read does not queue after it. Nothing here ends by itself in the server; [`Store::sweep`] deletes.

mod answers;
mod bulk;
mod dial;
mod documents;
mod kinds;
mod link;
mod scripts;
mod settings;
mod shared;

#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../../../tests/fuzz/checks/resp.rs"]
pub(crate) mod fuzzed;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use redis::Pipeline;

use self::answers::{RedisResponseId, first_texts, from_json, handoff};
use self::dial::Dialer;
use self::kinds::{ARCHIVED, CONVERSATION, HANDOFF, HEAD, RESPONSE_ID, RedisRecord};
use self::link::{Durable, Link};
use self::scripts::RedisScript;
use self::shared::{RedisCluster, redis_records};
use super::records::{Lookup, PlacedKind, PlacedRecord, RecordKind, RecordPage, Retention, StoredRecord};
use super::{DocumentFilter, HandoffFilter, Store, StoreError, StoreFuture};
use crate::state::config::{self, ServerDurability, StoreAddress};
use baton_core::record::{
    Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal, Update, UpdateOutcome,
};

/// Connections for writes: one may wait for a replica, and what is written meanwhile does not queue after it.
const WRITERS: usize = 4;

/// How the store is reached, and what it promises.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The server.
    pub address: StoreAddress,
    /// When a write is durable.
    pub durability: ServerDurability,
    /// In front of every key.
    pub prefix: String,
    /// How long a call may take.
    pub time: Duration,
    /// Certificates (PEM) that the server's is signed by; `None`: Mozilla's roots.
    pub ca_file: Option<PathBuf>,
}

/// The Redis store.
pub struct RedisStore {
    shared: Arc<RedisCluster>,
}

impl RedisStore {
    /// Opens the store as the config describes it.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn of(settings: &config::StoreConfig) -> Result<Self, StoreError> {
        let address = settings
            .address
            .clone()
            .ok_or_else(|| StoreError::new("store.url is missing"))?;
        Self::open(&RedisOptions {
            address,
            durability: settings.durability,
            prefix: settings.prefix.clone(),
            time: settings.timeout,
            ca_file: settings.ca_file.clone(),
        })
    }

    /// Connects with the first call.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn open(options: &RedisOptions) -> Result<Self, StoreError> {
        // Braces: a cluster places keys by what is in them.
        let prefix = format!("{{{}}}:", options.prefix);
        let slot = format!("{prefix}schema");
        let ca = options.ca_file.as_deref();
        let dial = Dialer::new(options.address.clone(), options.durability, slot.clone(), ca);
        let dial = Arc::new(dial.map_err(StoreError::new)?);
        let link = || Link::new(Arc::clone(&dial), options.time);
        Ok(Self {
            shared: Arc::new(RedisCluster {
                prefix,
                slot,
                durability: options.durability,
                time: options.time,
                reader: link(),
                writers: (0..WRITERS).map(|_| link()).collect(),
                next_writer: AtomicUsize::new(0),
            }),
        })
    }
}

impl Store for RedisStore {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn shared(&self) -> bool {
        true
    }

    fn handoff<'a>(&'a self, principal: &'a str, id: HandoffId) -> StoreFuture<'a, Option<Handoff>> {
        Box::pin(async move {
            let fields = ["r", ARCHIVED, HEAD];
            let what = "read a handoff";
            let found = self
                .shared
                .records(what, HANDOFF, principal, fields, [id.to_string()])
                .await?;
            let mut found = found
                .into_iter()
                .map(|(_, [record, archived, head])| handoff([record, archived], head));
            found.next().transpose()
        })
    }

    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> StoreFuture<'a, Vec<Handoff>> {
        Box::pin(self.shared.handoffs(filter))
    }

    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> StoreFuture<'a, bool> {
        let key = self.shared.key(HANDOFF, &id.to_string());
        let value = u8::from(archived).to_string();
        Box::pin(async move {
            let args = [&*key, principal, ARCHIVED, &value];
            let what = "archive a handoff";
            let answer = self
                .shared
                .run(what, RedisScript::Set, args, Durable::Yes)
                .await?;
            Ok(first_texts(answer)?.first().is_some_and(|set| set == "1"))
        })
    }

    fn find<'a>(
        &'a self,
        kind: PlacedKind,
        principal: &'a str,
        by: Lookup<'a>,
    ) -> StoreFuture<'a, Vec<PlacedRecord>> {
        Box::pin(self.shared.placed(kind, principal, by))
    }

    fn conversation<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        Box::pin(async move {
            let mut pipe = Pipeline::new();
            pipe.cmd("HGET").arg(self.shared.key(CONVERSATION, key)).arg("r");
            answers::conversation(self.shared.query("read a conversation", pipe).await?)
        })
    }

    fn put<'a>(&'a self, action: &'static str, records: Vec<StoredRecord>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let records = redis_records(&records)?;
            self.shared.write(action, records, Durable::Yes).await.map(drop)
        })
    }

    fn put_with<'a>(
        &'a self,
        action: &'static str,
        records: Vec<StoredRecord>,
        update: &'a Update,
    ) -> StoreFuture<'a, UpdateOutcome> {
        Box::pin(async move { self.shared.update(action, &records, update).await })
    }

    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let id = kinds::response(principal, shown);
            let what = "read a response id";
            let found = self
                .shared
                .records(what, RESPONSE_ID, principal, ["r"], [id])
                .await?;
            let record = found
                .first()
                .map(|(_, [record])| from_json::<RedisResponseId>(record));
            Ok(record.transpose()?.map(|record| record.upstream))
        })
    }

    fn put_document<'a>(&'a self, document: &'a DocumentRecord) -> StoreFuture<'a, Vec<HandoffId>> {
        Box::pin(self.shared.put_document(document))
    }

    fn documents<'a>(&'a self, filter: &'a DocumentFilter) -> StoreFuture<'a, Vec<DocumentRecord>> {
        Box::pin(self.shared.documents(filter))
    }

    fn set_document_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: HandoffStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>> {
        Box::pin(self.shared.set_document_status(principal, id, status))
    }

    fn archive_documents(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>> {
        Box::pin(self.shared.archive_documents(before_ms))
    }

    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            // Their records are deleted after them.
            let kinds = [
                (CONVERSATION, Some(retention.conversations)),
                (PlacedKind::Pair.into(), Some(retention.pairs)),
                (PlacedKind::CutPoint.into(), Some(retention.places)),
                (PlacedKind::Insertion.into(), Some(retention.places)),
                (RESPONSE_ID, Some(retention.response_ids)),
                (HANDOFF, retention.handoffs),
            ];
            let mut gone = 0;
            for (kind, before_ms) in kinds {
                if let Some(before_ms) = before_ms {
                    gone += self.shared.sweep_kind(kind, before_ms).await?;
                }
            }
            Ok(gone)
        })
    }

    fn page<'a>(&'a self, kind: RecordKind, after: &'a str) -> StoreFuture<'a, RecordPage> {
        Box::pin(self.shared.page(kind, after))
    }

    fn import<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        Box::pin(self.shared.import(records))
    }

    fn has<'a>(&'a self, records: &'a [StoredRecord]) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let stored = self.shared.stored(records).await?;
            Ok(stored.iter().flatten().count() as u64)
        })
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        let mut pipe = Pipeline::new();
        pipe.cmd("EXISTS").arg(&self.shared.slot);
        Box::pin(async move { self.shared.query("ask the store", pipe).await.map(drop) })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        let records = vec![RedisRecord::probe()];
        Box::pin(async move {
            self.shared
                .write("try to write", records, Durable::Yes)
                .await
                .map(drop)
        })
    }

    fn settings_problem(&self) -> StoreFuture<'_, Option<String>> {
        Box::pin(async move {
            let line = self.shared.writer().line().await?;
            Ok(line.server.fit(self.shared.durability).err())
        })
    }
}
