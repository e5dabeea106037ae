//! Parses the server's replies into records and outcomes.
//!
//! Pure: no connection, no clock. A server may reply with anything. Each function returns, and a reply of an
//! unexpected form is an error. `tests/fuzz` calls all of them (`resp`).

use redis::{FromRedisValue, InfoDict, ServerError, ServerErrorKind, Value};
use serde::de::DeserializeOwned;

use super::settings::{ServerState, WriteWait};
use crate::store::record_text::{ARCHIVED, RecordText};
use crate::store::records::{PlacedKind, PlacedRecord, RecordKind, StoredRecord};
use crate::store::{StoreError, StoreResult, foreign_record};
use baton_core::record::{Handoff, HandoffId};

/// Last use of a record in milliseconds since the Unix epoch, and the requested fields.
pub(super) type UsedFields<const N: usize> = (u64, [String; N]);

/// Maximum characters of a server's error.
const MAX_ERROR_CHARS: usize = 300;

/// Converts a value to the expected type. An error reply from the server is an error.
pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, String> {
    match value {
        Value::ServerError(error) => Err(error_text(&error)),
        value => redis::from_redis_value(value).map_err(|_| "a reply has an unexpected form".to_owned()),
    }
}

/// Converts the first reply to the expected type.
pub(super) fn first<T: FromRedisValue>(what: &str, answers: Vec<Value>) -> StoreResult<T> {
    let first = answers.into_iter().next().unwrap_or_default();
    redis::from_redis_value(first).map_err(|_| unexpected_reply(what))
}

fn error_text(error: &ServerError) -> String {
    shortened(format!(
        "{} {}",
        error.code(),
        error.details().unwrap_or_default()
    ))
}

/// Shortens a string of the server. Errors are logged with each request, so a long one would fill the log.
pub(super) fn shortened(text: String) -> String {
    text.chars().take(MAX_ERROR_CHARS).collect()
}

pub(super) fn from_json<T: DeserializeOwned>(record: &str) -> StoreResult<T> {
    serde_json::from_str(record).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> StoreError {
    StoreError::new(format!("a record cannot be read: {error}"))
}

pub(super) fn unexpected_reply(what: &str) -> StoreError {
    StoreError::new(format!("{what}: the server's reply has an unexpected form"))
}

/// The failure of a request.
#[derive(Debug)]
pub(super) enum LinkFault {
    /// The connection is broken, or leads to a server with another role. A new connection may succeed.
    Broken(String),
    /// The server refused the request.
    Refused(String),
}

/// Classifies an error reply. Returns `None` for any other reply.
pub(super) fn server_fault(value: &Value) -> Option<LinkFault> {
    let Value::ServerError(error) = value else {
        return None;
    };
    let text = error_text(error);
    Some(match error.kind() {
        // Scripts are loaded with each connection. `NOSCRIPT` means that a failover or a flush removed them.
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

/// Parses the target of a redirection such as `MOVED 3999 127.0.0.1:6381`.
pub(super) fn redirection(error: &str) -> Option<(String, u16)> {
    let mut words = error.strip_prefix("MOVED ")?.split_whitespace().skip(1);
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// Parses the replies to `SCRIPT LOAD` (one for each script), `INFO` and `CONFIG GET`.
///
/// Returns the digests of the scripts and the state of the server.
pub(super) fn greeting(scripts: usize, answers: Vec<Value>) -> Result<(Vec<String>, ServerState), String> {
    let mut answers = answers.into_iter();
    let digests = answers.by_ref().take(scripts);
    let digests = digests.map(read).collect::<Result<_, _>>()?;
    let info: InfoDict = read(answers.next().unwrap_or_default())?;
    // Managed servers may forbid `CONFIG GET`.
    let fsync = answers.next().and_then(|pair| read::<(Value, String)>(pair).ok());
    let mut server = ServerState::read(&info, fsync.map(|(_, fsync)| shortened(fsync)));
    server.role = shortened(server.role);
    server.eviction = shortened(server.eviction);
    Ok((digests, server))
}

/// Checks the reply to `WAIT` or `WAITAOF` for the required durability.
///
/// # Errors
/// Returns an error if the write did not get there in time.
pub(super) fn durable(wait: WriteWait, answer: Option<Value>) -> Result<(), LinkFault> {
    let reached = match answer {
        Some(Value::Int(replicas)) => replicas > 0,
        // `WAITAOF` returns the number of local files (0 or 1) and of replicas.
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

/// Parses the outcome of writing records. `Some` contains a record that has another version than expected.
pub(super) fn written(what: &str, answer: Vec<String>) -> StoreResult<Option<String>> {
    let mut answer = answer.into_iter();
    match (answer.next().as_deref(), answer.next()) {
        (Some("written"), _) => Ok(None),
        (Some("overtaken"), stored) => Ok(Some(stored.unwrap_or_default())),
        (Some("foreign"), _) => Err(foreign_record(what)),
        _ => Err(unexpected_reply(what)),
    }
}

pub(super) fn handoff([json, archived]: [String; 2], body: String) -> StoreResult<Option<Handoff>> {
    let fields = [String::new(), json, archived, body, String::new()];
    record(RecordKind::Handoff, (0, fields)).map(StoredRecord::into_handoff)
}

pub(super) fn placed(kind: PlacedKind, record: &str) -> StoreResult<PlacedRecord> {
    PlacedRecord::from_json(kind, record).map_err(unreadable)
}

/// Builds a record of any kind from its owner, JSON, archive flag, head and status.
pub(super) fn record(
    kind: RecordKind,
    (used_ms, [owner, json, archived, body, status]): UsedFields<5>,
) -> StoreResult<StoredRecord> {
    let state = match archived == "1" {
        true => ARCHIVED.to_owned(),
        false => status,
    };
    let text = RecordText { state, json, body };
    text.record(kind, owner, used_ms).map_err(unreadable)
}

/// The result of the script that writes documents.
#[derive(Debug)]
pub(super) enum ScriptResult {
    /// The document now has this status, and these handoffs' documents are superseded.
    Written(String, Vec<HandoffId>),
    /// The record belongs to another principal.
    Foreign,
    /// There is no document whose status could be set.
    Unknown,
}

/// Parses the outcome of writing a document.
pub(super) fn document_written(what: &str, answer: Vec<String>) -> StoreResult<ScriptResult> {
    let mut answer = answer.into_iter();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_is_shortened() {
        let error = format!("-ERR {}\r\n", "e".repeat(9000));
        let value = redis::parse_redis_value(error.as_bytes()).unwrap();
        let Some(LinkFault::Refused(text)) = server_fault(&value) else {
            panic!("not an error: {value:?}");
        };
        assert!(
            text.starts_with("ERR eee") && text.len() == MAX_ERROR_CHARS,
            "{text}"
        );
    }

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
