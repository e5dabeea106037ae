//! Server-sent events, as frames: where one ends, and what its data is. Says nothing of what they mean.
//!
//! Bytes go in as they come from the network; whole frames come out as ranges of one buffer, so that frames
//! that are not changed can be sent on in one piece. Rules: WHATWG HTML, section "Server-sent events".

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use super::framing::{Framing, Scanner};
use crate::text::Span;
use crate::text::splice::{self, Edit};

/// Whole frames in one buffer, one behind the other.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The buffer.
    pub buf: Bytes,
    /// The frames in it, blank lines included; they follow each other without a gap.
    pub frames: Vec<Range<usize>>,
}

/// A frame grew over the limit; what was held of it is given back.
#[derive(Debug)]
pub struct Oversize(pub Bytes);

/// Finds the frames in a stream of bytes.
#[derive(Debug)]
pub struct Framer {
    held: Vec<Bytes>,
    held_len: usize,
    scan: Scanner,
    limit: usize,
}

/// What the last bytes seen say about a frame's end; it survives from one read to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Scan {
    /// Inside a line.
    Line,
    /// At the start of a line: a line break here ends the frame.
    #[default]
    LineStart,
    /// Behind a carriage return that ended a line; a line feed may belong to it.
    Return,
    /// Behind a carriage return that ended the frame; a line feed may belong to it.
    EndReturn,
}

impl Framer {
    /// A framer that holds at most `limit` bytes of an unfinished frame.
    pub fn new(limit: usize) -> Self {
        Self::of(Framing::Sse, limit)
    }

    /// The same for streams of another framing.
    pub fn of(framing: Framing, limit: usize) -> Self {
        Self {
            held: Vec::new(),
            held_len: 0,
            scan: Scanner::new(framing),
            limit,
        }
    }

    /// Whether the next byte is a frame's first one.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.held_len == 0 && self.scan.is_between_frames()
    }

    /// Takes the next bytes and returns the frames that are whole now.
    pub fn push(&mut self, chunk: Bytes) -> Result<Batch, Oversize> {
        let ends = self.scan.ends_in(&chunk);
        let Some(&last) = ends.last() else {
            self.held_len += chunk.len();
            self.held.push(chunk);
            return if self.held_len > self.limit {
                Err(Oversize(self.take_held()))
            } else {
                Ok(Batch::default())
            };
        };
        let offset = self.held_len;
        let whole = chunk.slice(..last);
        let rest = chunk.slice(last..);
        let buf = if offset == 0 {
            whole
        } else {
            self.held.push(whole);
            self.take_held()
        };
        let mut from = 0;
        let frames = ends
            .iter()
            .map(|end| std::mem::replace(&mut from, end + offset)..end + offset)
            .collect();
        self.held_len = rest.len();
        self.held.clear();
        if !rest.is_empty() {
            self.held.push(rest);
        }
        Ok(Batch { buf, frames })
    }

    /// What is left when the stream has ended: an unfinished frame, perhaps nothing.
    pub fn finish(&mut self) -> Bytes {
        self.take_held()
    }

    fn take_held(&mut self) -> Bytes {
        self.held_len = 0;
        if self.held.len() == 1 {
            return self.held.pop().unwrap_or_default();
        }
        let mut all = BytesMut::new();
        for piece in self.held.drain(..) {
            all.extend_from_slice(&piece);
        }
        all.freeze()
    }
}

impl Scan {
    /// Offsets in `chunk` behind each frame's end.
    pub(super) fn ends_in(&mut self, chunk: &[u8]) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut at = 0;
        while at < chunk.len() {
            if *self == Scan::Line {
                match memchr2(b'\n', b'\r', &chunk[at..]) {
                    Some(hit) => at += hit,
                    None => break,
                }
            }
            let (next, ended) = step(*self, chunk[at]);
            if ended {
                // Behind this byte; a frame ended by a lone return ends before the byte that shows it.
                ends.push(if *self == Scan::EndReturn && chunk[at] != b'\n' {
                    at
                } else {
                    at + 1
                });
            }
            *self = next;
            at += 1;
        }
        ends
    }
}

/// One byte at or behind a line's end.
fn step(scan: Scan, byte: u8) -> (Scan, bool) {
    match (scan, byte) {
        (Scan::EndReturn, b'\n') => (Scan::LineStart, true),
        (Scan::EndReturn, b'\r') => (Scan::EndReturn, true),
        (Scan::EndReturn, _) => (Scan::Line, true),
        (Scan::Line, b'\n') | (Scan::Return, b'\n') => (Scan::LineStart, false),
        (Scan::Line, b'\r') => (Scan::Return, false),
        (Scan::LineStart, b'\n') => (Scan::LineStart, true),
        (Scan::LineStart | Scan::Return, b'\r') => (Scan::EndReturn, false),
        (_, _) => (Scan::Line, false),
    }
}

/// The data of a frame: its `data` lines joined by line feeds. Empty where it has none (a comment, a lone
/// `retry`).
pub fn data(frame: &[u8]) -> Cow<'_, [u8]> {
    let mut found: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut lines = 0;
    for line in frame.split(|&b| b == b'\n' || b == b'\r') {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        let Some(value) = field(line, b"data") else {
            continue;
        };
        if lines == 0 {
            found = Cow::Borrowed(value);
        } else {
            let all = found.to_mut();
            all.push(b'\n');
            all.extend_from_slice(value);
        }
        lines += 1;
    }
    found
}

/// The value of a line `name: value`, one space removed.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

/// The frame with edits made in its data: `data` is what `data()` gave for `raw`, and the edits are in its
/// offsets. Everything else of the frame stays as it is.
pub fn edited(raw: &Bytes, data: &[u8], mut edits: Vec<Edit>) -> Bytes {
    let offset = (data.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
    if offset.checked_add(data.len()).is_some_and(|end| end <= raw.len()) {
        for edit in &mut edits {
            edit.span = Span::new(edit.span.start + offset, edit.span.end + offset);
        }
        return splice::flat(splice::splice(raw, edits));
    }
    // Data of several lines: the frame is written anew, with the fields it had.
    let data = splice::flat(splice::splice(&Bytes::copy_from_slice(data), edits));
    let mut out = Vec::new();
    let lines = raw.split(|&b| b == b'\n' || b == b'\r');
    for line in lines.filter(|l| !l.is_empty() && field(l, b"data").is_none()) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    for line in data.split(|&b| b == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    out.into()
}

/// A frame with a named event.
pub fn named(event: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// A frame of data alone.
pub fn unnamed(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut framer = Framer::new(1 << 20);
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
        let batch = Framer::new(100).push(chunk.clone()).unwrap();
        assert_eq!(batch.frames, vec![0..9, 9..18]);
        assert_eq!(batch.buf.as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn a_frame_over_the_limit_is_given_back() {
        let mut framer = Framer::new(8);
        assert!(
            framer
                .push(Bytes::from_static(b"data: 1"))
                .unwrap()
                .frames
                .is_empty()
        );
        let Err(Oversize(held)) = framer.push(Bytes::from_static(b"23")) else {
            panic!()
        };
        assert_eq!(held, "data: 123");
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
