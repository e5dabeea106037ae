//! Collects and decodes an agent's request body within a size limit.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};

use super::budget::{Budget, Hold};
use super::buffers;
use super::coding::Coding;
use super::decode::decode;
use super::fault::{Code, Fault, too_large};
use super::min_rate::{MinRateBody, Stopped};
use super::spill::{Spill, Spilled};

/// Maximum bytes that are drained from a refused body.
///
/// Without draining, an agent that is still writing would see a reset connection instead of the response.
const DISCARD_BYTES: u64 = 256 << 20;
/// Maximum time for draining a refused body.
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// The body of an agent's request, in one of its states.
#[derive(Debug, Clone)]
pub enum RequestBody {
    /// Plain text in memory, as it arrived.
    Plain(Bytes),
    /// Encoded body in memory, with its decoded text.
    Coded {
        /// Bytes as they arrived.
        raw: Bytes,
        /// The decoded text.
        text: Bytes,
    },
    /// Encoded body in memory that cannot be decoded. It can only be relayed.
    Opaque(Bytes),
    /// Plain text held by the spill, in memory or in a file.
    Spilled(Spilled),
}

impl RequestBody {
    /// Plain text, if the body is readable and in memory.
    pub fn text(&self) -> Option<&Bytes> {
        match self {
            Self::Plain(text) | Self::Coded { text, .. } => Some(text),
            Self::Opaque(_) | Self::Spilled(_) => None,
        }
    }

    /// Bytes as they arrived, if they are in memory. They are sent upstream if nothing has to change.
    pub fn raw(&self) -> Option<&Bytes> {
        match self {
            Self::Plain(raw) | Self::Coded { raw, .. } | Self::Opaque(raw) => Some(raw),
            Self::Spilled(_) => None,
        }
    }

    /// Length in bytes: of the plain text, or of the encoded body if it cannot be decoded.
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(text) | Self::Coded { text, .. } | Self::Opaque(text) => text.len(),
            Self::Spilled(spilled) => spilled.len(),
        }
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves the plain text into `spill` and drops the encoded form. An opaque body stays as it is.
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

/// Collects and decodes `body`.
///
/// `limit` applies both to the bytes that arrive and to the decoded text. Buffered bytes count against
/// `budget` until their last slice is dropped.
///
/// # Errors
/// * [`Code::BODY_TOO_LARGE`] over the limit. More than the limit is never held.
/// * [`Code::BODIES_FULL`] if the budget has no room in time.
/// * [`Code::BODY_TIMEOUT`] below the minimum rate.
/// * [`Code::BODY_BROKEN`] if the agent aborts.
pub(super) async fn collect(
    headers: &HeaderMap,
    mut body: MinRateBody,
    limit: usize,
    budget: &Budget,
) -> Result<RequestBody, Fault> {
    let declared = body.size_hint().lower();
    // A declared length over the limit is refused before anything is buffered.
    if declared > limit as u64 {
        discard(headers, body).await;
        return Err(too_large(limit));
    }
    let coding = Coding::from_headers(headers);
    let mut all = Gathering::new(declared as usize, budget.hold());
    if let Err(fault) = gather(&mut body, limit, &mut all).await {
        // Frees the memory of the partial body before the rest is drained.
        drop(all);
        if matches!(fault.code, Code::BODY_TOO_LARGE | Code::BODIES_FULL) {
            discard(headers, body).await;
        }
        return Err(fault);
    }
    let coding = coding.looked_at(all.bytes());
    // Shares the part set aside, so that decoding cannot wait for another half-read body.
    let for_text = all.hold.another();
    let raw = all.done(coding == Coding::Identity);
    Ok(match coding {
        Coding::Identity => RequestBody::Plain(raw),
        Coding::Opaque => RequestBody::Opaque(raw),
        // Boxed: most bodies are not encoded.
        _ => match Box::pin(decode(raw.clone(), coding, limit, for_text)).await? {
            Some(text) => RequestBody::Coded { raw, text },
            // Not in its declared coding: relayed unchanged, so that upstream reports the error.
            None => RequestBody::Opaque(raw),
        },
    })
}

async fn gather(body: &mut MinRateBody, limit: usize, all: &mut Gathering) -> Result<(), Fault> {
    while let Some(piece) = next(body).await? {
        all.push(piece, limit, too_large).await?;
    }
    Ok(())
}

async fn next(body: &mut MinRateBody) -> Result<Option<Bytes>, Fault> {
    match body.next().await {
        None => Ok(None),
        Some(Ok(data)) => Ok(Some(data)),
        Some(Err(Stopped::Slow)) => Err(Code::BODY_TIMEOUT.into()),
        Some(Err(Stopped::Broken(error))) => Err(Fault::because(Code::BODY_BROKEN, error.to_string())),
    }
}

/// Drains a body for a limited time. Call it before refusing a request.
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

/// Maximum bytes reserved because of a declared length. Beyond it, memory is reserved as bytes arrive.
const TRUSTED_LENGTH: usize = 1 << 20;

/// A body that arrives in pieces.
///
/// A body of one piece is neither copied nor counted, since it is no longer than one read.
pub(super) struct Gathering {
    /// The only piece so far.
    first: Option<Bytes>,
    /// All pieces, once there are several.
    all: Vec<u8>,
    declared: usize,
    pub(super) hold: Hold,
}

impl Gathering {
    /// Creates an empty buffer for a body. `declared` is 0 if its length is unknown.
    pub(super) fn new(declared: usize, hold: Hold) -> Self {
        Self {
            first: None,
            all: Vec::new(),
            declared,
            hold,
        }
    }

    /// Appends a piece, waiting for room in the budget if necessary.
    ///
    /// # Errors
    /// `too_long` if the body exceeds `limit`, or [`Code::BODIES_FULL`] if no room becomes free in time.
    ///
    /// [`Code::BODIES_FULL`]: super::fault::Code::BODIES_FULL
    pub(super) async fn push(
        &mut self,
        piece: Bytes,
        limit: usize,
        too_long: impl FnOnce(usize) -> Fault,
    ) -> Result<(), Fault> {
        let len = self.len() + piece.len();
        if len > limit {
            return Err(too_long(limit));
        }
        if len == piece.len() {
            // The buffer was empty, so the piece is kept as it is.
            self.first = Some(piece);
            return Ok(());
        }
        self.hold.grow_to(len).await?;
        if let Some(first) = self.first.take() {
            self.all = buffers::take(self.declared);
            // A declared length costs the sender nothing, so it is trusted only up to a bound.
            self.all.reserve(self.declared.min(TRUSTED_LENGTH).max(len));
            self.all.extend_from_slice(&first);
        } else if self.all.capacity() < len {
            // As many bytes have arrived as were reserved on trust, so the rest of the declared length is reserved.
            let left = self.declared.saturating_sub(self.all.len());
            self.all.reserve(left.max(piece.len()));
        }
        self.all.extend_from_slice(&piece);
        Ok(())
    }

    /// The bytes that have arrived.
    pub(super) fn bytes(&self) -> &[u8] {
        self.first.as_deref().unwrap_or(&self.all)
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Returns the collected bytes. Their memory counts until the last slice is dropped.
    ///
    /// If `is_final`, the part of the reservation that they do not need is released now.
    pub(super) fn done(mut self, is_final: bool) -> Bytes {
        match self.first {
            Some(only) => only,
            None if self.all.is_empty() => Bytes::new(),
            None => {
                if is_final {
                    self.hold.settle(self.all.len());
                }
                buffers::share(self.all, self.hold)
            }
        }
    }
}
