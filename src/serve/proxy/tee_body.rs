//! Body of a streamed response that is relayed unchanged and parsed on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::download::{PolledFrame, UpstreamBody};
use super::fault::Fault;
use baton_core::response::StreamMerge;
use baton_core::wire::LegReport;

/// Relayed body that feeds each frame to a [`StreamMerge`].
pub(crate) struct TeeBody<F> {
    body: UpstreamBody,
    merge: StreamMerge,
    /// Callback for the leg's report, taken when the leg has ended.
    over: Option<F>,
}

impl<F: FnOnce(&LegReport)> TeeBody<F> {
    pub(crate) fn new(body: UpstreamBody, merge: StreamMerge, over: F) -> Self {
        Self {
            body,
            merge,
            over: Some(over),
        }
    }

    /// Feeds a polled frame to the merge, or the end if it is `None`. The merge's output is discarded.
    fn saw(&mut self, polled: Option<&Result<Frame<Bytes>, Fault>>) {
        if self.over.is_none() || self.merge.failed {
            return;
        }
        match polled {
            None => self.merge.finish_leg(&mut Vec::new()),
            Some(Ok(frame)) => {
                let chunk = frame.data_ref().cloned().unwrap_or_default();
                self.merge.feed(chunk, &mut Vec::new());
            }
            Some(Err(_)) => {}
        }
        if (polled.is_none() || self.merge.leg_ended())
            && let Some(over) = self.over.take()
        {
            over(self.merge.report());
        }
    }
}

impl<F: FnOnce(&LegReport) + Unpin> Body for TeeBody<F> {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            self.saw(frame.as_ref());
        }
        polled
    }
}
