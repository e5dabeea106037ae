//! The journal: records what each exchange received, sent and showed, without delaying it.
//!
//! ```text
//! exchange ─► recorder ─► queue (bounded) ─► writer (one thread) ─► archive ─► chunk store ─► journal.db
//!                                                                              query ◄───────────┘
//! ```
//! The hot path uses only `Recorder`, `Recording` and `BodyCapture`. None of them blocks: beyond a bound the
//! copy is dropped. A request body is stored as a chain of chunks, one for each message, and bodies with
//! equal beginnings share those nodes. Credentials are removed before anything is written. A failing journal never
//! stops the proxy.

mod answer_summary;
mod archive;
mod archive_notes;
mod bill;
mod bill_sums;
mod body_pieces;
mod chunk_bodies;
mod chunk_store;
mod chunks;
mod diff;
mod envelope;
mod exchange_query;
mod explain;
mod filter;
mod filter_terms;
mod forget;
mod har;
mod headers;
mod live_bodies;
mod open_exchange;
mod query;
mod queue;
mod recorder;
mod references;
mod retention;
mod row;
mod schema;
mod search;
mod search_pattern;
mod summary;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::thread;

pub use answer_summary::{AnswerSummary, CallSummary};
pub use baton_core::redact::Redactor;
pub use baton_core::text::units::{short, unsent};
pub use baton_core::text::words::plural;
pub use bill::{BillEntry, BillFilter};
pub use bill_sums::{BillGroup, BillSum, NO_GROUP, PriceSource, SavingsReport};
pub use diff::MessageState;
pub use exchange_query::{FullMessage, RowQuery};
pub use filter::{FilterError, RowFilter};
pub use filter_terms::FilteredRow;
pub use forget::{ForgottenExchanges, forget};
pub use headers::PackedHeaders;
pub use live_bodies::LivePart;
pub use query::{BodySide, ConversationSummary, ExchangeFilter, JournalReader, JournalTotals};
pub use queue::{CapturedBody, LiveEvent, ReceivedRequest, RecordedBody, SentLeg};
pub use recorder::{BodyCapture, Recorder, Recording};
pub use row::{
    BodySize, EnvelopeChange, ExchangeDetail, ExchangeRow, Headers, LegChange, LegDetail, LegRequest,
    LegResponse, MessageList, MessageSummary,
};
pub use schema::{FILE, JournalError, JournalResult};
pub use search::{SearchHit, SearchResult, TextPosition};
pub use summary::ShownPart;

use self::archive::Archive;
use self::retention::JournalBounds;
use self::writer::JournalWriter;
use crate::clock::millis;
use crate::config::{Journal as Settings, Secret};

/// Starts the journal of a state directory.
///
/// `tags` distinguish a harness's text from the user's, for titles. The thread ends when the last clone of
/// the recorder is dropped.
///
/// A missing file is created on that thread while notes queue up. If this fails, an error is logged and every
/// copy counts as dropped.
///
/// # Errors
/// Returns an error if an existing file cannot be opened. The caller continues with [`Recorder::off`].
pub fn start(settings: &Settings, dir: &Path, tags: &[String]) -> JournalResult<Recorder> {
    if !settings.enabled {
        return Ok(Recorder::off());
    }
    // An existing file is opened here, so that the caller gets its errors.
    let found = match schema::is_there(dir)? {
        true => Some(schema::open(dir)?),
        false => None,
    };
    let (recorder, notes, load) = Recorder::new(
        settings.queue_bytes,
        settings.response_bytes,
        Redactor::new(&settings.redact).knowing(settings.secrets.iter().map(Secret::reveal)),
    );
    let live = recorder.live_sender();
    let bounds = JournalBounds {
        max_bytes: settings.max_bytes,
        max_age_ms: millis(settings.max_age),
    };
    let (dir, tags) = (dir.to_owned(), tags.to_owned());
    let (redact, secrets) = (settings.redact.clone(), settings.secrets.clone());
    let cache_bytes = settings.cache_bytes;
    // Creating a file needs several flushes, which would delay the start of the proxy.
    let open = move || {
        let conn = found.map_or_else(|| schema::make(&dir), Ok)?;
        schema::bound_log(&conn, bounds.max_bytes)?;
        let redactor = Redactor::new(&redact).knowing(secrets.iter().map(Secret::reveal));
        Ok::<_, JournalError>(Archive::new(conn, redactor, tags, cache_bytes)?)
    };
    let work = move || match open() {
        Ok(archive) => {
            let writer = JournalWriter {
                archive,
                notes,
                load,
                live,
                bounds,
                next: None,
            };
            writer.run();
        }
        Err(error) => {
            tracing::error!(%error, "failed to open the journal; the journal is off");
            writer::drop_all(&notes, &load);
        }
    };
    let thread = thread::Builder::new().name("baton-journal".to_owned());
    thread.spawn(work)?;
    Ok(recorder)
}
