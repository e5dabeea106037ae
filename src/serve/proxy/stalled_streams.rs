//! Resets HTTP/2 streams whose agent reads nothing of its response. A window of zero stops one stream while its connection
//! keeps answering pings, and the stream holds an exchange permit.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep_until};

/// Result of the server's last poll of an answer's body.
#[derive(Clone, Copy)]
enum LastPoll {
    /// The body was not polled.
    Nothing,
    /// It returned a frame: until the next poll that frame waits for the agent.
    Frame,
    /// The next frame is upstream's to send.
    Wait,
}

thread_local! {
    /// Of the stream that this thread polls.
    static LAST_POLL: Cell<LastPoll> = const { Cell::new(LastPoll::Nothing) };
}

/// The body of the answer under way was polled for a frame, and had one or not.
pub(super) fn polled(has_frame: bool) {
    LAST_POLL.set(if has_frame {
        LastPoll::Frame
    } else {
        LastPoll::Wait
    });
}

/// Runs each HTTP/2 stream as a task, and resets those of whose answer nothing is taken for this long.
#[derive(Clone, Copy)]
pub(super) struct OpenStreams(pub(super) Duration);

impl<F> Executor<F> for OpenStreams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(while_taken(stream, self.0));
    }
}

/// Ends with the stream, or without it: what is dropped before its end is reset.
async fn while_taken(stream: impl Future<Output = ()>, patience: Duration) {
    let mut stream = pin!(stream);
    let mut since = None;
    let mut due: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        LAST_POLL.set(LastPoll::Nothing);
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match LAST_POLL.get() {
            LastPoll::Nothing => {}
            LastPoll::Frame => since = Some(Instant::now()),
            LastPoll::Wait => since = None,
        }
        let Some(end) = since.map(|since| since + patience) else {
            due = None;
            return Poll::Pending;
        };
        let due = due.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            ready!(due.as_mut().poll(cx));
            if due.deadline() >= end {
                tracing::debug!("the agent reads nothing of its answer: the stream is reset");
                return Poll::Ready(());
            }
            due.as_mut().reset(end);
        }
    })
    .await;
}
