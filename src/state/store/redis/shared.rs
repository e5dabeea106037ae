//! The building blocks of the store's calls: scripts, pipelines, reads that find and touch records, writes that are
//! retried if another one was first.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Pipeline, Value};
use uuid::Uuid;

use super::answers::{self, UsedFields, first, from_json, handoff, placed};
use super::kinds::{self, ARCHIVED, HANDOFF, HANDOFF_IDS, RedisKind, RedisRecord};
use super::link::{Durable, Link, LinkRequest};
use super::scripts::{RedisScript, ScriptCall};
use crate::clock::now_ms;
use crate::config::ServerDurability;
use crate::store::records::{Lookup, PAGE, PlacedKind, PlacedRecord, StoredRecord, TOUCH_AFTER_MS};
use crate::store::{HandoffFilter, StoreError, StoreResult, foreign_record, random};
use baton_core::record::{Handoff, Update, UpdateOutcome};

/// How often a change is made again where others change the same record meanwhile. Each time one of them succeeds.
const MOST_OVERTAKEN: usize = 256;

/// The connections, and the names of keys.
pub(super) struct RedisCluster {
    pub(super) prefix: String,
    pub(super) slot: String,
    pub(super) durability: ServerDurability,
    pub(super) time: Duration,
    pub(super) reader: Link,
    pub(super) writers: Vec<Link>,
    pub(super) next_writer: AtomicUsize,
}

/// The records as the server stores them.
pub(super) fn redis_records(records: &[StoredRecord]) -> StoreResult<Vec<RedisRecord>> {
    records.iter().map(|record| RedisRecord::of(record, 0)).collect()
}

impl RedisCluster {
    pub(super) fn key(&self, kind: RedisKind, id: &str) -> String {
        format!("{}{}:{id}", self.prefix, kind.name)
    }

    pub(super) fn reader(&self) -> &Link {
        // The first call opens all connections, so that no later call waits for one.
        self.writers.iter().for_each(Link::start);
        &self.reader
    }

    pub(super) fn writer(&self) -> &Link {
        self.writers.iter().for_each(Link::start);
        let next = self.next_writer.fetch_add(1, Ordering::Relaxed);
        &self.writers[next % self.writers.len()]
    }

    /// A script that reads; returns its answer.
    pub(super) async fn read<T: FromRedisValue>(
        &self,
        what: &'static str,
        script: RedisScript,
        args: impl IntoIterator<Item: AsRef<[u8]>>,
    ) -> StoreResult<T> {
        let request = LinkRequest::Script(ScriptCall::new(script, args), Durable::No);
        first(what, self.reader().send(what, &request).await?)
    }

    /// A script that writes; returns its answer.
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

    /// The answers to plain commands.
    pub(super) async fn all(&self, what: &'static str, pipe: Pipeline) -> StoreResult<Vec<Value>> {
        self.reader().send(what, &LinkRequest::Plain(pipe)).await
    }

    /// The answer to one plain command.
    pub(super) async fn query<T: FromRedisValue>(
        &self,
        what: &'static str,
        pipe: Pipeline,
    ) -> StoreResult<T> {
        first(what, self.all(what, pipe).await?)
    }

    /// Writes records; `Some`: a record has another version, and is this one.
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

    /// Writes records and the change to their conversation.
    pub(super) async fn update(
        &self,
        what: &'static str,
        records: &[StoredRecord],
        update: &Update,
    ) -> StoreResult<UpdateOutcome> {
        // As in the SQLite store: the next request derives a change alone again.
        let durable = match records.is_empty() {
            true => Durable::No,
            false => Durable::Yes,
        };
        let known = &update.known;
        let mut stored = (known.version > 0).then(|| known.clone());
        let began = Instant::now();
        for attempt in 0..MOST_OVERTAKEN {
            // Each attempt ends within a call's time; no other one begins after it.
            if attempt > 0 && began.elapsed() >= self.time {
                break;
            }
            let over = stored.as_ref().map_or(0, |stored| stored.version);
            let written = update.on(stored, step()?).ok_or_else(|| foreign_record(what))?;
            let mut all = redis_records(records)?;
            all.push(RedisRecord::conversation(&written.record, over)?);
            match self.write(what, all, durable).await? {
                None => return Ok(written),
                Some(newer) if newer.is_empty() => stored = None,
                Some(newer) => stored = Some(from_json(&newer)?),
            }
        }
        Err(StoreError::new(format!(
            "{what}: others change the conversation all the time"
        )))
    }

    /// Records by id, in the requested order, without unknown ones: with their last use and the requested fields.
    pub(super) async fn records<const N: usize>(
        &self,
        what: &'static str,
        kind: RedisKind,
        owner: &str,
        fields: [&str; N],
        ids: impl IntoIterator<Item = String>,
    ) -> StoreResult<Vec<(String, UsedFields<N>)>> {
        let ids: Vec<String> = ids.into_iter().collect();
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PAGE) {
            let mut args = vec![&*self.prefix, kind.name, owner, kind.times];
            let count = N.to_string();
            args.push(&count);
            args.extend(fields);
            args.extend(ids.iter().map(String::as_str));
            found.extend(self.read::<Vec<_>>(what, RedisScript::Read, args).await?);
        }
        Ok(found)
    }

    /// Placed records, as [`Lookup`] has it; those used long ago are touched.
    pub(super) async fn placed(
        self: &Arc<Self>,
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
        let stale = found.iter().filter(|(_, (used_ms, _))| is_stale(*used_ms));
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

    /// The records in the indexes of these places.
    async fn at_places(
        &self,
        kind: PlacedKind,
        principal: &str,
        places: &[String],
    ) -> StoreResult<Vec<(String, UsedFields<1>)>> {
        let (what, kind) = (kind.reading(), RedisKind::from(kind));
        let indexes: HashSet<String> = places.iter().map(|key| kind.at_place(principal, key)).collect();
        let indexes: Vec<String> = indexes.into_iter().collect();
        let mut found = Vec::new();
        for indexes in indexes.chunks(PAGE) {
            let args = [&*self.prefix, kind.name, principal, kind.times].into_iter();
            let args = args.chain(indexes.iter().map(String::as_str));
            found.extend(self.read::<Vec<_>>(what, RedisScript::Find, args).await?);
        }
        Ok(found)
    }

    /// Marks records as used now, after the answer. Once a day for each.
    pub(super) fn touch(self: &Arc<Self>, kind: RedisKind, ids: Vec<String>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let mut pipe = Pipeline::new();
            let key = format!("{}{}", shared.prefix, kind.times);
            let now = now_ms();
            for id in ids {
                pipe.cmd("ZADD").arg(&key).arg("XX").arg("GT").arg(now).arg(id);
            }
            // The next reader tries again.
            let _ = shared
                .writer()
                .send("touch records", &LinkRequest::Plain(pipe))
                .await;
        });
    }

    /// Handoffs that fit, without their heads, newest first.
    pub(super) async fn handoffs(&self, filter: &HandoffFilter) -> StoreResult<Vec<Handoff>> {
        let what = "list handoffs";
        let index = match (&filter.ids, &filter.conversation) {
            (Some(_), _) => HANDOFF_IDS.to_owned(),
            (None, Some(key)) => kinds::of_conversation(key),
            (None, None) => HANDOFF.times.to_owned(),
        };
        let key = format!("{}{index}", self.prefix);
        // They are all read by id, and then sorted.
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
            let ids: Vec<String> = self.query(what, pipe).await?;
            let last = ids.len() < PAGE;
            for (_, (_, values)) in self.records(what, HANDOFF, "", ["r", ARCHIVED], ids).await? {
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

    /// Deletes what was last used before a time and is not in use.
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
            kept += u64::from(looked.saturating_sub(deleted));
            if (looked as usize) < PAGE {
                return Ok(gone);
            }
        }
    }
}

/// What is added to a version: at random, so that a version which a failover lost is not met again in another record.
fn step() -> StoreResult<u64> {
    let mut bytes = [0; 4];
    random(&mut bytes).map_err(|error| StoreError::new(format!("no randomness: {error}")))?;
    Ok(1 + u64::from(u32::from_be_bytes(bytes) >> 12))
}

fn is_stale(used_ms: u64) -> bool {
    now_ms().saturating_sub(used_ms) > TOUCH_AFTER_MS
}
