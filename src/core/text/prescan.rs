//! Scans a body while it is still arriving: notes where large values end and where a given word is, so that the
//! parser can skip them later.
//!
//! The bytes are scanned right after the socket delivered them, while they are in the cache and the agent is still
//! sending the rest. Knows JSON's quotes and brackets, nothing of requests.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::Span;
use super::json::{self, WalkResult};
use super::scan::StreamScan;

/// Scans a growing body.
pub struct Prescanner {
    follow: StreamScan,
    word: &'static [u8],
}

impl Prescanner {
    /// A scan that also notes every occurrence of `word`, which has at least two bytes.
    pub fn seeking(word: &'static [u8]) -> Self {
        Self {
            follow: StreamScan::seeking(word),
            word,
        }
    }

    /// Scans up to the last whole block of `text`, all of the body that has arrived.
    pub fn read(&mut self, text: &[u8]) {
        self.follow.advance(text);
    }

    /// Finishes the scan; `text` is the whole body.
    pub fn done(self, text: &[u8]) -> Prescan {
        let (spans, words, containers) = self.follow.finish(text);
        Prescan {
            spans,
            words: Some((self.word, words)),
            containers: Some(containers),
            next: AtomicUsize::new(0),
        }
    }
}

/// The result of a scan. `Prescan::default()` is empty: nothing can be skipped then.
#[derive(Debug, Default)]
pub struct Prescan {
    /// Containers near the root and strings of more than a block in them, by their start. An end of zero was not found.
    spans: Vec<Span>,
    /// The word that was looked for, and where it is.
    words: Option<(&'static [u8], Vec<usize>)>,
    containers: Option<usize>,
    /// Where to search first, since reading goes forward.
    next: AtomicUsize,
}

impl Prescan {
    /// End of the value that begins at `at`: from the scan where it is known, else from [`json::value_end`].
    ///
    /// # Errors
    /// As [`json::value_end`].
    #[inline]
    pub fn value_end(&self, text: &[u8], at: usize) -> WalkResult {
        // A body that arrived at once was not scanned.
        match self.spans.is_empty() {
            true => json::value_end(text, at),
            false => self.known_end(text, at),
        }
    }

    fn known_end(&self, text: &[u8], at: usize) -> WalkResult {
        match self.known(at) {
            Some(end) => Ok(end),
            None => json::value_end(text, at),
        }
    }

    fn known(&self, at: usize) -> Option<usize> {
        let from = self.next.load(Relaxed);
        let passed = self.spans.get(from).is_none_or(|s| s.start > at);
        let i = match passed {
            true => self.spans.partition_point(|s| s.start < at),
            false => from + self.spans[from..].iter().take_while(|s| s.start < at).count(),
        };
        self.next.store(i, Relaxed);
        let span = self.spans.get(i).filter(|s| s.start == at && s.end > 0)?;
        Some(span.end)
    }

    /// Number of occurrences of `word` in `text`: from the scan, or counted now where it was not scanned for.
    pub fn word_count(&self, text: &[u8], word: &[u8]) -> usize {
        match &self.words {
            Some((sought, at)) if *sought == word => at.len(),
            _ => memchr::memmem::find_iter(text, word).count(),
        }
    }

    /// Number of objects and arrays in `text`: exact after a scan, else every `{`, also those in strings.
    pub fn container_count(&self, text: &[u8]) -> usize {
        self.containers
            .unwrap_or_else(|| memchr::memchr_iter(b'{', text).count())
    }

    /// Offsets of the scanned word in `span`, relative to its start; `None` without a scan.
    pub fn words(&self, span: Span) -> Option<impl Iterator<Item = usize>> {
        let (word, all) = self.words.as_ref()?;
        let from = all.partition_point(|&s| s < span.start);
        let inside = all[from..]
            .iter()
            .take_while(move |&&s| s + word.len() <= span.end);
        Some(inside.map(move |s| s - span.start))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORD: &[u8] = b"handoff-";

    /// Feeds `text` in pieces of these lengths.
    fn prescanned(text: &[u8], pieces: &[usize]) -> Prescan {
        let mut prescanner = Prescanner::seeking(WORD);
        let mut at = 0;
        for piece in pieces {
            at = (at + piece).min(text.len());
            prescanner.read(&text[..at]);
        }
        prescanner.done(text)
    }

    fn agrees(text: &[u8], pieces: &[usize]) -> usize {
        let prescan = prescanned(text, pieces);
        for span in prescan.spans.iter().filter(|s| s.end > 0) {
            assert_eq!(json::value_end(text, span.start), Ok(span.end), "{span:?}");
        }
        let plain: Vec<_> = memchr::memmem::find_iter(text, WORD).collect();
        assert_eq!(
            prescan
                .words(Span::new(0, text.len()))
                .unwrap()
                .collect::<Vec<_>>(),
            plain
        );
        prescan.spans.len()
    }

    #[test]
    fn large_values_are_known() {
        let long = "a \\\"quoted\\\" word ".repeat(20);
        let text = format!(
            r#"{{"a":{{"b":"{long}"}},"messages":[{{"role":"user","content":[{{"type":"text","text":"{long}"}}]}},{{"content":"{long}"}}]}}"#
        );
        for cut in 0..text.len() {
            // The root, `a`, `b`, `messages`, two messages, the list of parts, the second one's text.
            assert_eq!(agrees(text.as_bytes(), &[cut]), 8);
        }
    }

    #[test]
    fn a_word_over_two_pieces_is_found_once() {
        let text = b"handoff-handoff- [[handoff-";
        for cut in 0..text.len() {
            agrees(text, &[cut, 1]);
        }
        let prescan = prescanned(text, &[4]);
        let inside: Vec<_> = prescan.words(Span::new(1, text.len() - 1)).unwrap().collect();
        assert_eq!(inside, [7]);
    }

    #[test]
    fn text_that_is_no_json_is_read_to_its_end() {
        for text in ["", "}}}]]", "\"", "[[[[[", "{\"a", "\\\"\\\"", "]{\"a\":\"b\"}["] {
            prescanned(text.as_bytes(), &[1, 1]);
            prescanned(text.repeat(70).as_bytes(), &[]);
        }
        assert_eq!(Prescan::default().value_end(b"[1]", 0), Ok(3));
        assert!(Prescan::default().words(Span::new(0, 3)).is_none());
    }

    proptest! {
        #[test]
        fn what_is_known_is_what_is_there(
            texts in proptest::collection::vec("[a-z\"\\\\\n{}é\\[\\]-]{0,90}", 0..12),
            deep in 0usize..8,
            pieces in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let nested = (0..deep).fold(serde_json::json!(texts), |v, i| match i % 2 {
                0 => serde_json::json!({ "k": v, "handoff-": i }),
                _ => serde_json::json!([v, "handoff-", texts]),
            });
            let text = serde_json::json!({ "messages": [{"content": texts}, nested], "s": texts.concat() }).to_string();
            agrees(text.as_bytes(), &pieces);
        }
    }
}
