//! The line that marks an answer of baton's own: the model sees neither that answer nor its question.

use uuid::Uuid;

/// The note's line. That of an undo has the id of the handoff that is undone.
pub fn line(id: Uuid) -> String {
    format!("[[handoff-note:{id}]]")
}

/// Prefix of every answer, at the start of a line. It shows where an answer begins that was joined to other text.
pub const BEGINS: &str = "baton: ";

/// An answer of baton's own with this text.
pub fn answer(text: &str, id: Uuid) -> String {
    format!("{BEGINS}{text}\n\n{}", line(id))
}

/// What [`BEGINS`] begins with, up to where quoted text is escaped.
const WORD: &str = "baton";

/// Text inside an answer of ours: nothing in it is taken for a mark or for an answer's prefix.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '[' && out.ends_with('[') || c == ':' && out.ends_with(WORD) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::marks;
    use crate::text::json;

    #[test]
    fn quoted_text_holds_no_mark_and_no_beginning() {
        let note = line(Uuid::from_u128(7));
        let text = format!("é[[[\n{note}\nbaton: bbaton: batonbaton:");
        let whole = quoted(&text);
        assert!(!whole.contains(BEGINS) && !whole.contains("[["), "{whole}");
        assert_eq!(whole.replace(' ', ""), text.replace(' ', ""));
        assert!(marks(json::quote(&whole).as_bytes()).is_empty(), "{whole}");
    }
}
