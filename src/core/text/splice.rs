//! Edits on a body that leave every other byte unchanged.
//!
//! The result is a rope: slices of the original body, with the new pieces between them. Kept bytes are not copied.

use bytes::Bytes;

use crate::text::Span;
use crate::text::cost;

/// Replaces the bytes of `span` by `with`. An empty span inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The bytes to replace.
    pub span: Span,
    /// Their replacement.
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

/// Applies edits to `body`, in any order. Insertions at the same offset keep their order; an edit that overlaps an
/// earlier one is dropped, so that a wide cut wins over edits inside it.
pub fn splice(body: &Bytes, mut edits: Vec<Edit>) -> Vec<Bytes> {
    edits.sort_by_key(|e| (e.span.start, std::cmp::Reverse(e.span.end)));
    // An insertion at the offset where a replacement begins goes before it.
    edits.sort_by_key(|e| (e.span.start, !e.span.is_empty()));
    cost::add(edits.len());
    let mut rope = Vec::with_capacity(edits.len() * 2 + 1);
    let mut at = 0;
    for edit in edits {
        if edit.span.start < at || edit.span.end > body.len() {
            continue;
        }
        push(&mut rope, body.slice(at..edit.span.start));
        push(&mut rope, edit.with);
        at = edit.span.end;
    }
    push(&mut rope, body.slice(at..));
    rope
}

fn push(rope: &mut Vec<Bytes>, piece: Bytes) {
    if !piece.is_empty() {
        rope.push(piece);
    }
}

/// The body with these edits, as one piece of text.
pub fn edited(body: &Bytes, edits: Vec<Edit>) -> Bytes {
    flat(splice(body, edits))
}

/// Length of a rope in bytes.
pub fn len(rope: &[Bytes]) -> usize {
    rope.iter().map(Bytes::len).sum()
}

/// A rope as one piece of text; no copy where it already is one.
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
