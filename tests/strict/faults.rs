//! Failures of a provider.

use std::time::Duration;

use bytes::Bytes;

/// Fault of a reply. "After `events`" means that this many events are written completely before it. A JSON
/// body is one event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// An error response in the wire's own shape.
    Status {
        /// HTTP status, such as 429, 500 or 529.
        status: u16,
        /// Value of the `retry-after` header, in seconds.
        retry_after: Option<u64>,
        /// Message of the error.
        message: String,
    },
    /// A response that does not come from the API, such as the HTML page of a gateway.
    Raw {
        status: u16,
        /// Value of the `content-type` header.
        content_type: String,
        body: Bytes,
    },
    /// The connection is closed without a response.
    NoAnswer,
    /// The connection is dropped after this many bytes of the body.
    CutAfterBytes(usize),
    /// The connection is dropped after this many events.
    CutAfterEvents(usize),
    /// The body ends properly, but already after this many events.
    EndAfterEvents(usize),
    /// A pause, after which the reply continues.
    Stall {
        /// Number of events before it.
        events: usize,
        /// Duration of the pause, or `None` for an endless one.
        time: Option<Duration>,
    },
    /// The wire's in-stream error event, which ends the stream.
    ErrorEvent {
        /// Number of events before it.
        events: usize,
        /// Type of the error: `overloaded_error` (Anthropic), `server_error` (OpenAI), `UNAVAILABLE`
        /// (Gemini).
        ///
        /// On Responses it is the code of a `response.failed`, or the word `error` for the bare event of that
        /// name.
        kind: String,
        /// Message of the error.
        message: String,
    },
    /// A harmless but oversized event, after which the reply continues.
    Oversize {
        /// Number of events before it.
        events: usize,
        /// Padding in bytes.
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
