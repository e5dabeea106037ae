//! Parses the server's replies into records.

use redis::Value;
use serde::de::DeserializeOwned;

use super::dial::text;
use crate::state::store::records::{PlacedKind, PlacedRecord};
use crate::state::store::{StoreError, now_ms, random};
use baton_core::record::Handoff;

/// A record that is read is touched again when its last use is older than this: see the SQLite store.
const TOUCH_AFTER_MS: u64 = 24 * 60 * 60 * 1000;

/// What is added to a version: at random, so that a version which a failover lost is not met again in another record.
pub(super) fn step() -> Result<u64, StoreError> {
    let mut bytes = [0; 4];
    random(&mut bytes).map_err(|error| StoreError {
        message: format!("no randomness: {error}"),
    })?;
    Ok(1 + u64::from(u32::from_be_bytes(bytes) >> 12))
}

pub(super) fn is_stale(used_ms: u64) -> bool {
    now_ms().saturating_sub(used_ms) > TOUCH_AFTER_MS
}

pub(super) fn handoff([record, archived]: [String; 2], head: String) -> Result<Handoff, StoreError> {
    Ok(Handoff {
        head,
        archived: archived == "1",
        ..from_json(&record)?
    })
}

pub(super) fn placed(kind: PlacedKind, record: &str) -> Result<PlacedRecord, StoreError> {
    PlacedRecord::from_json(kind, record).map_err(unreadable)
}

/// The texts of a list.
pub(super) fn texts(value: Value) -> Result<Vec<String>, StoreError> {
    let read = |value| text(value).map_err(|message| StoreError { message });
    match value {
        Value::Array(values) => values.into_iter().map(read).collect(),
        Value::Nil => Ok(Vec::new()),
        other => read(other).map(|text| vec![text]),
    }
}

pub(super) fn from_json<T: DeserializeOwned>(record: &str) -> Result<T, StoreError> {
    from_json_bytes(record.as_bytes())
}

pub(super) fn from_json_bytes<T: DeserializeOwned>(record: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(record).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> StoreError {
    StoreError {
        message: format!("a record cannot be read: {error}"),
    }
}

pub(super) fn unexpected_reply(what: &str) -> StoreError {
    StoreError {
        message: format!("{what}: the server's answer has another form"),
    }
}
