//! Compressed bodies of several members (gzip, RFC 1952 section 2.2) or frames (zstd). Each one restarts the decoder, which
//! adds up to seconds for a hundred thousand empty ones.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Members that may be empty.
const FREE: u64 = 64;

/// Minimum average text of each further member: coders that begin a new member do so after more.
const LEAST_TEXT: u64 = 4 << 10;

/// More members than the text has any need of.
#[derive(Debug)]
pub(super) struct TooManyMembers;

impl std::fmt::Display for TooManyMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "it is compressed in many pieces of less than {LEAST_TEXT} bytes"
        )
    }
}

impl std::error::Error for TooManyMembers {}

impl TooManyMembers {
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Decodes one member after the other.
pub(super) struct Members<R, D> {
    now: Now<R, D>,
    /// Begins a member.
    begin: fn(R) -> D,
    /// The rest.
    end: fn(D) -> R,
    text: u64,
    members: u64,
}

enum Now<R, D> {
    Inside(D),
    Between(R),
    Over,
}

impl<R, D> Members<R, D> {
    pub(super) fn new(coded: R, begin: fn(R) -> D, end: fn(D) -> R) -> Self {
        Self {
            now: Now::Inside(begin(coded)),
            begin,
            end,
            text: 0,
            members: 1,
        }
    }
}

impl<R: AsyncBufRead + Unpin, D: AsyncRead + Unpin> AsyncRead for Members<R, D> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            match &mut this.now {
                Now::Inside(member) => {
                    let before = buf.filled().len();
                    std::task::ready!(Pin::new(member).poll_read(cx, buf))?;
                    let came = buf.filled().len() - before;
                    if came > 0 {
                        this.text += came as u64;
                        return Poll::Ready(Ok(()));
                    }
                    if let Now::Inside(member) = std::mem::replace(&mut this.now, Now::Over) {
                        this.now = Now::Between((this.end)(member));
                    }
                }
                Now::Between(rest) => {
                    let over = std::task::ready!(Pin::new(&mut *rest).poll_fill_buf(cx))?.is_empty();
                    let Now::Between(rest) = std::mem::replace(&mut this.now, Now::Over) else {
                        continue;
                    };
                    if over {
                        continue;
                    }
                    this.members += 1;
                    if this.members > FREE + this.text / LEAST_TEXT {
                        return Poll::Ready(Err(io::Error::other(TooManyMembers)));
                    }
                    this.now = Now::Inside((this.begin)(rest));
                }
                Now::Over => return Poll::Ready(Ok(())),
            }
        }
    }
}
