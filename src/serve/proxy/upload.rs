//! Request bodies as they are sent upstream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::exchange_recorder::Progress;
use super::min_rate::{MinRateBody, Stopped};

/// A body of several pieces, sent one after the other without being joined, with an exact length. Cloning
/// shares the pieces.
#[derive(Debug, Clone, Default)]
pub struct RopeBody {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl RopeBody {
    /// A body of these pieces.
    pub fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: VecDeque<_> = pieces.into_iter().filter(|p| !p.is_empty()).collect();
        let left = pieces.iter().map(|p| p.len() as u64).sum();
        Self { pieces, left }
    }

    /// Bytes not yet sent.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn next(&mut self) -> Option<Bytes> {
        let piece = self.pieces.pop_front()?;
        self.left -= piece.len() as u64;
        Some(piece)
    }
}

impl From<Bytes> for RopeBody {
    fn from(bytes: Bytes) -> Self {
        Self::new([bytes])
    }
}

/// The agent did not send its body to the end while it was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentGone {
    /// It broke off.
    Broke,
    /// It was too slow.
    Slow,
}

impl std::fmt::Display for AgentGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Broke => "the agent broke off its request",
            Self::Slow => "the agent was too slow with its request",
        })
    }
}

impl std::error::Error for AgentGone {}

/// A request body: a buffered one, or one that the agent is still sending. It is one pointer large, since the client
/// library keeps room for dozens of requests with each connection.
pub struct SendBody(Box<SentBody>);

struct SentBody {
    source: UploadSource,
    progress: Arc<Progress>,
}

enum UploadSource {
    Buffered(RopeBody),
    Agent(MinRateBody),
}

impl SendBody {
    pub(super) fn buffered(rope: RopeBody, progress: Arc<Progress>) -> Self {
        Self(Box::new(SentBody {
            source: UploadSource::Buffered(rope),
            progress,
        }))
    }

    pub(super) fn agent(body: MinRateBody, progress: Arc<Progress>) -> Self {
        Self(Box::new(SentBody {
            source: UploadSource::Agent(body),
            progress,
        }))
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, AgentGone>>> {
        let agent = match &mut self.0.source {
            UploadSource::Buffered(rope) => return Poll::Ready(rope.next().map(Ok)),
            UploadSource::Agent(body) => body,
        };
        agent.poll_data(cx).map(|piece| {
            piece.map(|read| {
                read.map_err(|stopped| match stopped {
                    Stopped::Slow => AgentGone::Slow,
                    Stopped::Broken(_) => AgentGone::Broke,
                })
            })
        })
    }
}

impl Body for SendBody {
    type Data = Bytes;
    type Error = AgentGone;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AgentGone>>> {
        let polled = std::task::ready!(self.poll_data(cx));
        if let Some(Ok(data)) = &polled {
            self.0.progress.add(data.len());
        }
        Poll::Ready(polled.map(|p| p.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0.source {
            UploadSource::Buffered(rope) => rope.left == 0,
            UploadSource::Agent(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0.source {
            UploadSource::Buffered(rope) => SizeHint::with_exact(rope.left),
            UploadSource::Agent(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn pieces_go_out_as_they_are() {
        let piece = Bytes::from(vec![7u8; 100]);
        let rope = RopeBody::new([piece.slice(..40), Bytes::new(), piece.slice(40..)]);
        let progress = Progress::start();
        let mut body = SendBody::buffered(rope, progress.clone());
        assert_eq!(body.size_hint().exact(), Some(100));
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.as_ptr(), piece.as_ptr(), "not copied");
        assert_eq!(body.size_hint().exact(), Some(60));
        assert!(!body.is_end_stream());
        body.frame().await.unwrap().unwrap();
        assert!(body.is_end_stream());
        assert_eq!(progress.bytes(), 100);
    }
}
