//! Bodies of requests to upstream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::exchange_recorder::Progress;
use super::min_rate::{MinRateBody, Stopped};

/// Body of several pieces with an exact length, sent one after the other without being joined.
///
/// Cloning shares the pieces.
#[derive(Debug, Clone, Default)]
pub struct RopeBody {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl RopeBody {
    /// Creates a body of these pieces.
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

/// Body of a request to upstream.
///
/// One pointer in size, because the client library reserves space for dozens of requests with each
/// connection.
pub(super) struct SendBody(Box<SentBody>);

struct SentBody {
    source: UploadSource,
    progress: Arc<Progress>,
}

/// Source of a request's body.
pub(super) enum UploadSource {
    Buffered(RopeBody),
    /// Relayed while the agent still sends it.
    Agent(MinRateBody),
}

impl SendBody {
    pub(super) fn new(source: UploadSource, progress: Arc<Progress>) -> Self {
        Self(Box::new(SentBody { source, progress }))
    }
}

impl Body for SendBody {
    type Data = Bytes;
    type Error = Stopped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Stopped>>> {
        let piece = match &mut self.0.source {
            UploadSource::Buffered(rope) => rope.next().map(Ok),
            UploadSource::Agent(body) => ready!(body.poll_data(cx)),
        };
        if let Some(Ok(data)) = &piece {
            self.0.progress.add(data.len());
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
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
        let mut body = SendBody::new(UploadSource::Buffered(rope), progress.clone());
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
