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
use super::min_rate::{MinRateBody, Stopped};
use super::spill::{Spill, Spilled};

/// Maximum bytes that are drained of a refused body: an agent that is still writing would see a reset connection instead
/// of the response.
const DISCARD_BYTES: u64 = 256 << 20;
/// Maximum time for draining a refused body.
const DISCARD_TIME: Duration = Duration::from_secs(10);

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
    pub fn raw(&self) -> Option<&Bytes> {
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
) -> Result<RequestBody, Fault> {
    let declared = body.size_hint().lower();
    if declared > limit as u64 {
        discard(headers, body).await;
        return Err(too_large(limit));
    }
    let coding = Coding::from_headers(headers);
    let mut all = Gathering::new(declared as usize, budget.hold());
    if let Err(fault) = gather(&mut body, limit, &mut all).await {
        drop(all);
        if matches!(fault.code, Code::BODY_TOO_LARGE | Code::BODIES_FULL) {
            discard(headers, body).await;
        }
        return Err(fault);
    }
    let coding = coding.looked_at(all.bytes());
    let for_text = all.hold.another();
    let raw = all.done(coding == Coding::Identity);
    Ok(match coding {
        Coding::Identity => RequestBody::Plain(raw),
        Coding::Opaque => RequestBody::Opaque(raw),
        _ => match Box::pin(decode(raw.clone(), coding, limit, for_text)).await? {
            Some(text) => RequestBody::Coded { raw, text },
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

/// Bytes that are reserved on the strength of a declared length alone; more is reserved as they arrive.
const TRUSTED_LENGTH: usize = 1 << 20;

/// A body of which pieces arrive. One of a single piece is neither copied nor counted, since it is no longer than one read.
pub(super) struct Gathering {
    /// The only piece so far.
    first: Option<Bytes>,
    /// All pieces, once there are several.
    all: Vec<u8>,
    declared: usize,
    pub(super) hold: Hold,
}

impl Gathering {
    /// Nothing yet of a body that is `declared` bytes long, if that is known.
    pub(super) fn new(declared: usize, hold: Hold) -> Self {
        Self {
            first: None,
            all: Vec::new(),
            declared,
            hold,
        }
    }

    /// Adds a piece, and waits for room where it must.
    ///
    /// # Errors
    /// `too_long`, where there is more than `limit`; [`Code::BODIES_FULL`] where no room comes in time.
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
            self.first = Some(piece);
            return Ok(());
        }
        self.hold.grow_to(len).await?;
        if let Some(first) = self.first.take() {
            self.all = buffers::take(self.declared);
            self.all.reserve(self.declared.min(TRUSTED_LENGTH).max(len));
            self.all.extend_from_slice(&first);
        } else if self.all.capacity() < len {
            // Once as much has come as is reserved on trust, the rest of the declared length is reserved.
            let left = self.declared.saturating_sub(self.all.len());
            self.all.reserve(left.max(piece.len()));
        }
        self.all.extend_from_slice(&piece);
        Ok(())
    }

    /// All of it.
    pub(super) fn bytes(&self) -> &[u8] {
        self.first.as_deref().unwrap_or(&self.all)
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// All of it. Its memory counts until the last slice is gone; `is_final`: what it does not take is given back now.
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
