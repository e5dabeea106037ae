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

/// The line in front of a draft's text that is shown while it is written. The model never sees this line, the text, or
/// anything up to the note with its id. Without that note (the answer broke off) it does not see the rest of that text.
pub fn draft_line(id: Uuid) -> String {
    format!("[[handoff-draft:{id}]]")
}

/// What [`BEGINS`] begins with, up to where quoted text is escaped.
const WORD: &[u8] = b"baton";

/// Quotes text inside an answer of ours, piece by piece: nothing in it is taken for a mark or for an answer's prefix.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quoter {
    /// Bytes of [`WORD`] that the text ended with so far.
    word: usize,
    /// Whether it ended with a bracket.
    bracket: bool,
}

impl Quoter {
    /// The next piece, quoted.
    pub fn follow(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for c in piece.chars() {
            if c == '[' && self.bracket || c == ':' && self.word == WORD.len() {
                out.push(' ');
            }
            self.bracket = c == '[';
            self.word = match WORD.get(self.word) {
                Some(next) if c == char::from(*next) => self.word + 1,
                _ => usize::from(c == 'b'),
            };
            out.push(c);
        }
        out
    }
}

/// A whole text, quoted.
pub fn quoted(text: &str) -> String {
    Quoter::default().follow(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::marks;
    use crate::text::json;

    #[test]
    fn quoted_text_holds_no_mark_and_no_beginning_however_it_is_split() {
        let id = Uuid::from_u128(7);
        let text = format!(
            "é[[[\n{}\n{}\nbaton: bbaton: batonbaton:",
            line(id),
            draft_line(id)
        );
        let whole = quoted(&text);
        assert!(!whole.contains(BEGINS) && !whole.contains("[["), "{whole}");
        assert_eq!(whole.replace(' ', ""), text.replace(' ', ""));
        assert!(marks(json::quote(&whole).as_bytes()).is_empty(), "{whole}");
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let mut quoter = Quoter::default();
            let both = [quoter.follow(&text[..at]), quoter.follow(&text[at..])].concat();
            assert_eq!(both, whole, "split at {at}");
        }
    }
}
