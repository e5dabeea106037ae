//! Removes the proxy's own key from error responses. Some servers quote the key that they refuse, and a client of a team
//! must not learn it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderValue;
use hyper::body::{Body, Frame};
use memchr::memmem;

use super::download::PolledFrame;
use super::fault::Fault;
use super::response_body::BoxedStream;
use crate::state::config::UpstreamConfig;

/// Text in place of a key.
const REMOVED: &[u8] = b"[redacted:own-key]";

/// Minimum length of a key in bytes. A shorter value may be an ordinary word of a message.
const MIN_KEY: usize = 8;

/// The keys that a config sends to this upstream, longest first.
pub(super) fn keys(upstream: &UpstreamConfig) -> Vec<Vec<u8>> {
    let headers = upstream
        .headers
        .iter()
        .filter(|(name, _)| UpstreamConfig::is_credential(name));
    // Without the scheme: `Bearer KEY`.
    let values = headers.filter_map(|(_, value)| value.reveal().split_whitespace().last());
    let keys = upstream.api_key.iter().map(|key| key.reveal()).chain(values);
    let mut keys: Vec<Vec<u8>> = keys
        .filter(|key| key.len() >= MIN_KEY)
        .map(|key| key.as_bytes().to_vec())
        .collect();
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
    keys
}

/// Whether a header's value contains one of the keys.
pub(super) fn is_in(keys: &[Vec<u8>], value: &HeaderValue) -> bool {
    keys.iter()
        .any(|key| memmem::find(value.as_bytes(), key).is_some())
}

/// Body without the keys. Holds back only bytes that may begin a key.
pub(super) struct KeylessBody {
    body: BoxedStream,
    keys: Vec<Vec<u8>>,
    held: BytesMut,
    has_ended: bool,
}

impl KeylessBody {
    pub(super) fn new(
        body: impl Body<Data = Bytes, Error = Fault> + Send + 'static,
        keys: Vec<Vec<u8>>,
    ) -> Self {
        Self {
            body: Box::pin(body),
            keys,
            held: BytesMut::new(),
            has_ended: false,
        }
    }

    /// Takes the bytes that can be shown, without keys.
    fn shown(&mut self) -> Bytes {
        let mut out = BytesMut::new();
        loop {
            let found = self
                .keys
                .iter()
                .filter_map(|key| Some((memmem::find(&self.held, key)?, key.len())));
            let Some((at, len)) = found.min_by_key(|(at, len)| (*at, std::cmp::Reverse(*len))) else {
                break;
            };
            out.extend_from_slice(&self.held.split_to(at));
            out.extend_from_slice(REMOVED);
            self.held.advance(len);
        }
        let kept = match self.has_ended {
            true => 0,
            false => self.beginning(),
        };
        out.extend_from_slice(&self.held.split_to(self.held.len() - kept));
        out.freeze()
    }

    /// Length of the longest end of the held bytes that begins a key.
    fn beginning(&self) -> usize {
        let longest = self.keys.iter().map(Vec::len).max().unwrap_or_default();
        let lengths = (1..longest.min(self.held.len() + 1)).rev();
        let mut lengths = lengths.filter(|len| {
            let end = &self.held[self.held.len() - len..];
            self.keys.iter().any(|key| key.starts_with(end))
        });
        lengths.next().unwrap_or_default()
    }
}

impl Body for KeylessBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        while !self.has_ended {
            match std::task::ready!(self.body.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // No provider uses trailers.
                    let Ok(data) = frame.into_data() else { continue };
                    self.held.extend_from_slice(&data);
                }
                Some(Err(fault)) => return Poll::Ready(Some(Err(fault))),
                None => self.has_ended = true,
            }
            let shown = self.shown();
            if !shown.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(shown))));
            }
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::state::config::Secret;

    #[tokio::test]
    async fn a_key_is_removed_wherever_the_body_is_split() {
        let upstream = UpstreamConfig {
            api_key: Some(Secret::new("our-own-key")),
            headers: vec![
                ("Authorization".to_owned(), Secret::new("Bearer our-own-key-2")),
                ("x-app".to_owned(), Secret::new("an-ordinary-word")),
            ],
            ..UpstreamConfig::default()
        };
        let text = "our-own our-own-key, our-own-key-2: an-ordinary-word our-own-ke";
        for at in 0..=text.len() {
            let pieces = [&text[..at], &text[at..]]
                .map(|piece| Ok::<_, Fault>(Frame::data(Bytes::from(piece.to_owned()))));
            let body = StreamBody::new(futures_util::stream::iter(pieces));
            let got = KeylessBody::new(body, keys(&upstream))
                .collect()
                .await
                .unwrap()
                .to_bytes();
            // In one piece with the next byte, the longer key is found.
            let whole = "our-own [redacted:own-key], [redacted:own-key]: an-ordinary-word our-own-ke";
            let early = "our-own [redacted:own-key], [redacted:own-key]-2: an-ordinary-word our-own-ke";
            assert!(got == whole || got == early, "{at}: {got:?}");
        }
    }
}
