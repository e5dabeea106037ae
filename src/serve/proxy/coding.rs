//! Content codings: detection and decoding, including bodies of several compressed members.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use async_compression::zstd::DParameter;
use http::{HeaderMap, header};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Maximum window of a zstd body, as a power of two.
///
/// RFC 9659 allows windows of up to 8 MiB (2^23) in `Content-Encoding: zstd`. The library's own bound is 128
/// MiB, which one small request could make baton allocate.
const ZSTD_WINDOW_LOG: u32 = 23;

/// Content coding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Not encoded.
    Identity,
    /// gzip
    Gzip,
    /// deflate with its zlib header, as the RFC defines it.
    Zlib,
    /// deflate without the header, as some senders encode it.
    Deflate,
    /// br
    Brotli,
    /// zstd
    Zstd,
    /// An unknown coding, or several on top of each other.
    Opaque,
}

impl Coding {
    /// Reads the coding from `content-encoding`.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let mut found = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            for name in value.to_str().unwrap_or("?").split(',') {
                // `identity` does not count. Two other codings on top of each other are not decoded.
                found = match (found, Self::named(name.trim())) {
                    (coding, Self::Identity) => coding,
                    (Self::Identity, coding) => coding,
                    _ => Self::Opaque,
                };
            }
        }
        found
    }

    fn named(name: &str) -> Self {
        const NAMES: &[(&str, Coding)] = &[
            ("", Coding::Identity),
            ("identity", Coding::Identity),
            ("gzip", Coding::Gzip),
            ("x-gzip", Coding::Gzip),
            ("deflate", Coding::Zlib),
            ("br", Coding::Brotli),
            ("zstd", Coding::Zstd),
        ];
        NAMES
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map_or(Self::Opaque, |(_, coding)| *coding)
    }

    /// Returns `Deflate` instead of `Zlib` if the first bytes are not a zlib header (RFC 1950, section 2.2).
    pub(super) fn looked_at(self, first: &[u8]) -> Self {
        match (self, first) {
            (Self::Zlib, [method, flags, ..])
                if method & 0x0f != 8 || (u16::from(*method) << 8 | u16::from(*flags)) % 31 != 0 =>
            {
                Self::Deflate
            }
            _ => self,
        }
    }

    /// Maximum memory of a decoder in addition to the text: its window (RFC 1951, RFC 7932 section 9.1, RFC 9659).
    pub(super) fn workspace(self) -> usize {
        match self {
            Self::Identity | Self::Opaque => 0,
            Self::Gzip | Self::Zlib | Self::Deflate => 64 << 10,
            Self::Brotli => 16 << 20,
            Self::Zstd => 1 << ZSTD_WINDOW_LOG,
        }
    }

    /// Wraps `coded` in its decoder. Identity and opaque bodies pass through.
    pub(super) fn decoder(self, coded: impl AsyncBufRead + Send + 'static) -> Pin<Box<dyn AsyncRead + Send>> {
        let coded = Box::pin(coded);
        match self {
            Self::Identity | Self::Opaque => coded,
            // A body may consist of several members (gzip: RFC 1952 section 2.2, zstd: RFC 8878 section 3).
            Self::Gzip => Box::pin(Members::new(coded, GzipDecoder::new, GzipDecoder::into_inner)),
            Self::Zlib => Box::pin(ZlibDecoder::new(coded)),
            Self::Deflate => Box::pin(DeflateDecoder::new(coded)),
            Self::Brotli => Box::pin(BrotliDecoder::new(coded)),
            Self::Zstd => Box::pin(Members::new(coded, zstd, ZstdDecoder::into_inner)),
        }
    }
}

fn zstd<R: AsyncBufRead>(coded: R) -> ZstdDecoder<R> {
    ZstdDecoder::with_params(coded, &[DParameter::window_log_max(ZSTD_WINDOW_LOG)])
}

/// Number of members that are allowed whatever their size.
const FREE: u64 = 64;

/// Minimum average decoded bytes of each further member. Encoders that begin a new member do so after more.
const LEAST_TEXT: u64 = 4 << 10;

/// Error of a body with more members than its text can need.
#[derive(Debug, thiserror::Error)]
#[error("it is compressed in many pieces of less than {LEAST_TEXT} bytes")]
pub(super) struct TooManyMembers;

impl TooManyMembers {
    pub(super) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// Decoder of consecutive members.
pub(super) struct Members<R, D> {
    now: Now<R, D>,
    /// Starts the decoder of a member.
    begin: fn(R) -> D,
    /// Ends a decoder and returns the bytes after its member.
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
                    // A read of nothing ends the member. Another one may follow.
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
                    // Each member costs a new decoder, so a small body of empty members could occupy a thread
                    // for long.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_by_name() {
        for (values, coding) in [
            (&[][..], Coding::Identity),
            (&["identity"], Coding::Identity),
            (&["GZIP"], Coding::Gzip),
            (&["x-gzip"], Coding::Gzip),
            (&["identity, zstd"], Coding::Zstd),
            (&["gzip, br"], Coding::Opaque),
            (&["gzip", "br"], Coding::Opaque),
            (&["compress"], Coding::Opaque),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, http::HeaderValue::from_static(value));
            }
            assert_eq!(Coding::from_headers(&headers), coding, "{values:?}");
        }
    }
}
