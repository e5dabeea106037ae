//! Server-sent events as frames: their ends and their data, independent of the meaning.
//!
//! Rules: WHATWG HTML, section "Server-sent events".

use std::borrow::Cow;

use bytes::Bytes;
use memchr::{memchr2, memchr2_iter};

use crate::text::Span;
use crate::text::splice::{self, Edit};

/// State of the search for a frame's end. It survives from one read to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FrameEndScan {
    /// Inside a line.
    Line,
    /// At the start of a line. A line break here ends the frame.
    #[default]
    LineStart,
    /// After a carriage return that ended a line. A line feed may belong to it.
    Return,
    /// After a carriage return that ended the frame. A line feed may belong to it.
    EndReturn,
}

impl FrameEndScan {
    /// Offsets in `chunk` after the end of each frame.
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
                // The end is after this byte. If a lone carriage return ended the frame, the end is before
                // the byte that reveals it.
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

/// Processes a byte at or after the end of a line. Returns the new state, and whether a frame ended.
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

/// Data of a frame: its `data` lines joined by line feeds. Empty if it has none, as in a comment or a lone
/// `retry`.
pub fn data(frame: &[u8]) -> Cow<'_, [u8]> {
    let mut found: Cow<'_, [u8]> = Cow::Borrowed(&[]);
    let mut of_data = 0;
    for line in lines(frame) {
        // A stream may begin with a byte order mark.
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

/// Lines of a frame.
fn lines(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr2_iter(b'\n', b'\r', frame).chain([frame.len()]);
    let mut from = 0;
    ends.map(move |end| &frame[std::mem::replace(&mut from, end + 1)..end])
}

/// Value of a line `name: value`, without one leading space.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name)?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

/// Applies edits to the data of a frame; everything else stays unchanged.
///
/// `data` must be the result of `data()` for `raw`, and the edits use its offsets.
pub fn edited(raw: &Bytes, data: &[u8], mut edits: Vec<Edit>) -> Bytes {
    if edits.is_empty() {
        return raw.clone();
    }
    let offset = (data.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
    // Data of one line is a slice of the frame, so the edits only need to be moved.
    if offset.checked_add(data.len()).is_some_and(|end| end <= raw.len()) {
        for edit in &mut edits {
            edit.span = Span::new(edit.span.start + offset, edit.span.end + offset);
        }
        return splice::edited(raw, edits);
    }
    // Multi-line data is not a slice of the frame, so the frame is written again with its other fields.
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

/// Formats a frame with a named event.
pub fn named(event: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {event}\ndata: {data}\n\n"))
}

/// Formats a frame that has only data.
pub fn unnamed(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
