//! Reads the server's answers: from its values to texts, records and counts.
//!
//! Pure: no connection, no clock. Any server may answer with anything; each function returns, and an answer of another form
//! is an error. `tests/fuzz` calls them all (`resp`).

use redis::{ServerErrorKind, Value};
use serde::de::DeserializeOwned;

use super::settings::{ServerState, WriteWait};
use crate::store::records::{PlacedKind, PlacedRecord, RecordKind, StoredRecord};
use crate::store::{StoreError, StoreResult, foreign_record};
use baton_core::record::{Conversation, DocumentRecord, Handoff, HandoffId, HandoffStatus, Principal};

/// A record's last use in milliseconds since the Unix epoch, and the fields that were read of it.
pub(super) type UsedFields<const N: usize> = (u64, [String; N]);

/// A value's text.
pub(super) fn text(value: Value) -> Result<String, String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| "an answer is not UTF-8".to_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text),
        Value::Int(number) => Ok(number.to_string()),
        Value::ServerError(error) => Err(format!(
            "{} {}",
            error.code(),
            error.details().unwrap_or_default()
        )),
        other => Err(format!("an answer has another form: {other:?}")),
    }
}

/// The texts of a list.
pub(super) fn texts(value: Value) -> StoreResult<Vec<String>> {
    let read = |value| text(value).map_err(StoreError::new);
    match value {
        Value::Array(values) => values.into_iter().map(read).collect(),
        Value::Nil => Ok(Vec::new()),
        other => read(other).map(|text| vec![text]),
    }
}

/// The texts of the first answer.
pub(super) fn first_texts(answers: Vec<Value>) -> StoreResult<Vec<String>> {
    texts(answers.into_iter().next().unwrap_or_default())
}

pub(super) fn from_json<T: DeserializeOwned>(record: &str) -> StoreResult<T> {
    from_json_bytes(record.as_bytes())
}

fn from_json_bytes<T: DeserializeOwned>(record: &[u8]) -> StoreResult<T> {
    serde_json::from_slice(record).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> StoreError {
    StoreError::new(format!("a record cannot be read: {error}"))
}

pub(super) fn unexpected_reply(what: &str) -> StoreError {
    StoreError::new(format!("{what}: the server's answer has another form"))
}

/// The failure of a request.
#[derive(Debug)]
pub(super) enum LinkFault {
    /// The connection, or what it leads to, is not what it was: another one may do.
    Broken(String),
    /// The server refused it.
    Refused(String),
}

/// The fault that a reply is, if it is an error.
pub(super) fn server_fault(value: &Value) -> Option<LinkFault> {
    let Value::ServerError(error) = value else {
        return None;
    };
    let text = format!("{} {}", error.code(), error.details().unwrap_or_default());
    Some(match error.kind() {
        // The scripts are loaded with the connection; a failover or a flush takes them.
        Some(
            ServerErrorKind::NoScript
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain,
        ) => LinkFault::Broken(text),
        _ => LinkFault::Refused(text),
    })
}

/// The target of a redirection: `MOVED 3999 127.0.0.1:6381`.
pub(super) fn redirection(error: &str) -> Option<(String, u16)> {
    let mut words = error.strip_prefix("MOVED ")?.split_whitespace().skip(1);
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// The primary's address, as a Sentinel that knows the group gives it.
pub(super) fn primary_address(group: &str, answer: Value) -> Result<(String, u16), String> {
    let Value::Array(found) = answer else {
        return Err(format!("it knows no group {group}"));
    };
    let mut found = found.into_iter().map(text);
    let mut next = || found.next().unwrap_or_else(|| Err("no address".to_owned()));
    let host = next()?;
    let port = next()?.parse().map_err(|_| "no port".to_owned())?;
    Ok((host, port))
}

/// The digests of as many scripts, and the server's state: the answers to `SCRIPT LOAD`, `INFO` and `CONFIG GET`.
pub(super) fn greeting(scripts: usize, answers: Vec<Value>) -> Result<(Vec<String>, ServerState), String> {
    let mut answers = answers.into_iter();
    let digests = answers
        .by_ref()
        .take(scripts)
        .map(text)
        .collect::<Result<_, _>>()?;
    let info = text(answers.next().unwrap_or_default())?;
    // Managed servers may not report it.
    let fsync = match answers.next() {
        Some(Value::Array(pair)) => pair.into_iter().nth(1).and_then(|value| text(value).ok()),
        _ => None,
    };
    Ok((digests, ServerState::read(&info, fsync)))
}

/// Checks the answer to `WAIT` or `WAITAOF`: that the write is where it must be.
///
/// # Errors
/// It did not arrive in time.
pub(super) fn durable(wait: WriteWait, answer: Option<Value>) -> Result<(), LinkFault> {
    let reached = match answer {
        Some(Value::Int(replicas)) => replicas > 0,
        Some(Value::Array(counts)) => counts.first() == Some(&Value::Int(1)),
        _ => false,
    };
    let missing = match wait {
        WriteWait::File => "it is not in the server's file in time (store.durability = \"fsync\")",
        _ => "no replica has it in time (store.durability = \"replicated\")",
    };
    reached
        .then_some(())
        .ok_or_else(|| LinkFault::Refused(missing.to_owned()))
}

/// The outcome of a write of records; `Some`: a record has another version, and is this one.
pub(super) fn written(what: &str, answers: Vec<Value>) -> StoreResult<Option<String>> {
    let mut answer = first_texts(answers)?.into_iter();
    match (answer.next().as_deref(), answer.next()) {
        (Some("written"), _) => Ok(None),
        (Some("overtaken"), stored) => Ok(Some(stored.unwrap_or_default())),
        (Some("foreign"), _) => Err(foreign_record(what)),
        _ => Err(unexpected_reply(what)),
    }
}

/// Records by id, each with its last use and its fields.
pub(super) fn rows<const N: usize>(answers: Vec<Value>) -> StoreResult<Vec<(String, UsedFields<N>)>> {
    let mut answer = first_texts(answers)?.into_iter();
    let mut found = Vec::new();
    while let (Some(id), Some(used)) = (answer.next(), answer.next()) {
        let values = [(); N].map(|()| answer.next().unwrap_or_default());
        found.push((id, (used.parse().unwrap_or_default(), values)));
    }
    Ok(found)
}

/// A page of an index: the cursor of the next one, and the ids.
pub(super) fn page(what: &str, answers: Vec<Value>) -> StoreResult<(String, Vec<String>)> {
    let Some(Value::Array(pair)) = answers.into_iter().next() else {
        return Err(unexpected_reply(what));
    };
    let mut pair = pair.into_iter();
    let cursor = texts(pair.next().unwrap_or_default())?.into_iter().next();
    let found = texts(pair.next().unwrap_or_default())?;
    // Each with its score after it.
    Ok((cursor.unwrap_or_default(), found.into_iter().step_by(2).collect()))
}

/// How many records a sweep examined, and how many it deleted.
pub(super) fn swept(answers: Vec<Value>) -> StoreResult<(u64, u64)> {
    let answer = first_texts(answers)?;
    let count = |at: usize| {
        answer
            .get(at)
            .and_then(|count| count.parse().ok())
            .unwrap_or_default()
    };
    Ok((count(0), count(1)))
}

/// The record of a conversation.
pub(super) fn conversation(answers: Vec<Value>) -> StoreResult<Option<Conversation>> {
    match answers.into_iter().next() {
        Some(Value::BulkString(record)) => from_json_bytes(&record).map(Some),
        _ => Ok(None),
    }
}

pub(super) fn handoff([record, archived]: [String; 2], head: String) -> StoreResult<Handoff> {
    Ok(Handoff {
        head,
        archived: archived == "1",
        ..from_json(&record)?
    })
}

pub(super) fn placed(kind: PlacedKind, record: &str) -> StoreResult<PlacedRecord> {
    PlacedRecord::from_json(kind, record).map_err(unreadable)
}

/// A record of any kind: from its owner, its JSON, whether it is archived, its head and its status.
pub(super) fn record(
    kind: RecordKind,
    (used_ms, [owner, record, archived, head, status]): UsedFields<5>,
) -> StoreResult<StoredRecord> {
    Ok(match kind {
        RecordKind::Handoff => StoredRecord::Handoff(Box::new(handoff([record, archived], head)?)),
        RecordKind::Placed(kind) => StoredRecord::Placed {
            record: placed(kind, &record)?,
            used_ms,
        },
        RecordKind::ResponseId => StoredRecord::ResponseId {
            record: from_json(&record)?,
            used_ms,
        },
        RecordKind::Conversation => StoredRecord::Conversation(from_json(&record)?),
        RecordKind::Document => StoredRecord::Document(Box::new(document_of(owner, &status, &record)?)),
    })
}

/// The result of the script that writes documents.
#[derive(Debug)]
pub(super) enum ScriptResult {
    /// The document has this status now, and these are superseded.
    Written(String, Vec<HandoffId>),
    /// The record belongs to another principal.
    Foreign,
    /// There is none whose status could be written.
    Unknown,
}

/// The outcome of a write of a document.
pub(super) fn document_written(what: &str, answers: Vec<Value>) -> StoreResult<ScriptResult> {
    let mut answer = first_texts(answers)?.into_iter();
    match (answer.next().as_deref(), answer.next()) {
        (Some("written"), Some(status)) => {
            let superseded = answer.filter_map(|id| id.parse().ok());
            Ok(ScriptResult::Written(status, superseded.collect()))
        }
        (Some("foreign"), _) => Ok(ScriptResult::Foreign),
        (Some("unknown"), _) => Ok(ScriptResult::Unknown),
        _ => Err(unexpected_reply(what)),
    }
}

/// How many documents were examined, and which are archived now.
pub(super) fn documents_archived(
    what: &str,
    answers: Vec<Value>,
) -> StoreResult<(usize, Vec<(Principal, HandoffId)>)> {
    let mut answer = first_texts(answers)?.into_iter();
    let looked = answer.next().and_then(|looked| looked.parse().ok());
    let looked = looked.ok_or_else(|| unexpected_reply(what))?;
    let mut archived = Vec::new();
    while let (Some(owner), Some(id)) = (answer.next(), answer.next()) {
        archived.extend(id.parse().ok().map(|id| (owner, id)));
    }
    Ok((looked, archived))
}

/// A document from its fields; `None` where there is none.
pub(super) fn document(values: Value) -> StoreResult<Option<DocumentRecord>> {
    if let Value::Array(values) = &values
        && values.contains(&Value::Nil)
    {
        return Ok(None);
    }
    let Ok([principal, status, record]) = <[String; 3]>::try_from(texts(values)?) else {
        return Ok(None);
    };
    document_of(principal, &status, &record).map(Some)
}

fn document_of(principal: String, status: &str, record: &str) -> StoreResult<DocumentRecord> {
    Ok(DocumentRecord {
        principal,
        status: HandoffStatus::named(status).unwrap_or(HandoffStatus::Superseded),
        ..from_json(record)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        assert_eq!(
            redirection("MOVED 3999 127.0.0.1:6381"),
            Some(("127.0.0.1".into(), 6381))
        );
        assert_eq!(redirection("MOVED 3999 ::1:6381"), Some(("::1".into(), 6381)));
        assert_eq!(redirection("MOVED 3999 :6381"), Some((String::new(), 6381)));
        assert_eq!(redirection("ERR no"), None);
    }
}
