//! Splits a byte stream into frames.
//!
//! Input arrives in arbitrary chunks. Output is a buffer with the ranges of its complete frames, so that
//! unchanged frames can be forwarded as one slice.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::framing::{Framing, Scanner};

/// Complete frames in one buffer.
#[derive(Debug, Clone, Default)]
pub struct FrameBatch {
    pub buf: Bytes,
    /// Ranges of the frames, including blank lines, without gaps between them.
    pub frames: Vec<Range<usize>>,
}

/// A frame exceeded the limit. Contains its buffered bytes.
#[derive(Debug)]
pub struct OversizeFrame(pub Bytes);

/// Finds the frames of a byte stream.
#[derive(Debug)]
pub struct Framer {
    buffered: Vec<Bytes>,
    buffered_len: usize,
    scan: Scanner,
    limit: usize,
}

impl Framer {
    /// Creates a framer that buffers at most `limit` bytes of an incomplete frame.
    pub fn new(framing: Framing, limit: usize) -> Self {
        Self {
            buffered: Vec::new(),
            buffered_len: 0,
            scan: Scanner::new(framing),
            limit,
        }
    }

    /// Adds the next bytes and returns the frames that are complete now.
    ///
    /// # Errors
    /// An incomplete frame exceeded the limit.
    pub fn push(&mut self, chunk: Bytes) -> Result<FrameBatch, OversizeFrame> {
        let ends = self.scan.ends_in(&chunk);
        let Some(&last) = ends.last() else {
            // No frame ends in this chunk. The pieces are joined only when the frame is complete.
            self.buffered_len += chunk.len();
            self.buffered.push(chunk);
            return if self.buffered_len > self.limit {
                Err(OversizeFrame(self.take_buffered()))
            } else {
                Ok(FrameBatch::default())
            };
        };
        let offset = self.buffered_len;
        let whole = chunk.slice(..last);
        let rest = chunk.slice(last..);
        // Without a remainder the frames are slices of the chunk; only a frame that spans reads is copied.
        let buf = if offset == 0 {
            whole
        } else {
            self.buffered.push(whole);
            self.take_buffered()
        };
        let mut from = 0;
        let frames = ends
            .iter()
            .map(|end| std::mem::replace(&mut from, end + offset)..end + offset)
            .collect();
        self.buffered_len = rest.len();
        self.buffered.clear();
        if !rest.is_empty() {
            self.buffered.push(rest);
        }
        Ok(FrameBatch { buf, frames })
    }

    /// Returns the bytes after the last complete frame when the stream has ended.
    pub fn finish(&mut self) -> Bytes {
        self.take_buffered()
    }

    fn take_buffered(&mut self) -> Bytes {
        self.buffered_len = 0;
        if self.buffered.len() == 1 {
            return self.buffered.pop().unwrap_or_default();
        }
        let mut all = BytesMut::new();
        for piece in self.buffered.drain(..) {
            all.extend_from_slice(&piece);
        }
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::sse::data;
    use proptest::prelude::*;

    fn frames(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut framer = Framer::new(Framing::Sse, 1 << 20);
        let mut out = Vec::new();
        for piece in pieces {
            let batch = framer.push(Bytes::copy_from_slice(piece)).unwrap();
            out.extend(batch.frames.iter().map(|r| batch.buf[r.clone()].to_vec()));
        }
        (out, framer.finish().to_vec())
    }

    const STREAM: &[u8] = b"event: a\ndata: 1\n\n: note\n\ndata: 2\r\ndata: 3\r\n\r\nid: x\rdata:4\r\rdata: \xc3\xa9\n\ndata: cut";

    #[test]
    fn every_split_gives_the_same_data_and_loses_no_byte() {
        let data_of = |all: &[Vec<u8>]| -> Vec<Vec<u8>> {
            all.iter()
                .map(|f| data(f).into_owned())
                .filter(|d| !d.is_empty())
                .collect()
        };
        let wanted: Vec<Vec<u8>> = [&b"1"[..], b"2\n3", b"4", "é".as_bytes()]
            .iter()
            .map(|d| d.to_vec())
            .collect();
        for first in 0..STREAM.len() {
            for second in first..STREAM.len() {
                let (all, rest) = frames(&[&STREAM[..first], &STREAM[first..second], &STREAM[second..]]);
                assert_eq!(data_of(&all), wanted, "split at {first} and {second}");
                let mut back = all.concat();
                back.extend_from_slice(&rest);
                assert_eq!(back, STREAM, "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn frames_of_one_read_are_slices_of_it() {
        let chunk = Bytes::from_static(b"data: 1\n\ndata: 2\n\nda");
        let batch = Framer::new(Framing::Sse, 100).push(chunk.clone()).unwrap();
        assert_eq!(batch.frames, vec![0..9, 9..18]);
        assert_eq!(batch.buf.as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn a_frame_over_the_limit_is_given_back() {
        let mut framer = Framer::new(Framing::Sse, 8);
        assert!(
            framer
                .push(Bytes::from_static(b"data: 1"))
                .unwrap()
                .frames
                .is_empty()
        );
        let Err(OversizeFrame(oversize)) = framer.push(Bytes::from_static(b"23")) else {
            panic!()
        };
        assert_eq!(oversize, "data: 123");
    }

    proptest! {
        #[test]
        fn bytes_are_never_lost(pieces in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'd'), Just(b':')], 0..6), 0..8)) {
            let refs: Vec<&[u8]> = pieces.iter().map(|p| &p[..]).collect();
            let (all, rest) = frames(&refs);
            let mut back = all.concat();
            back.extend_from_slice(&rest);
            prop_assert_eq!(back, pieces.concat());
        }
    }
}
