//! A response body, written with the chunk sizes, delays and faults of a reply.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::aborted::InFlight;
use super::dialect::{Received, RenderedBody};
use super::faults::Fault;
use super::reply::{Chunks, Delivery};

/// Time for the bytes before a cut to leave the socket. Closing at once could discard them.
const FLUSH_TIME: Duration = Duration::from_millis(15);

/// A step in writing a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteStep {
    /// Write these bytes at once.
    Write(Bytes),
    Wait(Duration),
    /// Write nothing more, and keep the connection open.
    Stall,
    /// Drop the connection.
    Cut,
}

/// Plans the writing of `rendered`.
pub(crate) fn plan(
    rendered: RenderedBody,
    delivery: &Delivery,
    fault: Option<&Fault>,
    request: &Received,
) -> VecDeque<WriteStep> {
    let steps = break_events(
        rendered.events.into_iter().map(WriteStep::Write).collect(),
        fault,
        request,
    );
    let steps = regroup(steps, delivery.chunks);
    let steps = match fault {
        Some(Fault::CutAfterBytes(bytes)) => cut_bytes(steps, *bytes),
        _ => steps,
    };
    slow_down(steps, delivery.delay)
}

/// Applies a fault whose position is a number of events.
fn break_events(mut steps: Vec<WriteStep>, fault: Option<&Fault>, request: &Received) -> Vec<WriteStep> {
    let dialect = request.dialect;
    let at = |events: usize| events.min(steps.len());
    match fault {
        Some(Fault::CutAfterEvents(events)) => {
            steps.truncate(*events);
            steps.push(WriteStep::Cut);
        }
        Some(Fault::EndAfterEvents(events)) => steps.truncate(*events),
        Some(Fault::Stall { events, time }) => {
            steps.insert(at(*events), time.map_or(WriteStep::Stall, WriteStep::Wait));
        }
        Some(Fault::ErrorEvent {
            events,
            kind,
            message,
        }) => {
            steps.truncate(*events);
            let event = dialect.error_event(request, steps.len(), kind, message);
            steps.push(WriteStep::Write(event));
        }
        Some(Fault::Oversize { events, size }) => {
            let at = at(*events);
            steps.insert(at, WriteStep::Write(dialect.padding_event(request, at, *size)));
        }
        _ => {}
    }
    steps
}

/// Regroups consecutive writes.
fn regroup(steps: Vec<WriteStep>, chunks: Chunks) -> Vec<WriteStep> {
    let size = match chunks {
        Chunks::Events => return steps,
        Chunks::Bytes(size) => size.max(1),
        Chunks::Whole => usize::MAX,
    };
    let mut out = Vec::new();
    let mut run = BytesMut::new();
    for step in steps {
        match step {
            WriteStep::Write(bytes) => run.extend_from_slice(&bytes),
            other => {
                split(&mut run, size, &mut out);
                out.push(other);
            }
        }
    }
    split(&mut run, size, &mut out);
    out
}

fn split(run: &mut BytesMut, size: usize, out: &mut Vec<WriteStep>) {
    while !run.is_empty() {
        let end = size.min(run.len());
        out.push(WriteStep::Write(run.split_to(end).freeze()));
    }
}

fn cut_bytes(steps: Vec<WriteStep>, bytes: usize) -> Vec<WriteStep> {
    let mut left = bytes;
    let mut out = Vec::new();
    for step in steps {
        match step {
            WriteStep::Write(piece) if piece.len() > left => {
                out.push(WriteStep::Write(piece.slice(..left)));
                break;
            }
            WriteStep::Write(piece) => {
                left -= piece.len();
                out.push(WriteStep::Write(piece));
            }
            other => out.push(other),
        }
    }
    out.push(WriteStep::Cut);
    out
}

fn slow_down(steps: Vec<WriteStep>, delay: Duration) -> VecDeque<WriteStep> {
    let mut out = VecDeque::new();
    for step in steps {
        let writes = matches!(step, WriteStep::Write(_));
        if writes && !delay.is_zero() && matches!(out.back(), Some(WriteStep::Write(_))) {
            out.push_back(WriteStep::Wait(delay));
        }
        out.push_back(step);
    }
    out
}

/// A body that executes a plan and counts how it ended.
pub(crate) struct ReplyBody {
    steps: VecDeque<WriteStep>,
    /// Number of bytes left, if the response has a content-length.
    announced: Option<u64>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Set after a write. Returning once to the event loop lets hyper flush it, so that writes stay separate.
    flush: bool,
    in_flight: InFlight,
}

impl ReplyBody {
    pub(crate) fn new(steps: VecDeque<WriteStep>, announced: Option<u64>, in_flight: InFlight) -> Self {
        ReplyBody {
            steps,
            announced,
            timer: None,
            flush: false,
            in_flight,
        }
    }

    /// A whole body, written at once.
    pub(crate) fn whole(bytes: Bytes, in_flight: InFlight) -> Self {
        let announced = Some(bytes.len() as u64);
        let steps = if bytes.is_empty() {
            VecDeque::new()
        } else {
            VecDeque::from([WriteStep::Write(bytes)])
        };
        let mut body = ReplyBody::new(steps, announced, in_flight);
        body.in_flight.finish();
        body
    }

    /// Returns all written pieces, and whether the body breaks off after them.
    pub(crate) fn into_pieces(mut self) -> (Vec<Bytes>, bool) {
        self.in_flight.finish();
        let mut pieces = Vec::new();
        for step in self.steps {
            match step {
                WriteStep::Write(bytes) => pieces.push(bytes),
                WriteStep::Cut => return (pieces, true),
                WriteStep::Wait(_) | WriteStep::Stall => {}
            }
        }
        (pieces, false)
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.steps.pop_front() {
            Some(WriteStep::Write(bytes)) => {
                self.flush = true;
                if let Some(left) = &mut self.announced {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                if self.steps.is_empty() {
                    self.in_flight.finish();
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(WriteStep::Wait(time)) => {
                self.timer = Some(Box::pin(sleep(time)));
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(WriteStep::Stall) => {
                // Nothing will wake this body; it ends when the client leaves.
                self.steps.push_front(WriteStep::Stall);
                Poll::Pending
            }
            Some(WriteStep::Cut) => {
                self.in_flight.finish();
                Poll::Ready(Some(Err(io::Error::new(
                    io::ErrorKind::ConnectionAborted,
                    "cut by the script",
                ))))
            }
            None => {
                self.in_flight.finish();
                Poll::Ready(None)
            }
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.flush) {
            if this.steps.front() == Some(&WriteStep::Cut) {
                this.timer = Some(Box::pin(sleep(FLUSH_TIME)));
            } else {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        if let Some(timer) = &mut this.timer {
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            this.timer = None;
        }
        this.step(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.announced
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::super::api::Wire;
    use super::*;

    fn request() -> Received {
        Received::for_test(Wire::Anthropic, "/v1/messages", serde_json::Value::Null)
    }

    fn planned(chunks: Chunks, fault: Option<Fault>) -> Vec<WriteStep> {
        let rendered = RenderedBody::stream(vec!["abc".into(), "defg".into(), "h".into()]);
        let delivery = Delivery {
            chunks,
            ..Delivery::default()
        };
        plan(rendered, &delivery, fault.as_ref(), &request()).into()
    }

    fn write(text: &'static str) -> WriteStep {
        WriteStep::Write(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn writes_are_grouped_as_requested() {
        assert_eq!(
            planned(Chunks::Events, None),
            [write("abc"), write("defg"), write("h")]
        );
        assert_eq!(
            planned(Chunks::Bytes(3), None),
            [write("abc"), write("def"), write("gh")]
        );
        assert_eq!(planned(Chunks::Whole, None), [write("abcdefgh")]);
    }

    #[test]
    fn cuts_fall_where_requested() {
        let bytes = planned(Chunks::Whole, Some(Fault::CutAfterBytes(5)));
        assert_eq!(bytes, [write("abcde"), WriteStep::Cut]);
        let events = planned(Chunks::Bytes(4), Some(Fault::CutAfterEvents(2)));
        assert_eq!(events, [write("abcd"), write("efg"), WriteStep::Cut]);
        let ended = planned(Chunks::Events, Some(Fault::EndAfterEvents(1)));
        assert_eq!(ended, [write("abc")]);
        let stalled = planned(
            Chunks::Whole,
            Some(Fault::Stall {
                events: 2,
                time: None,
            }),
        );
        assert_eq!(stalled, [write("abcdefg"), WriteStep::Stall, write("h")]);
    }
}
