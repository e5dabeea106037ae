//! Ranges of byte offsets.

use std::borrow::Cow;

/// A half-open range of byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Creates a span from two offsets.
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Bytes of the span, or an empty slice if it is out of bounds.
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// Bytes of the span as an owned string.
    pub fn text(self, text: &[u8]) -> String {
        lossy(self.of(text)).into_owned()
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether `at` lies inside.
    pub fn holds(self, at: usize) -> bool {
        self.start <= at && at < self.end
    }

    /// Extends the span by one byte on each side: from the inside of a literal to the literal.
    pub fn outer(self) -> Self {
        Self::new(self.start - 1, self.end + 1)
    }

    /// Drops the first and last byte, such as quotes, brackets or braces.
    pub fn inner(self) -> Self {
        Self {
            start: self.start + 1,
            end: self.end.saturating_sub(1).max(self.start + 1),
        }
    }
}

/// Converts bytes to a string. Invalid UTF-8 becomes U+FFFD.
///
/// Validates first, because the standard library's lossy conversion is slower and only invalid input needs
/// it.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}
