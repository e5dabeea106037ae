//! Content codings: which a body has, and its decoder.

use std::pin::Pin;

use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use async_compression::zstd::DParameter;
use http::{HeaderMap, header};
use tokio::io::{AsyncBufRead, AsyncRead};

/// RFC 9659 allows windows of up to 8 MiB (2^23) in `Content-Encoding: zstd`; the library's own bound is 128 MiB,
/// which one small request could make us allocate.
const ZSTD_WINDOW_LOG: u32 = 23;

/// How a body is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Not at all.
    Identity,
    /// gzip
    Gzip,
    /// deflate with its zlib frame, as the RFC has it.
    Zlib,
    /// deflate without it, as some send it.
    Deflate,
    /// br
    Brotli,
    /// zstd
    Zstd,
    /// One that we do not know, or several on top of each other.
    Opaque,
}

impl Coding {
    /// By `content-encoding`.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            for name in value.to_str().unwrap_or("?").split(',') {
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

    /// The same, or `Deflate` where the first bytes are no zlib header (RFC 1950 section 2.2).
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

    /// The decoded bytes of `coded`.
    pub(super) fn decoder(self, coded: impl AsyncBufRead + Send + 'static) -> Pin<Box<dyn AsyncRead + Send>> {
        match self {
            Self::Identity | Self::Opaque => Box::pin(coded),
            Self::Gzip => {
                let mut decoder = GzipDecoder::new(coded);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            Self::Zlib => Box::pin(ZlibDecoder::new(coded)),
            Self::Deflate => Box::pin(DeflateDecoder::new(coded)),
            Self::Brotli => Box::pin(BrotliDecoder::new(coded)),
            Self::Zstd => {
                let params = [DParameter::window_log_max(ZSTD_WINDOW_LOG)];
                let mut decoder = ZstdDecoder::with_params(coded, &params);
                decoder.multiple_members(true);
                Box::pin(decoder)
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
            assert_eq!(Coding::of(&headers), coding, "{values:?}");
        }
    }
}
