//! The ways a provider fails.

use std::time::Duration;

use bytes::Bytes;

/// What goes wrong with a reply. "After `events`" means: that many events (of a stream; a JSON body is
/// one) are written whole before it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An error answer in the wire's own shape.
    Status {
        /// The HTTP status, such as 429, 500 or 529.
        status: u16,
        /// The `retry-after` header, in seconds.
        retry_after: Option<u64>,
        /// The error's message.
        message: String,
    },
    /// An answer that is not the API's at all, such as the HTML page of a gateway.
    Raw {
        status: u16,
        /// The `content-type` header.
        content_type: String,
        body: Bytes,
    },
    /// The connection is closed in place of an answer.
    NoAnswer,
    /// The connection is dropped after this many bytes of the body.
    CutAfterBytes(usize),
    /// The connection is dropped after this many events.
    CutAfterEvents(usize),
    /// The body ends properly, but after this many events already.
    EndAfterEvents(usize),
    /// Nothing is sent for a while, then the reply continues.
    Stall {
        /// Events before it.
        events: usize,
        /// How long; `None`: without end.
        time: Option<Duration>,
    },
    /// The wire's in-stream error event, which ends the stream.
    ErrorEvent {
        /// Events before it.
        events: usize,
        /// The error's type: `overloaded_error` (Anthropic), `server_error` (OpenAI), `UNAVAILABLE` (Gemini). On
        /// Responses it is the code of a `response.failed`, or the word `error` for the bare event of that name.
        kind: String,
        /// The error's message.
        message: String,
    },
    /// Bytes that are no event, after which the reply continues.
    Garbage {
        /// Events before it.
        events: usize,
        /// What is written.
        bytes: Bytes,
    },
    /// A harmless event of an unreasonable size, after which the reply continues.
    Oversize {
        /// Events before it.
        events: usize,
        /// Its padding, in bytes.
        size: usize,
    },
    /// The script has no reply left.
    OutOfScript,
}

impl Fault {
    /// A gateway's HTML error page.
    pub fn html(status: u16) -> Self {
        Fault::Raw {
            status,
            content_type: "text/html; charset=utf-8".to_owned(),
            body: Bytes::from_static(
                b"<html><head><title>Bad gateway</title></head><body>cf-ray</body></html>",
            ),
        }
    }
}
