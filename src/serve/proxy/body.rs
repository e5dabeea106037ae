//! An agent's request body, collected and decoded within a limit.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};

use super::budget::{Budget, Hold};
use super::buffers;
use super::coding::Coding;
use super::decode::decode;
use super::fault::{Code, Fault, too_large};
use super::known_scans::{BodyReader, BodyScan};
use super::min_rate::{MinRateBody, Stopped};
use super::spill::{Spill, Spilled};
use crate::state::journal::Beginnings;

/// Maximum bytes that are drained of a refused body: an agent that is still writing would see a reset connection instead
/// of the response.
const DISCARD_BYTES: u64 = 256 << 20;
/// Maximum time for draining a refused body.
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// Bytes that are reserved on the strength of `content-length` alone; more is reserved as they arrive.
const TRUSTED_LENGTH: usize = 1 << 20;

/// The body of an agent's request, in one of its states.
#[derive(Debug, Clone)]
pub enum RequestBody {
    /// In memory, as it came: plain text.
    Plain(Bytes),
    /// In memory, as it came under a coding, and as plain text.
    Coded {
        /// The bytes as they came.
        raw: Bytes,
        /// The decoded text.
        text: Bytes,
    },
    /// In memory, under a coding that cannot be decoded: it can only be relayed.
    Opaque(Bytes),
    /// Kept by the spill, as plain text.
    Spilled(Spilled),
}

impl RequestBody {
    /// The plain text, where it is in memory.
    pub fn text(&self) -> Option<&Bytes> {
        match self {
            Self::Plain(text) | Self::Coded { text, .. } => Some(text),
            Self::Opaque(_) | Self::Spilled(_) => None,
        }
    }

    /// The body as it came, where it is in memory: what is sent where nothing is to be changed.
    pub fn as_it_came(&self) -> Option<&Bytes> {
        match self {
            Self::Plain(raw) | Self::Coded { raw, .. } | Self::Opaque(raw) => Some(raw),
            Self::Spilled(_) => None,
        }
    }

    /// Length in bytes: of the plain text, where it is known.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(text) | Self::Coded { text, .. } | Self::Opaque(text) => text.len(),
            Self::Spilled(spilled) => spilled.len(),
        }
    }

    /// Whether there is no body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the plain text to `spill`, and drops the encoded form. An opaque body stays as it is.
    pub(crate) fn spill(&mut self, spill: &Spill) {
        if let Self::Plain(text) | Self::Coded { text, .. } = self {
            *self = Self::Spilled(spill.keep(std::mem::take(text)));
        }
    }

    /// Loads a spilled body back into memory.
    ///
    /// # Errors
    /// The spill's file cannot be read.
    pub(crate) async fn reclaim(&mut self) -> io::Result<()> {
        if let Self::Spilled(spilled) = self {
            *self = Self::Plain(spilled.text().await?);
        }
        Ok(())
    }
}

/// A complete body.
#[derive(Debug)]
pub struct Collected {
    pub body: RequestBody,
    /// What is known of the text by then.
    pub scan: BodyScan,
    /// Hashes of its beginnings, for the journal.
    pub beginnings: Option<Beginnings>,
}

/// Collects `body`. `limit` applies to what arrives and to what the decoder produces. What is buffered counts against
/// `budget` until the last slice of it is dropped.
///
/// # Errors
/// [`Code::BODY_TOO_LARGE`] over the limit, without ever holding more; [`Code::BODIES_FULL`] where the budget has no room
/// in time; [`Code::BODY_TIMEOUT`] below the least rate; [`Code::BODY_BROKEN`] where the agent breaks off.
pub(super) async fn collect(
    headers: &HeaderMap,
    mut body: MinRateBody,
    limit: usize,
    budget: &Budget,
    reader: BodyReader<'_>,
) -> Result<Collected, Fault> {
    let declared = body.size_hint().lower();
    if declared > limit as u64 {
        discard(headers, body).await;
        return Err(too_large(limit));
    }
    let coding = Coding::of(headers);
    let mut reader = (coding == Coding::Identity).then_some(reader);
    let mut hold = budget.hold();
    let gathered = gather(&mut body, declared as usize, limit, &mut reader, &mut hold).await;
    let raw = match gathered {
        Ok(raw) => raw,
        Err(fault) => {
            drop(hold);
            if matches!(fault.code, Code::BODY_TOO_LARGE | Code::BODIES_FULL) {
                discard(headers, body).await;
            }
            return Err(fault);
        }
    };
    let (scan, beginnings) = match reader {
        Some(reader) => reader.done(&raw),
        None => (BodyScan::default(), None),
    };
    let coding = coding.looked_at(&raw);
    let for_text = hold.another();
    let raw = match raw {
        Gathered::Frame(frame) => frame,
        Gathered::Copied(all) => {
            if coding == Coding::Identity {
                hold.settle(all.len());
            }
            buffers::share(all, hold)
        }
    };
    let body = match coding {
        Coding::Identity => RequestBody::Plain(raw),
        Coding::Opaque => RequestBody::Opaque(raw),
        _ => match Box::pin(decode(raw.clone(), coding, limit, for_text)).await? {
            Some(text) => RequestBody::Coded { raw, text },
            None => RequestBody::Opaque(raw),
        },
    };
    Ok(Collected {
        body,
        scan,
        beginnings,
    })
}

/// All bytes of a body in one piece.
enum Gathered {
    /// As it was read: neither copied nor counted, since it is no longer than one read.
    Frame(Bytes),
    /// Copied together.
    Copied(Vec<u8>),
}

impl std::ops::Deref for Gathered {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Frame(frame) => frame,
            Self::Copied(all) => all,
        }
    }
}

/// All bytes in one piece. A body of one frame is neither copied nor prescanned: it is read as soon as it is there.
async fn gather(
    body: &mut MinRateBody,
    declared: usize,
    limit: usize,
    reader: &mut Option<BodyReader<'_>>,
    hold: &mut Hold,
) -> Result<Gathered, Fault> {
    let Some(first) = next(body).await? else {
        *reader = None;
        return Ok(Gathered::Frame(Bytes::new()));
    };
    if first.len() > limit {
        return Err(too_large(limit));
    }
    let Some(second) = next(body).await? else {
        *reader = None;
        return Ok(Gathered::Frame(first));
    };
    hold.grow_to(first.len() + second.len()).await?;
    let mut all = buffers::take(declared);
    all.reserve(declared.min(TRUSTED_LENGTH).max(first.len() + second.len()));
    all.extend_from_slice(&first);
    drop(first);
    let mut piece = Some(second);
    while let Some(bytes) = piece {
        if all.len() + bytes.len() > limit {
            return Err(too_large(limit));
        }
        hold.grow_to(all.len() + bytes.len()).await?;
        if all.capacity() - all.len() < bytes.len() {
            // Once the agent has sent as much as is reserved on trust, the rest of the declared length is reserved.
            all.reserve(declared.saturating_sub(all.len()).max(bytes.len()));
        }
        all.extend_from_slice(&bytes);
        drop(bytes);
        if let Some(reader) = reader {
            reader.read(&all);
        }
        piece = next(body).await?;
    }
    Ok(Gathered::Copied(all))
}

async fn next(body: &mut MinRateBody) -> Result<Option<Bytes>, Fault> {
    match body.next().await {
        None => Ok(None),
        Some(Ok(data)) => Ok(Some(data)),
        Some(Err(Stopped::Slow)) => Err(Code::BODY_TIMEOUT.into()),
        Some(Err(Stopped::Broken(error))) => Err(Fault::because(Code::BODY_BROKEN, error.to_string())),
    }
}

/// Drains a body for a while: to be called before a request is refused.
pub(super) async fn discard(headers: &HeaderMap, mut body: MinRateBody) {
    // A client that expects `100 Continue` has not begun to send the body, and never will.
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let rest = async {
        let mut seen = 0;
        while let Ok(Some(bytes)) = next(&mut body).await {
            seen += bytes.len() as u64;
            if seen > DISCARD_BYTES {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(DISCARD_TIME, rest).await;
}
