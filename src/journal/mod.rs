//! The journal: what was received, sent, answered and shown in each exchange, written down beside the stream.
//!
//! ```text
//! exchange ─► tap (shared slices, bounded) ─► keeper (one thread) ─► archive ─► pool ─► journal.db
//!                                                        query ◄──────────────────────────┘
//! ```
//! The hot path knows `Tap`, `Recording` and `Gather` alone, and none of them waits: over a bound the copy is
//! dropped. A request body is kept as pieces, each message once, in chains that bodies share as far as they
//! begin alike. Credentials are taken out before anything is written. A broken journal never stops the proxy.

mod archive;
mod diff;
mod envelope;
mod exchange;
mod explain;
mod fast;
mod full;
mod har;
mod headers;
mod keep;
mod keeper;
mod note;
mod packed;
mod pieces;
mod place;
mod pool;
mod query;
mod reasons;
mod row;
mod schema;
mod search;
mod slip;
mod summary;
mod tap;
mod time_slice;
mod units;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::thread;

pub use crate::redact::Redactor;
pub use diff::State;
pub use exchange::{Body, EnvelopeChange, Exchange, Headers, Leg, Message, Messages, Response, Sent};
pub use fast::Beginnings;
pub use full::FullMessage;
pub use har::date_time;
pub use note::{Begun, Copied, SentLeg, Transcript};
pub use packed::PackedHeaders;
pub use query::{Conversation, Filter, Query, Side, Totals};
pub use row::{Event, LegChange, LegTokens, Row};
pub use schema::{FILE, JournalError};
pub use search::{Found, Hit, Place};
pub use summary::ShownPart;
pub(crate) use tap::now_ms;
pub use tap::{Gather, Live, Recording, Tap};
pub(crate) use units::{plural, short, size};

use self::archive::Archive;
use self::fast::Key;
use self::keep::Bounds;
use self::keeper::Keeper;
use crate::config::{Journal as Settings, Secret};

/// Starts the journal of a state directory. `tags` tell a harness's texts from a person's, for titles. The thread
/// ends when the last clone of the tap is gone.
///
/// A file that is not there yet is made on that thread, and what is noted meanwhile waits. Where it cannot be made,
/// the log says so, and every copy counts as dropped.
///
/// # Errors
/// The file that is there cannot be opened; whoever asks goes on with [`Tap::off`].
pub fn start(settings: &Settings, dir: &Path, tags: &[String]) -> Result<Tap, JournalError> {
    if !settings.enabled {
        return Ok(Tap::off());
    }
    let found = match schema::is_there(dir)? {
        true => Some(schema::open(dir)?),
        false => None,
    };
    let key = Key::new();
    let (tap, notes, load) = Tap::new(settings.queue_bytes, settings.response_bytes, key.clone());
    let live = tap.teller();
    let bounds = Bounds {
        max_bytes: settings.max_bytes,
        max_age_ms: u64::try_from(settings.max_age.as_millis()).unwrap_or(u64::MAX),
    };
    let (dir, tags) = (dir.to_owned(), tags.to_owned());
    let (redact, secrets) = (settings.redact.clone(), settings.secrets.clone());
    let open = move || {
        let conn = found.map_or_else(|| schema::make(&dir), Ok)?;
        // The search for credentials is made ready here, behind the start.
        schema::bound_log(&conn, bounds.max_bytes)?;
        let redactor = Redactor::new(&redact).knowing(secrets.iter().map(Secret::reveal));
        Ok::<_, JournalError>(Archive::new(conn, redactor, tags, key)?)
    };
    let work = move || match open() {
        Ok(archive) => {
            let keeper = Keeper {
                archive,
                notes,
                load,
                live,
                bounds,
                next: None,
            };
            keeper.run();
        }
        Err(error) => {
            tracing::error!(%error, "no journal is kept");
            keeper::drop_all(&notes, &load);
        }
    };
    let thread = thread::Builder::new().name("baton-journal".to_owned());
    thread.spawn(work)?;
    Ok(tap)
}
