//! Framing of streams: how events are delimited, independent of their meaning.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::{memchr_iter, memchr2};

use super::sse;

/// How the events of a stream are delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Server-sent events.
    #[default]
    Sse,
    /// Elements of one JSON array (Gemini without `alt=sse`).
    JsonArray,
    /// JSON values, one per line (Ollama).
    Lines,
}

impl Framing {
    /// Payload of a frame; empty if it has none.
    pub fn data(self, frame: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Sse => sse::data(frame),
            Self::Lines => Cow::Borrowed(frame.trim_ascii()),
            Self::JsonArray => Cow::Borrowed(element(frame)),
        }
    }

    /// Bytes that complete a last frame without a terminator.
    pub fn terminator(self) -> &'static [u8] {
        match self {
            Self::Sse => b"\n\n",
            Self::Lines => b"\n",
            Self::JsonArray => b"",
        }
    }
}

/// Payload of a frame of unknown framing: an event's data, a line, or an array element.
pub fn payload(frame: &[u8]) -> Cow<'_, [u8]> {
    let data = sse::data(frame);
    // Without a `data` line, it is not a server-sent event.
    if data.is_empty() {
        Cow::Borrowed(element(frame))
    } else {
        data
    }
}

/// Strips the bracket or comma before an array element.
fn element(frame: &[u8]) -> &[u8] {
    let is_lead = |b: &&u8| matches!(b, b'[' | b',' | b' ' | b'\n' | b'\r' | b'\t');
    let lead = frame.iter().take_while(is_lead);
    frame[lead.count()..].trim_ascii_end()
}

/// Writes the elements of an array.
#[derive(Debug, Default)]
pub struct ArrayWriter {
    opened: bool,
}

impl ArrayWriter {
    /// Writes an element with its separator.
    pub fn element(&mut self, element: Bytes, out: &mut Vec<Bytes>) {
        let lead: &'static [u8] = if self.opened { b"\n,\n" } else { b"[" };
        self.opened = true;
        out.push(Bytes::from_static(lead));
        out.push(element);
    }

    /// Whether an element was written.
    pub fn is_open(&self) -> bool {
        self.opened
    }

    /// Closes the array.
    pub fn end(&mut self, out: &mut Vec<Bytes>) {
        out.push(Bytes::from_static(if self.opened { b"\n]\n" } else { b"[]\n" }));
    }
}

/// Finds the ends of frames. The state survives from one read to the next.
#[derive(Debug)]
pub(super) enum Scanner {
    Sse(sse::FrameEndScan),
    Lines,
    Elements(Elements),
}

impl Scanner {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Sse => Self::Sse(sse::FrameEndScan::default()),
            Framing::Lines => Self::Lines,
            Framing::JsonArray => Self::Elements(Elements::default()),
        }
    }

    /// Offsets in `chunk` after the end of each frame.
    pub(super) fn ends_in(&mut self, chunk: &[u8]) -> Vec<usize> {
        match self {
            Self::Sse(scan) => scan.ends_in(chunk),
            Self::Lines => memchr_iter(b'\n', chunk).map(|at| at + 1).collect(),
            Self::Elements(elements) => elements.ends_in(chunk),
        }
    }
}

/// State of a scan for objects, inside an array or one after another.
#[derive(Debug, Default)]
pub(super) struct Elements {
    depth: usize,
    /// Depth of the elements: 1 inside an array, otherwise 0.
    base: usize,
    text: StringState,
}

/// Position relative to a string literal.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    Escape,
}

impl Elements {
    fn ends_in(&mut self, chunk: &[u8]) -> Vec<usize> {
        let mut ends = Vec::new();
        let mut at = 0;
        while at < chunk.len() {
            match self.text {
                StringState::Inside => match memchr2(b'"', b'\\', &chunk[at..]) {
                    Some(hit) => {
                        at += hit;
                        self.text = if chunk[at] == b'"' {
                            StringState::Outside
                        } else {
                            StringState::Escape
                        };
                    }
                    // The string continues in the next read.
                    None => break,
                },
                // This is the escaped byte: a quote here does not end the string.
                StringState::Escape => self.text = StringState::Inside,
                StringState::Outside => {
                    if self.structure(chunk[at]) {
                        ends.push(at + 1);
                    }
                }
            }
            at += 1;
        }
        ends
    }

    /// Processes a byte outside of strings. Returns whether it ends an element.
    fn structure(&mut self, byte: u8) -> bool {
        match byte {
            b'"' => self.text = StringState::Inside,
            // The enclosing array. Without one, objects follow each other at depth 0.
            b'[' if self.depth == 0 => (self.depth, self.base) = (1, 1),
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return byte == b'}' && self.depth == self.base;
            }
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::framer::Framer;

    fn frames(framing: Framing, pieces: &[&'static [u8]]) -> Vec<Vec<u8>> {
        let mut framer = Framer::new(framing, 1 << 20);
        let mut out = Vec::new();
        for piece in pieces {
            let batch = framer.push(Bytes::from_static(piece)).unwrap();
            out.extend(
                batch
                    .frames
                    .iter()
                    .map(|r| framing.data(&batch.buf[r.clone()]).into_owned()),
            );
        }
        out
    }

    #[test]
    fn elements_and_lines_are_found_at_every_split() {
        const ARRAY: &[u8] = b" [{\"a\":\"]}\\\"\",\"b\":[{}]}\r\n,\n{\"c\":{}},{}\n]\n";
        const LINES: &[u8] = b"{\"a\":1}\r\n{\"b\":\"\\n\"}\n";
        for (framing, stream, wanted) in [
            (
                Framing::JsonArray,
                ARRAY,
                vec!["{\"a\":\"]}\\\"\",\"b\":[{}]}", "{\"c\":{}}", "{}"],
            ),
            (Framing::Lines, LINES, vec!["{\"a\":1}", "{\"b\":\"\\n\"}"]),
        ] {
            for cut in 0..=stream.len() {
                let found = frames(framing, &[&stream[..cut], &stream[cut..]]);
                let wanted: Vec<_> = wanted.iter().map(|w| w.as_bytes().to_vec()).collect();
                assert_eq!(found, wanted, "cut at {cut}");
            }
        }
    }

    #[test]
    fn objects_without_an_array_are_elements_too() {
        assert_eq!(
            frames(Framing::JsonArray, &[b"{\"error\":{}}"]),
            [b"{\"error\":{}}".to_vec()]
        );
    }
}
