//! Edits of a body that leave every other byte unchanged.
//!
//! The result is a rope: slices of the original body with new pieces between them. Unchanged bytes are not
//! copied.

use bytes::Bytes;

use crate::text::{Span, cost};

/// Replaces the bytes of `span` by `with`. An empty span inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Bytes to replace.
    pub span: Span,
    /// Replacement.
    pub with: Bytes,
}

impl Edit {
    /// Replaces `span`.
    pub fn replace(span: Span, with: impl Into<Bytes>) -> Self {
        Self {
            span,
            with: with.into(),
        }
    }

    /// Inserts at `at`.
    pub fn insert(at: usize, with: impl Into<Bytes>) -> Self {
        Self::replace(Span::new(at, at), with)
    }

    /// Deletes `span`.
    pub fn delete(span: Span) -> Self {
        Self::replace(span, Bytes::new())
    }
}

/// Applies edits to `body`, in any order.
///
/// Insertions at the same offset keep their order. An edit that overlaps an earlier one is dropped, so that a
/// wide deletion wins over edits inside it.
pub fn splice(body: &Bytes, edits: Vec<Edit>) -> Vec<Bytes> {
    let mut rope = Rope::new(body.clone());
    rope.splice(Span::new(0, body.len()), edits);
    rope.done()
}

/// Slices of a body with other pieces between them. Adjacent slices are merged.
pub struct Rope {
    body: Bytes,
    /// The last slice, which later bytes may extend.
    kept: Span,
    pieces: Vec<Bytes>,
}

impl Rope {
    pub fn new(body: Bytes) -> Self {
        Self {
            body,
            kept: Span::default(),
            pieces: Vec::new(),
        }
    }

    /// Appends bytes of the body.
    pub fn keep(&mut self, span: Span) {
        // Adjacent bytes extend the last slice, so that the rope stays short.
        if self.kept.end == span.start {
            self.kept.end = span.end.max(span.start);
        } else if !span.is_empty() {
            self.end_slice();
            self.kept = span;
        }
    }

    /// Appends a piece that is not part of the body.
    pub fn add(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.end_slice();
            self.pieces.push(piece);
        }
    }

    /// Appends bytes of the body, after applying those of the edits that lie in them.
    pub fn splice(&mut self, span: Span, mut edits: Vec<Edit>) {
        // At the same offset, insertions precede replacements, and wider replacements precede narrower ones.
        edits.sort_by_key(|e| (e.span.start, !e.span.is_empty(), std::cmp::Reverse(e.span.end)));
        cost::add(edits.len());
        let mut at = span.start;
        for edit in edits {
            if edit.span.start < at || edit.span.end > span.end {
                continue;
            }
            self.keep(Span::new(at, edit.span.start));
            self.add(edit.with);
            at = edit.span.end;
        }
        self.keep(Span::new(at, span.end));
    }

    fn end_slice(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() {
            self.pieces.push(self.body.slice(kept.start..kept.end));
        }
    }

    /// Returns the slices and pieces in order.
    pub fn done(mut self) -> Vec<Bytes> {
        self.end_slice();
        self.pieces
    }
}

/// Applies edits and returns one buffer.
pub fn edited(body: &Bytes, edits: Vec<Edit>) -> Bytes {
    flat(splice(body, edits))
}

/// Length of a rope in bytes.
pub fn len(rope: &[Bytes]) -> usize {
    rope.iter().map(Bytes::len).sum()
}

/// Joins a rope into one buffer, without a copy if it already is one.
pub fn flat(rope: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(rope) {
        Ok([only]) => only,
        Err(rope) => {
            cost::add(len(&rope));
            rope.concat().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(body: &'static str, edits: Vec<Edit>) -> Vec<u8> {
        splice(&Bytes::from_static(body.as_bytes()), edits).concat()
    }

    #[test]
    fn no_edit_is_the_same_slice() {
        let body = Bytes::from_static(b"abc");
        let rope = splice(&body, vec![]);
        assert_eq!(rope.len(), 1);
        assert_eq!(rope[0].as_ptr(), body.as_ptr());
    }

    #[test]
    fn edits_apply_in_order_of_place() {
        let edits = vec![
            Edit::insert(6, "!"),
            Edit::replace(Span::new(0, 1), "A"),
            Edit::delete(Span::new(2, 4)),
            Edit::insert(6, "?"),
        ];
        assert_eq!(spliced("abcdef", edits), b"Abef!?");
    }

    #[test]
    fn a_wide_cut_wins_over_edits_inside_it() {
        let edits = vec![Edit::replace(Span::new(1, 5), "_"), Edit::delete(Span::new(2, 3))];
        assert_eq!(spliced("abcdef", edits), b"a_f");
    }

    #[test]
    fn an_insertion_at_a_cut_goes_before_it() {
        let edits = vec![
            Edit::replace(Span::new(2, 4), "X"),
            Edit::insert(2, "i"),
            Edit::insert(4, "j"),
        ];
        assert_eq!(spliced("abcdef", edits), b"abiXjef");
    }
}
