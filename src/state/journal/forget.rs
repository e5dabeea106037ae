//! Deletes the exchanges of a client, a conversation or a handoff.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Transaction, TransactionBehavior, params_from_iter};

use super::retention::{collect, drop_exchange};
use super::schema::{self, JournalResult};
use crate::database::{all, empty_log};

/// Exchanges deleted in one transaction, so that a running proxy can write in between.
const STEP: usize = 64;

/// Selects the exchanges to delete.
#[derive(Debug, Clone, Copy)]
pub enum ForgottenExchanges<'a> {
    Client(&'a str),
    /// Key of the conversation.
    Conversation(&'a str),
    /// Exchanges that name the handoff, and those of its conversation since its creation.
    Handoff {
        id: &'a str,
        conversation: &'a str,
        from_ms: u64,
    },
}

impl ForgottenExchanges<'_> {
    fn condition(self) -> (&'static str, Vec<Value>) {
        let text = |value: &str| Value::Text(value.to_owned());
        match self {
            Self::Client(name) => ("principal = ?1", vec![text(name)]),
            Self::Conversation(key) => ("conversation = ?1", vec![text(key)]),
            Self::Handoff {
                id,
                conversation,
                from_ms,
            } => (
                "instr(event, ?1) OR (conversation = ?2 AND at_ms >= ?3)",
                vec![
                    text(id),
                    text(conversation),
                    Value::Integer(i64::try_from(from_ms).unwrap_or(i64::MAX)),
                ],
            ),
        }
    }
}

/// Deletes exchanges from the journal of a state directory. Returns their number.
///
/// While a proxy serves (`is_serving`), open exchanges stay, and the proxy frees the space of deleted bodies
/// within minutes, because it caches where they are. With `dry_run` nothing is deleted.
///
/// # Errors
/// Returns an error if the journal cannot be opened, read or written.
pub fn forget(
    dir: &Path,
    exchanges: ForgottenExchanges<'_>,
    is_serving: bool,
    dry_run: bool,
) -> JournalResult<u64> {
    if !schema::is_there(dir)? {
        return Ok(0);
    }
    let conn = schema::open(dir)?;
    let (condition, values) = exchanges.condition();
    let ended = if is_serving { "ended IS NOT NULL" } else { "1" };
    let sql = format!("SELECT seq FROM exchanges WHERE ({condition}) AND {ended}");
    let rows: Vec<i64> = all(&conn, &sql, params_from_iter(values), |row| row.get(0))?;
    if dry_run {
        return Ok(rows.len() as u64);
    }
    // Overwrites whole pages as well, which would otherwise keep their bytes while they are free.
    conn.pragma_update(None, "secure_delete", true)?;
    // Takes the write lock at once: upgrading a read lock could fail despite the timeout.
    let begin = || Transaction::new_unchecked(&conn, TransactionBehavior::Immediate);
    for step in rows.chunks(STEP) {
        let tx = begin()?;
        step.iter().try_for_each(|seq| drop_exchange(&tx, *seq))?;
        tx.commit()?;
    }
    if !is_serving {
        loop {
            let tx = begin()?;
            let (nodes, chunks) = collect(&tx)?;
            tx.commit()?;
            if nodes.is_empty() && chunks.is_empty() {
                break;
            }
        }
        conn.execute_batch("PRAGMA incremental_vacuum;")?;
        empty_log(&conn)?;
    }
    Ok(rows.len() as u64)
}
