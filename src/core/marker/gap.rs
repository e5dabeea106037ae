//! Line breaks around a marker.

use crate::text::scan::escaped;

/// Line breaks that are streamed before and after a sentinel.
const GAP: &str = "\n\n";

/// Returns a sentinel or an aside with its line breaks, as streamed inside other text.
pub fn spaced(mark: &str) -> String {
    format!("{GAP}{mark}{GAP}")
}

/// Skips at most the two line breaks that were streamed after a marker.
pub fn after(text: &[u8], from: usize, end: usize) -> usize {
    let mut at = from;
    // Blanks that an agent left on the marker's line.
    while at < end && text[at] == b' ' {
        at += 1;
    }
    for _ in 0..GAP.len() {
        if text[at..end].starts_with(b"\\n") {
            at += 2;
        }
    }
    at
}

/// Skips, backward from `to`, at most the two line breaks that were streamed before a marker.
pub fn before(text: &[u8], start: usize, to: usize) -> usize {
    let mut at = to;
    for _ in 0..GAP.len() {
        if at >= start + 2 && &text[at - 2..at] == b"\\n" && !escaped(text, at - 2) {
            at -= 2;
        }
    }
    at
}
