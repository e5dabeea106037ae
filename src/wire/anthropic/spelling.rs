//! How a block's deltas are spelled. One in a hundred events of a stream needs a look; the others differ from the
//! one before in nothing but the piece of text they carry, and are told by that.

use memchr::memchr3;

use crate::json::{self, Span};

/// What stands before and behind the text of a delta that was read and went on unchanged.
#[derive(Default)]
pub(super) struct Spelling {
    before: Vec<u8>,
    behind: Vec<u8>,
    /// The model's text: what looks like a sentinel needs a look.
    is_text: bool,
}

impl Spelling {
    /// Learns from a frame with this `delta` in its data; `text` is the string literal of a model's text.
    pub(super) fn learn(&mut self, raw: &[u8], data: &[u8], delta: Span, text: Option<Span>) {
        let piece = text
            .or_else(|| json::get(data, delta, "partial_json"))
            .or_else(|| json::get(data, delta, "thinking"));
        let offset = (data.as_ptr() as usize).wrapping_sub(raw.as_ptr() as usize);
        let in_place = offset.checked_add(data.len()).is_some_and(|end| end <= raw.len());
        let Some(piece) = piece.filter(|p| in_place && p.len() >= 2 && data.get(p.start) == Some(&b'"'))
        else {
            *self = Self::default();
            return;
        };
        let inside = piece.inner();
        let (before, behind) = (&raw[..offset + inside.start], &raw[offset + inside.end..]);
        if self.before != before || self.behind != behind {
            self.before = before.to_vec();
            self.behind = behind.to_vec();
        }
        self.is_text = text.is_some();
    }

    /// Whether a frame is spelled alike, and has nothing in its text that needs a look: neither a bracket nor an
    /// escape that could spell one.
    pub(super) fn fits(&self, raw: &[u8]) -> bool {
        if self.before.is_empty() {
            return false;
        }
        let Some(rest) = raw.strip_prefix(&self.before[..]) else {
            return false;
        };
        let bracket = if self.is_text { b'[' } else { b'"' };
        let mut at = 0;
        loop {
            let Some(hit) = memchr3(b'"', b'\\', bracket, &rest[at..]) else {
                return false;
            };
            at += hit;
            match (rest[at], rest.get(at + 1)) {
                (b'"', _) => return rest[at..] == self.behind[..],
                (b'\\', Some(&c)) if !(c == b'u' && self.is_text) && at + 2 <= rest.len() => at += 2,
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::Watch;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn stream() -> Stream {
        Stream::new(Watch {
            hide: true,
            held_bytes: 1 << 20,
        })
    }

    use super::super::stream::Stream;
    use crate::wire::leg::Dialect;
    use crate::wire::sse;

    fn delta(index: usize, kind: &str, key: &str, piece: &str) -> Bytes {
        sse::named(
            "content_block_delta",
            &format!(
                r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{key}":"{piece}"}}}}"#
            ),
        )
    }

    fn start(index: usize) -> Bytes {
        sse::named(
            "content_block_start",
            &format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"text","text":""}}}}"#
            ),
        )
    }

    fn see(stream: &mut Stream, frame: &Bytes, may_skip: bool) -> Bytes {
        if may_skip && stream.is_more_of_the_same(frame) {
            return frame.clone();
        }
        let mut out = Vec::new();
        stream.frame(frame, &sse::data(frame), &mut out);
        out.concat().into()
    }

    #[test]
    fn plain_text_needs_no_look_and_a_bracket_does() {
        let mut stream = stream();
        see(&mut stream, &start(0), true);
        let text = |piece: &str| delta(0, "text_delta", "text", piece);
        assert!(!stream.is_more_of_the_same(&text("a")));
        see(&mut stream, &text("a"), true);
        assert!(stream.is_more_of_the_same(&text(r#"b \"c\" \\ \n"#)));
        for other in [
            text("["),
            text(r"\u005b"),
            delta(1, "text_delta", "text", "a"),
            start(1),
        ] {
            assert!(!stream.is_more_of_the_same(&other), "{other:?}");
        }
        let twice = text("a").slice(..text("a").len() - 4);
        let twice = [&twice[..], br#","text":"b"}}"#, b"\n\n"].concat();
        assert!(!stream.is_more_of_the_same(&twice));
    }

    proptest! {
        #[test]
        fn skipping_changes_nothing(frames in proptest::collection::vec((0usize..4, prop_oneof![
            Just("a"), Just("[["), Just("handoff-"), Just("resume"), Just(":"), Just(r"\\"), Just(r"\n"),
            Just(r#"\""#), Just(r"\u005b"), Just("[[handoff-resume:")]), 0..24)) {
            let (mut quick, mut slow) = (stream(), stream());
            for (kind, piece) in frames {
                let frame = match kind {
                    0 => start(0),
                    1 => delta(0, "input_json_delta", "partial_json", piece),
                    _ => delta(0, "text_delta", "text", piece),
                };
                prop_assert_eq!(see(&mut quick, &frame, true), see(&mut slow, &frame, false));
                prop_assert_eq!(quick.report().broken_up, slow.report().broken_up);
            }
        }
    }
}
