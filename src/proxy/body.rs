//! An agent's request body, collected and decoded within a limit.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::poll_immediate;
use futures_util::stream;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::io::AsyncReadExt;
use tokio_util::io::StreamReader;

use super::buffers;
use super::coding::Coding;
use super::fault::{Code, Fault};
use super::upload::RopeBody;
use crate::skim::{Skim, Skimmer};

/// A refused body is read on for a while and thrown away, since an agent that is still writing would see a
/// reset connection instead of the answer. Not more than this …
const DISCARD_BYTES: u64 = 256 << 20;
/// … nor for longer.
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// An agent that sends nothing of its body for so long has vanished; without a bound it would hold its place
/// among the exchanges for good. (Tests have no patience.)
const AGENT_IDLE: Duration = Duration::from_millis(if cfg!(test) { 400 } else { 120_000 });

/// What a declared length may reserve before the bytes are there; more is reserved as they come.
const TRUSTED_LENGTH: usize = 1 << 20;

/// The step in which decoded text is read; between steps other tasks get their turn.
const DECODE_STEP: usize = 256 * 1024;

/// A body that is all there.
#[derive(Debug)]
pub struct Collected {
    /// What the agent sent, coded as it was. Goes out where nothing is to be changed.
    pub raw: Bytes,
    /// The same as plain text: identical with `raw` where there was no coding, and `None` where the coding
    /// could not be undone, so that only `raw` can be sent.
    pub text: Option<Bytes>,
    /// What was seen of the text on the way.
    pub skim: Skim,
}

impl Collected {
    /// The untouched body.
    pub fn untouched(&self) -> RopeBody {
        RopeBody::from(self.raw.clone())
    }
}

/// Collects `body`. `limit` holds for what arrives and for what comes out of the decoder; over it the fault is
/// [`Code::BODY_TOO_LARGE`], without more than that ever being held.
pub async fn collect(headers: &HeaderMap, mut body: Incoming, limit: usize) -> Result<Collected, Fault> {
    let declared = body.size_hint().lower();
    if declared > limit as u64 {
        discard(headers, body).await;
        return Err(too_large(limit));
    }
    let coding = Coding::of(headers);
    let mut skimmer = (coding == Coding::Identity).then(Skimmer::default);
    let Some(raw) = gather(&mut body, declared as usize, limit, &mut skimmer).await? else {
        discard(headers, body).await;
        return Err(too_large(limit));
    };
    let skim = skimmer.map(|s| s.done(&raw)).unwrap_or_default();
    let coding = coding.looked_at(&raw);
    let text = match coding {
        Coding::Identity => Some(raw.clone()),
        Coding::Opaque => None,
        _ => decode(raw.clone(), coding, limit).await?,
    };
    Ok(Collected { raw, text, skim })
}

fn too_large(limit: usize) -> Fault {
    Fault::because(Code::BODY_TOO_LARGE, format!("the limit is {limit} bytes"))
}

/// All bytes in one piece, `None` when there are more than `limit`. A body of one frame is neither copied nor
/// skimmed: it is read as soon as it is there.
async fn gather(
    body: &mut Incoming,
    declared: usize,
    limit: usize,
    skimmer: &mut Option<Skimmer>,
) -> Result<Option<Bytes>, Fault> {
    let Some(first) = next(body).await? else {
        *skimmer = None;
        return Ok(Some(Bytes::new()));
    };
    if first.len() > limit {
        return Ok(None);
    }
    let Some(second) = next(body).await? else {
        *skimmer = None;
        return Ok(Some(first));
    };
    let mut all = buffers::take(declared);
    all.reserve(declared.min(TRUSTED_LENGTH).max(first.len() + second.len()));
    all.extend_from_slice(&first);
    drop(first);
    let mut piece = Some(second);
    while let Some(bytes) = piece {
        if all.len() + bytes.len() > limit {
            return Ok(None);
        }
        if all.capacity() - all.len() < bytes.len() {
            // Once the agent has sent as much as was taken on trust, the rest of what it declared.
            all.reserve(declared.saturating_sub(all.len()).max(bytes.len()));
        }
        all.extend_from_slice(&bytes);
        drop(bytes);
        if let Some(skimmer) = skimmer {
            skimmer.read(&all);
        }
        piece = next(body).await?;
    }
    Ok(Some(buffers::share(all)))
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Fault> {
    loop {
        let mut frame = body.frame();
        // What is there already costs no look at the clock.
        let frame = match poll_immediate(&mut frame).await {
            Some(frame) => frame,
            None => match tokio::time::timeout(AGENT_IDLE, frame).await {
                Ok(frame) => frame,
                Err(_) => return Err(Code::BODY_TIMEOUT.into()),
            },
        };
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(Fault::because(Code::BODY_BROKEN, error.to_string())),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => return Ok(Some(data)),
                Err(_trailers) => continue,
            },
        }
    }
}

/// `None`: not what its coding says. Then the provider may tell the agent so.
async fn decode(raw: Bytes, coding: Coding, limit: usize) -> Result<Option<Bytes>, Fault> {
    let source = StreamReader::new(stream::iter([io::Result::Ok(raw)]));
    // One byte more than allowed tells a body at the limit from one over it.
    let mut plain = coding.decoder(source).take(limit as u64 + 1);
    let mut text = Vec::new();
    loop {
        let room = (limit + 1 - text.len()).min(DECODE_STEP.max(text.len()));
        if text.capacity() - text.len() < room.min(DECODE_STEP) {
            text.reserve_exact(room);
        }
        match plain.read_buf(&mut text).await {
            Ok(0) => break,
            Ok(_) if text.len() > limit => return Err(too_large(limit)),
            Ok(_) => tokio::task::consume_budget().await,
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(text.into()))
}

/// Reads on for a while and throws away what comes: to be called before a request is refused.
pub async fn discard(headers: &HeaderMap, mut body: Incoming) {
    // Who asks before sending has not begun, and never will.
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
