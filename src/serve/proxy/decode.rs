//! Stepwise decoding of compressed request bodies.
//!
//! Longer work runs on separate threads. On the runtime's threads it would block every stream.

use std::io;
use std::pin::Pin;
use std::sync::LazyLock;

use bytes::{BufMut, Bytes};
use futures_util::{FutureExt, stream};
use tokio::io::{AsyncRead, AsyncReadExt, Take};
use tokio::sync::Semaphore;
use tokio_util::io::StreamReader;

use super::budget::Hold;
use super::buffers;
use super::coding::{Coding, TooManyMembers};
use super::fault::{Code, Fault, too_large};

/// Bytes decoded per step: some milliseconds of work. Room for them is reserved beforehand.
const STEP: usize = 1 << 20;

/// Maximum encoded bytes that are decoded on the current thread.
///
/// That takes some tenths of a millisecond at most, less than moving to another thread.
const SMALL: usize = 16 << 10;
/// Maximum decoded bytes that are decoded on the current thread.
const SMALL_TEXT: usize = 64 << 10;

/// Permits for concurrent steps. More threads than processors would only hold more memory.
static STEPS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// A decoding in progress.
struct Decoding {
    plain: Take<Pin<Box<dyn AsyncRead + Send>>>,
    text: Vec<u8>,
    limit: usize,
    hold: Hold,
}

/// Result of a step.
enum Step {
    More,
    Done,
    /// The bytes are not in their declared coding.
    Broken,
}

/// Decodes `raw`, and reserves the memory of the text in `hold`.
///
/// Returns `None` if the bytes are not in their declared coding. The provider may then report that to the agent.
pub(super) async fn decode(
    raw: Bytes,
    coding: Coding,
    limit: usize,
    mut hold: Hold,
) -> Result<Option<Bytes>, Fault> {
    let small = raw.len() <= SMALL;
    let source = StreamReader::new(stream::iter([io::Result::Ok(raw)]));
    let workspace = coding.workspace();
    hold.grow_to(workspace + SMALL_TEXT).await?;
    let mut decoding = Decoding {
        // One byte more than allowed distinguishes a body at the limit from one over it.
        plain: coding.decoder(source).take(limit as u64 + 1),
        text: Vec::new(),
        limit,
        hold,
    };
    let mut step = match small {
        true => decoding.step(SMALL_TEXT)?,
        false => Step::More,
    };
    while let Step::More = step {
        // Reserved here, because a step must not wait for room on its thread.
        let more = decoding.text.len() + STEP;
        decoding.hold.grow_to(workspace + more.min(limit + 1)).await?;
        (decoding, step) = elsewhere(decoding).await?;
    }
    match step {
        Step::Broken => Ok(None),
        Step::More | Step::Done => Ok(Some(decoding.done())),
    }
}

/// Runs one step on another thread.
///
/// A step never waits, so bodies that wait for room cannot occupy the threads.
async fn elsewhere(mut decoding: Decoding) -> Result<(Decoding, Step), Fault> {
    // The semaphore is never closed.
    let _place = STEPS.acquire().await;
    let task = tokio::task::spawn_blocking(move || {
        let step = decoding.step(STEP)?;
        Ok((decoding, step))
    });
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "failed to decode a request body; refusing the request");
        Err(Code::INTERNAL.into())
    })
}

impl Decoding {
    /// Decodes about `bytes` more.
    fn step(&mut self, bytes: usize) -> Result<Step, Fault> {
        let goal = self.text.len() + bytes;
        while self.text.len() < goal {
            if self.text.capacity() == self.text.len() {
                let most = self.limit + 1 - self.text.len();
                self.text.reserve_exact(most.min(self.text.len().max(SMALL_TEXT)));
            }
            // A decoder zeroes all of its space, even if its member ends after a few bytes.
            let mut space = (&mut self.text).limit(SMALL_TEXT);
            // The whole source is in memory, so the read is ready at once.
            match self.plain.read_buf(&mut space).now_or_never() {
                Some(Ok(0)) => return Ok(Step::Done),
                Some(Ok(_)) if self.text.len() > self.limit => return Err(too_large(self.limit)),
                Some(Ok(_)) => {}
                Some(Err(error)) if TooManyMembers::is(&error) => {
                    return Err(Fault::because(Code::BODY_TOO_LARGE, error.to_string()));
                }
                Some(Err(_)) | None => return Ok(Step::Broken),
            }
        }
        Ok(Step::More)
    }

    /// Returns the text, whose reservation is released with its last slice.
    fn done(mut self) -> Bytes {
        self.hold.settle(self.text.len());
        buffers::share(self.text, self.hold)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;
    use crate::proxy::budget::Budget;
    use crate::state::config::LimitConfig;

    /// Decoder of members of one byte.
    struct SmallMembers;

    impl AsyncRead for SmallMembers {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            assert!(buf.remaining() <= SMALL_TEXT, "{}", buf.remaining());
            buf.put_slice(b"a");
            Poll::Ready(Ok(()))
        }
    }

    /// Each read costs as much as its space, so the space must not grow with the text.
    #[test]
    fn a_member_gets_little_space_however_long_the_text_is() {
        let limit = 3 * STEP;
        let mut decoding = Decoding {
            plain: (Box::pin(SmallMembers) as Pin<Box<dyn AsyncRead + Send>>).take(limit as u64 + 1),
            text: vec![b'a'; STEP],
            limit,
            hold: Budget::new(&LimitConfig::default()).hold(),
        };
        assert!(matches!(decoding.step(1000), Ok(Step::More)));
        assert_eq!(decoding.text.len(), STEP + 1000);
    }
}
