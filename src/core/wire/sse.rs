//! Server-sent events, as frames: where one ends, and what its data is. Says nothing of what they mean.
//! Rules: WHATWG HTML, section "Server-sent events".

use std::borrow::Cow;

use bytes::Bytes;
use memchr::{memchr2, memchr2_iter};

use crate::text::Span;
use crate::text::splice::{self, Edit};

/// What the last bytes seen say about a frame's end; it survives from one read to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FrameEndScan {
    /// Inside a line.
    Line,
    /// At the start of a line: a line break here ends the frame.
    #[default]
    LineStart,
    /// After a carriage return that ended a line; a line feed may belong to it.
    Return,
    /// After a carriage return that ended the frame; a line feed may belong to it.
    EndReturn,
}

impl FrameEndScan {
    /// Offsets in `chunk` after each frame's end.
    pub(super) fn ends_in(&mut self, chunk: &[u8]) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut at = 0;
        while at < chunk.len() {
            if *self == FrameEndScan::Line {
                match memchr2(b'\n', b'\r', &chunk[at..]) {
                    Some(hit) => at += hit,
                    None => break,
                }
            }
            let (next, ended) = step(*self, chunk[at]);
            if ended {
                // After this byte; a frame ended by a lone return ends before the byte that shows it.
                ends.push(if *self == FrameEndScan::EndReturn && chunk[at] != b'\n' {
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

/// One byte at or after a line's end.
fn step(scan: FrameEndScan, byte: u8) -> (FrameEndScan, bool) {
    match (scan, byte) {
        (FrameEndScan::EndReturn, b'\n') => (FrameEndScan::LineStart, true),
        (FrameEndScan::EndReturn, b'\r') => (FrameEndScan::EndReturn, true),
        (FrameEndScan::EndReturn, _) => (FrameEndScan::Line, true),
        (FrameEndScan::Line, b'\n') | (FrameEndScan::Return, b'\n') => (FrameEndScan::LineStart, false),
        (FrameEndScan::Line, b'\r') => (FrameEndScan::Return, false),
        (FrameEndScan::LineStart, b'\n') => (FrameEndScan::LineStart, true),
        (FrameEndScan::LineStart | FrameEndScan::Return, b'\r') => (FrameEndScan::EndReturn, false),
        (_, _) => (FrameEndScan::Line, false),
    }
}

/// The data of a frame: its `data` lines joined by line feeds. Empty where it has none (a comment, a lone
/// `retry`).
pub fn data(frame: &[u8]) -> Cow<'_, [u8]> {
    let mut found: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut of_data = 0;
    for line in lines(frame) {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        let Some(value) = field(line, b"data") else {
            continue;
        };
        if of_data == 0 {
            found = Cow::Borrowed(value);
        } else {
            let all = found.to_mut();
            all.push(b'\n');
            all.extend_from_slice(value);
        }
        of_data += 1;
    }
    found
}

/// The lines of a frame.
fn lines(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr2_iter(b'\n', b'\r', frame).chain([frame.len()]);
    let mut from = 0;
    ends.map(move |end| &frame[std::mem::replace(&mut from, end + 1)..end])
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
    if edits.is_empty() {
        return raw.clone();
    }
    let offset = (data.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
    if offset.checked_add(data.len()).is_some_and(|end| end <= raw.len()) {
        for edit in &mut edits {
            edit.span = Span::new(edit.span.start + offset, edit.span.end + offset);
        }
        return splice::edited(raw, edits);
    }
    // Data of several lines: the frame is rewritten, with the fields it had.
    let data = splice::edited(&Bytes::copy_from_slice(data), edits);
    let mut out = Vec::new();
    for line in lines(raw).filter(|l| !l.is_empty() && field(l, b"data").is_none()) {
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
