//! Scans of bodies that were seen: the next request of a conversation begins like the one before, and what is known of that
//! beginning is not scanned again.
//!
//! A beginning is known by the hash that the journal takes of it, of whole blocks: keyed, so that nobody can make two
//! beginnings that meet in it. Without the journal there is no hash, and every body is scanned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quick_cache::unsync::Cache;

use crate::journal::Beginnings;
use crate::mark::STEM;
use crate::text::prescan::{Prescan, PrescanMark, Prescanner};

/// Known beginnings; 32 of them are a body of 1 MB.
const KNOWN: usize = 2048;

/// Of so many bytes one large value is usual, and a scan is kept. What is noted of it is then a quarter of the body at most.
const BYTES_PER_SPAN: usize = 64;

/// A body that was scanned, and how far the scan was behind each of its whole blocks.
struct KnownScan {
    prescan: Prescan,
    marks: Vec<PrescanMark>,
}

/// The scans of bodies by their beginnings.
pub(crate) struct KnownScans(Mutex<Cache<u128, Arc<KnownScan>>>);

impl Default for KnownScans {
    fn default() -> Self {
        Self(Mutex::new(Cache::new(KNOWN)))
    }
}

impl KnownScans {
    fn lock(&self) -> MutexGuard<'_, Cache<u128, Arc<KnownScan>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, hashes: &[u128], scan: KnownScan) {
        let scan = Arc::new(scan);
        let mut all = self.lock();
        for hash in hashes {
            all.insert(*hash, Arc::clone(&scan));
        }
    }
}

/// Scans one body while it arrives.
pub(super) struct BodyScanner<'a> {
    prescanner: Prescanner,
    hashed: Option<(Beginnings, &'a KnownScans)>,
    /// The scan that has all whole blocks so far, and how many these are; `None` once one was not known.
    known: Option<(Option<Arc<KnownScan>>, usize)>,
    /// How far the scan was behind each whole block.
    marks: Vec<PrescanMark>,
}

impl<'a> BodyScanner<'a> {
    pub(super) fn new(beginnings: Option<Beginnings>, scans: &'a KnownScans) -> Self {
        Self {
            prescanner: Prescanner::seeking(STEM),
            known: beginnings.is_some().then_some((None, 0)),
            hashed: beginnings.map(|beginnings| (beginnings, scans)),
            marks: Vec::new(),
        }
    }

    /// `text` is all that has arrived. While all of its whole blocks are known nothing is scanned.
    pub(super) fn read(&mut self, text: &[u8]) {
        let Some((beginnings, scans)) = &mut self.hashed else {
            return self.prescanner.read(text);
        };
        beginnings.read(text);
        if let Some((known, blocks)) = &mut self.known {
            let hashes = &beginnings.hashes()[*blocks..];
            let all = scans.lock();
            let found = hashes.iter().map_while(|hash| all.get(hash));
            for scan in found {
                *known = Some(Arc::clone(scan));
                *blocks += 1;
            }
            if *blocks == beginnings.hashes().len() {
                return;
            }
        }
        self.go_on();
        self.scan(text);
    }

    /// Goes on behind the blocks that are known.
    fn go_on(&mut self) {
        if let Some((Some(scan), blocks)) = self.known.take()
            && let Some(last) = blocks.checked_sub(1)
        {
            self.prescanner = Prescanner::behind(&scan.marks[last], &scan.prescan, STEM);
            self.marks = scan.marks[..blocks].to_vec();
        }
    }

    fn scan(&mut self, text: &[u8]) {
        let blocks = self
            .hashed
            .as_ref()
            .map_or(0, |(hashed, _)| hashed.hashes().len());
        while self.marks.len() < blocks {
            self.prescanner
                .read(&text[..(self.marks.len() + 1) * Beginnings::BLOCK]);
            self.marks.push(self.prescanner.mark());
        }
        self.prescanner.read(text);
    }

    /// Finishes the scan; `text` is the whole body.
    pub(super) fn done(mut self, text: &[u8]) -> (Prescan, Option<Beginnings>) {
        let seen = self.known.as_ref().map(|(_, blocks)| *blocks);
        self.go_on();
        let prescan = self.prescanner.done(text);
        let Some((beginnings, scans)) = self.hashed else {
            return (prescan, None);
        };
        let new = seen.is_none() && !self.marks.is_empty();
        if new && prescan.span_count() <= text.len() / BYTES_PER_SPAN {
            let scan = KnownScan {
                prescan: prescan.again(),
                marks: self.marks,
            };
            scans.keep(beginnings.hashes(), scan);
        }
        (prescan, Some(beginnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::HashKey;
    use crate::text::Span;

    /// A body of so many messages, whose last ones may be others.
    fn body(messages: usize, last: &str) -> Vec<u8> {
        let message = |n: usize| {
            let quoted = "he said \\\"[[handoff-resume:x]]\\\" and {went} on; ".repeat(1 + n % 97);
            format!(r#"{{"role":"user","content":[{{"type":"text","text":"{n} {quoted}"}}]}}"#)
        };
        let mut all: Vec<String> = (0..messages).map(message).collect();
        all.push(last.to_owned());
        let text = format!(
            r#"{{"model":"m","messages":[{}],"tools":[{{"name":"a"}}]}}"#,
            all.join(",")
        );
        text.into_bytes()
    }

    fn scanned(scans: &KnownScans, key: Option<&HashKey>, text: &[u8], piece: usize) -> (Prescan, bool) {
        let mut scanner = BodyScanner::new(key.map(Beginnings::new), scans);
        for end in (piece..text.len()).step_by(piece).chain([text.len()]) {
            scanner.read(&text[..end]);
        }
        let all_known = scanner.known.is_some();
        (scanner.done(text).0, all_known)
    }

    fn seen(prescan: &Prescan, text: &[u8]) -> (Vec<Span>, Vec<usize>, usize) {
        let words = prescan.words(Span::new(0, text.len())).unwrap().collect();
        (prescan.spans().to_vec(), words, prescan.container_count(text))
    }

    #[test]
    fn what_is_known_is_what_a_scan_would_find() {
        let (scans, key) = (KnownScans::default(), HashKey::new());
        let ends = [
            r#"{"role":"user","content":"one"}"#.to_owned(),
            format!(r#"{{"role":"user","content":"{}"}}"#, "two \\n".repeat(20_000)),
            format!(r#"{{"content":{}}}"#, "[".repeat(40_000)),
            "\"".to_owned(),
        ];
        let mut known = 0;
        for messages in [0, 40, 41, 60, 90, 60, 41, 91] {
            for end in &ends {
                let text = body(messages, end);
                for piece in [text.len(), 9_999, Beginnings::BLOCK, 100_001] {
                    let (plain, _) = scanned(&scans, None, &text, piece);
                    let (prescan, all_known) = scanned(&scans, Some(&key), &text, piece);
                    assert_eq!(seen(&prescan, &text), seen(&plain, &text), "{messages} {piece}");
                    known += usize::from(all_known && text.len() > Beginnings::BLOCK);
                }
            }
        }
        assert!(known > 60, "{known} were known");
    }

    #[test]
    fn beginnings_that_differ_are_scanned() {
        let (scans, key) = (KnownScans::default(), HashKey::new());
        let text = body(60, "{}");
        assert!(!scanned(&scans, Some(&key), &text, 50_000).1);
        assert!(scanned(&scans, Some(&key), &text, 50_000).1);
        assert!(!scanned(&scans, Some(&HashKey::new()), &text, 50_000).1);
        let mut other = text;
        other[100] ^= 1;
        assert!(!scanned(&scans, Some(&key), &other, 50_000).1);
    }
}
