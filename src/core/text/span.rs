//! A range of byte offsets into a text.

use std::borrow::Cow;

/// A half-open range of byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// A span from two offsets.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The bytes it covers; empty where it lies outside.
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// The same as text of its own.
    pub fn text(self, text: &[u8]) -> String {
        lossy(self.of(text)).into_owned()
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether it covers nothing.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether `at` lies inside.
    pub fn holds(self, at: usize) -> bool {
        self.start <= at && at < self.end
    }

    /// The span with the byte before it and the one after it: a literal, from what is inside.
    pub fn outer(self) -> Self {
        Self::new(self.start - 1, self.end + 1)
    }

    /// The span without its first and last byte: inside quotes, brackets or braces.
    pub fn inner(self) -> Self {
        Self {
            start: self.start + 1,
            end: self.end.saturating_sub(1).max(self.start + 1),
        }
    }
}

/// Bytes as text; what is not UTF-8 becomes U+FFFD. The library's conversion goes byte by byte, which only broken text needs.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}
