//! The store in a server that several proxies share: Redis or Valkey.
//!
//! All keys have one prefix, which is in one slot of a cluster: each write of several records is one script, and atomic.
//! The record of a conversation is written over the version that the writer knows, or the change is made again on the
//! newer one. Reads and writes have connections of their own: a write may wait for a replica or for the server's file,
//! and what is read does not wait behind it. Nothing here ends by itself in the server; [`Store::sweep`] deletes.

mod bulk;
mod dial;
mod kinds;
mod link;
mod packets;
mod scripts;
mod settings;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{Pipeline, Value};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use self::dial::{Dial, text};
use self::kinds::{
    ARCHIVED, CONVERSATION, CUT_POINT, HANDOFF, HANDOFF_IDS, HEAD, INSERTION, Kind, PACKET, PAIR,
    RESPONSE_ID, Record, ResponseId,
};
use self::link::{Durable, Link, Request};
use self::scripts::{Script, ScriptCall};
use super::records::{Page, RecordKind, Retention, StoredRecord};
use super::replicas::Replica;
use super::{HandoffFilter, PacketFilter, Store, StoreError, StoreFuture, foreign, now_ms, random};
use crate::config::{self, Durability, StoreAddress};
use crate::record::{
    Conversation, CutPoint, Handoff, HandoffId, HiddenPair, Insertion, PacketRecord, PacketStatus, Principal,
    Update, Written,
};

/// Connections for writes: one may wait for a replica, and what is written meanwhile does not wait behind it.
const WRITERS: usize = 4;

/// A record that is read is touched again when its last use is older than this: see the SQLite store.
const TOUCH_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// How often a change is made again where others change the same record meanwhile. Each time one of them succeeds.
const MOST_OVERTAKEN: usize = 256;

/// Records read or looked at by one call: the server does nothing else meanwhile.
const PAGE: usize = 256;

/// How the store is reached, and what it promises.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server.
    pub address: StoreAddress,
    /// When a write is durable.
    pub durability: Durability,
    /// In front of every key.
    pub prefix: String,
    /// How long a call may take.
    pub time: Duration,
    /// Certificates (PEM) that the server's is signed by; `None`: Mozilla's roots.
    pub ca_file: Option<PathBuf>,
}

/// The Redis store.
pub struct RedisStore {
    shared: Arc<Shared>,
}

struct Shared {
    prefix: String,
    slot: String,
    durability: Durability,
    time: Duration,
    reader: Link,
    writers: Vec<Link>,
    next_writer: AtomicUsize,
}

impl RedisStore {
    /// Opens the store as the config describes it.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub fn of(settings: &config::Store) -> Result<Self, StoreError> {
        let address = settings.address.clone().ok_or_else(|| StoreError {
            message: "store.url is missing".to_owned(),
        })?;
        Self::open(&Options {
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
    pub fn open(options: &Options) -> Result<Self, StoreError> {
        // Braces: a cluster places keys by what stands in them.
        let prefix = format!("{{{}}}:", options.prefix);
        let slot = format!("{prefix}slot");
        let ca = options.ca_file.as_deref();
        let dial = Dial::new(options.address.clone(), options.durability, slot.clone(), ca);
        let dial = Arc::new(dial.map_err(|message| StoreError { message })?);
        let link = || Link::new(Arc::clone(&dial), options.time);
        Ok(Self {
            shared: Arc::new(Shared {
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

impl Shared {
    fn call(&self, script: Script, args: Vec<Vec<u8>>) -> ScriptCall {
        ScriptCall {
            script,
            slot: self.slot.clone(),
            args,
        }
    }

    fn key(&self, kind: Kind, id: &str) -> String {
        format!("{}{}:{id}", self.prefix, kind.name)
    }

    fn reader(&self) -> &Link {
        // With the first call all connect, so that no later one waits for a connection of its own.
        self.writers.iter().for_each(Link::start);
        &self.reader
    }

    fn writer(&self) -> &Link {
        self.writers.iter().for_each(Link::start);
        let next = self.next_writer.fetch_add(1, Ordering::Relaxed);
        &self.writers[next % self.writers.len()]
    }

    async fn read(
        &self,
        what: &'static str,
        script: Script,
        args: Vec<Vec<u8>>,
    ) -> Result<Vec<String>, StoreError> {
        let request = Request::Script(self.call(script, args), Durable::No);
        let answer = self.reader().send(what, &request).await?;
        texts(answer.into_iter().next().unwrap_or_default())
    }

    /// Plain commands, whose answers are texts, numbers or lists of them.
    async fn ask(&self, what: &'static str, pipe: Pipeline) -> Result<Vec<Value>, StoreError> {
        self.reader().send(what, &Request::Plain(pipe)).await
    }

    /// Writes records; `Some`: a record has another version, and is this one.
    async fn write(
        &self,
        what: &'static str,
        records: Vec<Record>,
        durable: Durable,
    ) -> Result<Option<String>, StoreError> {
        let mut args = vec![self.prefix.clone().into_bytes()];
        for record in records {
            record.args(&mut args);
        }
        let request = Request::Script(self.call(Script::Write, args), durable);
        let answer = self.writer().send(what, &request).await?;
        let mut answer = texts(answer.into_iter().next().unwrap_or_default())?.into_iter();
        match (answer.next().as_deref(), answer.next()) {
            (Some("written"), _) => Ok(None),
            (Some("overtaken"), stored) => Ok(Some(stored.unwrap_or_default())),
            (Some("foreign"), _) => Err(foreign(what)),
            _ => Err(strange(what)),
        }
    }

    /// Writes records and the change to their conversation.
    async fn update(
        &self,
        what: &'static str,
        records: impl Fn() -> Result<Vec<Record>, StoreError>,
        update: &Update,
        durable: Durable,
    ) -> Result<Written, StoreError> {
        let known = &update.known;
        let mut stored = (known.version > 0).then(|| known.clone());
        let began = Instant::now();
        for attempt in 0..MOST_OVERTAKEN {
            // Each attempt ends within a call's time; no other one begins behind it.
            if attempt > 0 && began.elapsed() >= self.time {
                break;
            }
            let over = stored.as_ref().map_or(0, |stored| stored.version);
            let written = update.on(stored, step()?).ok_or_else(|| foreign(what))?;
            let mut all = records()?;
            all.push(Record::conversation(&written.record, over)?);
            match self.write(what, all, durable).await? {
                None => return Ok(written),
                Some(newer) if newer.is_empty() => stored = None,
                Some(newer) => stored = Some(from_json(&newer)?),
            }
        }
        Err(StoreError {
            message: format!("{what}: others change the conversation all the time"),
        })
    }

    /// Records by id, in the order asked, without unknown ones: with their last use, and the fields asked for.
    async fn records<const N: usize>(
        &self,
        what: &'static str,
        kind: Kind,
        owner: &str,
        fields: [&str; N],
        ids: impl IntoIterator<Item = String>,
    ) -> Result<Vec<(u64, [String; N])>, StoreError> {
        let found = self.records_by_id(what, kind, owner, fields, ids).await?;
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// The same, with their ids.
    async fn records_by_id<const N: usize>(
        &self,
        what: &'static str,
        kind: Kind,
        owner: &str,
        fields: [&str; N],
        ids: impl IntoIterator<Item = String>,
    ) -> Result<Vec<(String, (u64, [String; N]))>, StoreError> {
        let ids: Vec<String> = ids.into_iter().collect();
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PAGE) {
            let mut args = vec![&*self.prefix, kind.name, owner, kind.times];
            let count = N.to_string();
            args.push(&count);
            args.extend(fields);
            args.extend(ids.iter().map(String::as_str));
            let args = args.into_iter().map(|arg| arg.as_bytes().to_vec()).collect();
            let mut answer = self.read(what, Script::Read, args).await?.into_iter();
            while let (Some(id), Some(used)) = (answer.next(), answer.next()) {
                let values = [(); N].map(|()| answer.next().unwrap_or_default());
                found.push((id, (used.parse().unwrap_or_default(), values)));
            }
        }
        Ok(found)
    }

    /// Parsed records by id; those used long ago are touched.
    async fn parsed<T: DeserializeOwned>(
        self: &Arc<Self>,
        what: &'static str,
        kind: Kind,
        owner: &str,
        ids: impl IntoIterator<Item = Uuid>,
    ) -> Result<Vec<T>, StoreError> {
        let ids: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.records(what, kind, owner, ["r"], ids.clone()).await?;
        let touched = found.iter().map(|(used, _)| *used);
        // An unknown id among them is touched in vain.
        if touched.into_iter().any(is_stale) {
            self.touch(kind, ids);
        }
        found.iter().map(|(_, [record])| from_json(record)).collect()
    }

    /// The records in some indexes, each once.
    async fn find<T: DeserializeOwned>(
        self: &Arc<Self>,
        what: &'static str,
        kind: Kind,
        owner: &str,
        indexes: HashSet<String>,
    ) -> Result<Vec<T>, StoreError> {
        let (mut found, mut stale) = (Vec::new(), Vec::new());
        let indexes: Vec<String> = indexes.into_iter().collect();
        for indexes in indexes.chunks(PAGE) {
            let args = [&*self.prefix, kind.name, owner, kind.times].into_iter();
            let args = args.chain(indexes.iter().map(String::as_str));
            let args = args.map(|arg| arg.as_bytes().to_vec()).collect();
            let mut answer = self.read(what, Script::Find, args).await?.into_iter();
            while let (Some(id), Some(used), Some(record)) = (answer.next(), answer.next(), answer.next()) {
                found.push(from_json(&record)?);
                if is_stale(used.parse().unwrap_or_default()) {
                    stale.push(id);
                }
            }
        }
        if !stale.is_empty() {
            self.touch(kind, stale);
        }
        Ok(found)
    }

    /// The records that one of the indexes of these keys leads to, in `order`.
    async fn found_at<T: DeserializeOwned, K: Ord>(
        self: &Arc<Self>,
        what: &'static str,
        kind: Kind,
        principal: &str,
        keys: &[String],
        index: fn(&str, &str) -> String,
        order: fn(&T) -> K,
    ) -> Result<Vec<T>, StoreError> {
        let indexes = keys.iter().map(|key| index(principal, key)).collect();
        let mut found = self.find(what, kind, principal, indexes).await?;
        found.sort_by_key(order);
        Ok(found)
    }

    /// Marks records as used now, behind the answer. Once a day for each.
    fn touch(self: &Arc<Self>, kind: Kind, ids: Vec<String>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let mut pipe = Pipeline::new();
            let key = format!("{}{}", shared.prefix, kind.times);
            let now = now_ms();
            for id in ids {
                pipe.cmd("ZADD").arg(&key).arg("XX").arg("GT").arg(now).arg(id);
            }
            // The next reader tries again.
            let _ = shared.writer().send("touch records", &Request::Plain(pipe)).await;
        });
    }

    /// Handoffs that fit, without their heads, newest first.
    async fn handoffs(&self, filter: &HandoffFilter) -> Result<Vec<Handoff>, StoreError> {
        let what = "list handoffs";
        let index = match (&filter.ids, &filter.conversation) {
            (Some(_), _) => HANDOFF_IDS.to_owned(),
            (None, Some(key)) => kinds::of_conversation(key),
            (None, None) => HANDOFF.times.to_owned(),
        };
        let key = format!("{}{index}", self.prefix);
        // By id they are read all, and put in order then.
        let limit = Some(filter.limit).filter(|limit| *limit > 0 && filter.ids.is_none());
        let mut found = Vec::new();
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
            let ids = texts(self.ask(what, pipe).await?.into_iter().next().unwrap_or_default())?;
            let last = ids.len() < PAGE;
            for (_, values) in self.records(what, HANDOFF, "", ["r", ARCHIVED], ids).await? {
                let handoff = handoff(values, String::new())?;
                if filter.fits(&handoff) {
                    found.push(handoff);
                }
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

    /// Writes a replica's entry of the register, or takes it out; returns the entries of all.
    async fn register(&self, name: &str, record: String) -> Result<Vec<Replica>, StoreError> {
        let kept = super::replicas::KEPT.as_millis().to_string();
        let args = [self.prefix.clone(), name.to_owned(), record, kept].map(String::into_bytes);
        let request = Request::Script(self.call(Script::Replicas, args.into()), Durable::No);
        let answer = self.writer().send("register a replica", &request).await?;
        let all = texts(answer.into_iter().next().unwrap_or_default())?;
        let mut all: Vec<Replica> = all.iter().filter_map(|record| from_json(record).ok()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Deletes what was last used before a time and is not in use.
    async fn sweep_kind(&self, kind: Kind, before_ms: u64) -> Result<u64, StoreError> {
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
            let args = args.map(|arg| arg.as_bytes().to_vec()).into();
            let request = Request::Script(self.call(Script::Sweep, args), Durable::No);
            let answer = self.writer().send("sweep old records", &request).await?;
            let answer = texts(answer.into_iter().next().unwrap_or_default())?;
            let mut counts = answer
                .iter()
                .map(|count| count.parse::<u64>().unwrap_or_default());
            let (looked, deleted) = (
                counts.next().unwrap_or_default(),
                counts.next().unwrap_or_default(),
            );
            gone += deleted;
            kept += looked - deleted.min(looked);
            if looked < PAGE as u64 {
                return Ok(gone);
            }
        }
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

    fn put_handoff<'a>(
        &'a self,
        handoff: &'a Handoff,
        point: Option<&'a CutPoint>,
        update: &'a Update,
    ) -> StoreFuture<'a, Written> {
        let records = move || {
            let mut all = vec![Record::handoff(handoff)?];
            all.extend(point.map(Record::cut_point).transpose()?);
            Ok(all)
        };
        Box::pin(
            self.shared
                .update("write a handoff", records, update, Durable::Yes),
        )
    }

    fn put_draft<'a>(&'a self, handoff: &'a Handoff) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let records = vec![Record::handoff(handoff)?];
            self.shared
                .write("write a handoff", records, Durable::Yes)
                .await
                .map(drop)
        })
    }

    fn handoffs<'a>(&'a self, filter: &'a HandoffFilter) -> StoreFuture<'a, Vec<Handoff>> {
        Box::pin(self.shared.handoffs(filter))
    }

    fn archive<'a>(&'a self, principal: &'a str, id: HandoffId, archived: bool) -> StoreFuture<'a, bool> {
        let key = self.shared.key(HANDOFF, &id.to_string());
        let value = u8::from(archived).to_string();
        let args = [&*key, principal, ARCHIVED, &value].map(|arg| arg.as_bytes().to_vec());
        let call = self.shared.call(Script::Set, args.into());
        Box::pin(async move {
            let request = Request::Script(call, Durable::Yes);
            let answer = self.shared.writer().send("archive a handoff", &request).await?;
            Ok(answer.first() == Some(&Value::Int(1)))
        })
    }

    fn pairs<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<HiddenPair>> {
        let ids = ids.iter().copied();
        Box::pin(self.shared.parsed("read hidden pairs", PAIR, principal, ids))
    }

    fn pairs_beside<'a>(
        &'a self,
        principal: &'a str,
        siblings: &'a [String],
    ) -> StoreFuture<'a, Vec<HiddenPair>> {
        Box::pin(async move {
            let order = |pair: &HiddenPair| (pair.created_ms, pair.id);
            let found = self.shared.found_at(
                "read hidden pairs",
                PAIR,
                principal,
                siblings,
                kinds::beside,
                order,
            );
            let mut found = found.await?;
            found.dedup_by_key(|pair| pair.id);
            Ok(found)
        })
    }

    fn put_pairs<'a>(&'a self, pairs: &'a [HiddenPair], update: &'a Update) -> StoreFuture<'a, Written> {
        let records = move || pairs.iter().map(Record::pair).collect();
        Box::pin(
            self.shared
                .update("write hidden pairs", records, update, Durable::Yes),
        )
    }

    fn put_cut_point<'a>(&'a self, point: &'a CutPoint) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let records = vec![Record::cut_point(point)?];
            self.shared
                .write("write a cut point", records, Durable::Yes)
                .await
                .map(drop)
        })
    }

    fn cut_points<'a>(
        &'a self,
        principal: &'a str,
        handoffs: &'a [HandoffId],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        let ids = handoffs.iter().copied();
        Box::pin(self.shared.parsed("read cut points", CUT_POINT, principal, ids))
    }

    fn cut_points_at<'a>(
        &'a self,
        principal: &'a str,
        digests: &'a [String],
    ) -> StoreFuture<'a, Vec<CutPoint>> {
        let order = |point: &CutPoint| point.handoff;
        let at = kinds::at_digest;
        Box::pin(
            self.shared
                .found_at("read cut points", CUT_POINT, principal, digests, at, order),
        )
    }

    fn put_insertion<'a>(&'a self, insertion: &'a Insertion, update: &'a Update) -> StoreFuture<'a, Written> {
        let records = move || Ok(vec![Record::insertion(insertion)?]);
        Box::pin(
            self.shared
                .update("write an insertion", records, update, Durable::Yes),
        )
    }

    fn insertions<'a>(&'a self, principal: &'a str, ids: &'a [Uuid]) -> StoreFuture<'a, Vec<Insertion>> {
        let ids = ids.iter().copied();
        Box::pin(self.shared.parsed("read insertions", INSERTION, principal, ids))
    }

    fn insertions_at<'a>(
        &'a self,
        principal: &'a str,
        places: &'a [String],
    ) -> StoreFuture<'a, Vec<Insertion>> {
        let order = |insertion: &Insertion| insertion.id;
        let at = kinds::at_place;
        Box::pin(
            self.shared
                .found_at("read insertions", INSERTION, principal, places, at, order),
        )
    }

    fn conversation<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Conversation>> {
        Box::pin(async move {
            let mut pipe = Pipeline::new();
            pipe.cmd("HGET").arg(self.shared.key(CONVERSATION, key)).arg("r");
            match self
                .shared
                .ask("read a conversation", pipe)
                .await?
                .into_iter()
                .next()
            {
                Some(Value::BulkString(record)) => from_json_bytes(&record).map(Some),
                _ => Ok(None),
            }
        })
    }

    fn change<'a>(&'a self, update: &'a Update) -> StoreFuture<'a, Written> {
        // As in the SQLite store, not durable: the next request derives it again.
        let records = || Ok(Vec::new());
        Box::pin(
            self.shared
                .update("write a conversation", records, update, Durable::No),
        )
    }

    fn response_id<'a>(&'a self, principal: &'a str, shown: &'a str) -> StoreFuture<'a, Option<String>> {
        Box::pin(async move {
            let id = kinds::response(principal, shown);
            let what = "read a response id";
            let found = self
                .shared
                .records(what, RESPONSE_ID, principal, ["r"], [id])
                .await?;
            let record = found.first().map(|(_, [record])| from_json::<ResponseId>(record));
            Ok(record.transpose()?.map(|record| record.upstream))
        })
    }

    fn put_response_id<'a>(
        &'a self,
        principal: &'a str,
        shown: &'a str,
        upstream: &'a str,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let record = Record::response_id(principal, shown, upstream, now_ms())?;
            let written = self
                .shared
                .write("write a response id", vec![record], Durable::Yes)
                .await;
            written.map(drop)
        })
    }

    fn put_packet<'a>(&'a self, packet: &'a PacketRecord) -> StoreFuture<'a, Vec<HandoffId>> {
        Box::pin(self.shared.put_packet(packet))
    }

    fn packets<'a>(&'a self, filter: &'a PacketFilter) -> StoreFuture<'a, Vec<PacketRecord>> {
        Box::pin(self.shared.packets(filter))
    }

    fn set_packet_status<'a>(
        &'a self,
        principal: &'a str,
        id: HandoffId,
        status: PacketStatus,
    ) -> StoreFuture<'a, Option<Vec<HandoffId>>> {
        Box::pin(self.shared.set_packet_status(principal, id, status))
    }

    fn archive_packets(&self, before_ms: u64) -> StoreFuture<'_, Vec<(Principal, HandoffId)>> {
        Box::pin(self.shared.archive_packets(before_ms))
    }

    fn sweep<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            // What they own goes behind them.
            let kinds = [
                (CONVERSATION, Some(retention.conversations)),
                (PAIR, Some(retention.pairs)),
                (CUT_POINT, Some(retention.places)),
                (INSERTION, Some(retention.places)),
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

    fn page<'a>(&'a self, kind: RecordKind, after: &'a str) -> StoreFuture<'a, Page> {
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

    fn announce<'a>(&'a self, replica: &'a Replica) -> StoreFuture<'a, Vec<Replica>> {
        Box::pin(async move {
            let record = serde_json::to_string(replica).map_err(|error| StoreError {
                message: format!("register a replica: {error}"),
            })?;
            self.shared.register(&replica.name, record).await
        })
    }

    fn leave<'a>(&'a self, name: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.shared.register(name, String::new()).await.map(drop) })
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        let mut pipe = Pipeline::new();
        pipe.cmd("EXISTS").arg(&self.shared.slot);
        Box::pin(async move { self.shared.ask("ask the store", pipe).await.map(drop) })
    }

    fn probe(&self) -> StoreFuture<'_, ()> {
        let records = vec![Record::probe()];
        Box::pin(async move {
            self.shared
                .write("try to write", records, Durable::Yes)
                .await
                .map(drop)
        })
    }

    fn unfit(&self) -> StoreFuture<'_, Option<String>> {
        Box::pin(async move {
            let line = self.shared.writer().line().await?;
            Ok(line.server.fit(self.shared.durability).err())
        })
    }
}

/// What is added to a version: at random, so that a version which a failover lost is not met again in another record.
fn step() -> Result<u64, StoreError> {
    let mut bytes = [0; 4];
    random(&mut bytes).map_err(|error| StoreError {
        message: format!("no randomness: {error}"),
    })?;
    Ok(1 + u64::from(u32::from_be_bytes(bytes) >> 12))
}

fn is_stale(used_ms: u64) -> bool {
    now_ms().saturating_sub(used_ms) > TOUCH_AFTER_MS
}

fn handoff([record, archived]: [String; 2], head: String) -> Result<Handoff, StoreError> {
    Ok(Handoff {
        head,
        archived: archived == "1",
        ..from_json(&record)?
    })
}

/// The texts of a list.
fn texts(value: Value) -> Result<Vec<String>, StoreError> {
    let read = |value| text(value).map_err(|message| StoreError { message });
    match value {
        Value::Array(values) => values.into_iter().map(read).collect(),
        Value::Nil => Ok(Vec::new()),
        other => read(other).map(|text| vec![text]),
    }
}

fn from_json<T: DeserializeOwned>(record: &str) -> Result<T, StoreError> {
    from_json_bytes(record.as_bytes())
}

fn from_json_bytes<T: DeserializeOwned>(record: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(record).map_err(|error| StoreError {
        message: format!("a record cannot be read: {error}"),
    })
}

fn strange(what: &str) -> StoreError {
    StoreError {
        message: format!("{what}: the server's answer has another form"),
    }
}
