//! The line that marks an answer of baton's own: the model sees neither that answer nor its question.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// Characters of an id in base64url without padding.
const SHORT_ID_CHARS: usize = 22;

/// The note's line: `[[handoff-note:]]`, or with the short id of the handoff that an undo names; nil names none.
///
/// Plain text, since agents drop or escape HTML comments. Seventeen characters, since a user reads the line after each answer.
pub fn line(undone: Uuid) -> String {
    match undone.is_nil() {
        true => "[[handoff-note:]]".to_owned(),
        false => format!("[[handoff-note:{}]]", URL_SAFE_NO_PAD.encode(undone)),
    }
}

/// The id in a note's line, from `at` on, with its end. A whole id counts as well as a short one.
pub(super) fn id_at(text: &[u8], at: usize) -> Option<(Uuid, usize)> {
    let chars = memchr::memmem::find(text.get(at..text.len().min(at + Hyphenated::LENGTH + 2))?, b"]]")?;
    let id = &text[at..at + chars];
    let id = match chars {
        0 => Uuid::nil(),
        SHORT_ID_CHARS => Uuid::from_slice(&URL_SAFE_NO_PAD.decode(id).ok()?).ok()?,
        _ => Uuid::try_parse_ascii(id).ok()?,
    };
    Some((id, at + chars))
}

/// Prefix of every answer, at the start of a line. It shows where an answer begins that was joined to other text.
pub const BEGINS: &str = "baton: ";

/// An answer of baton's own with this text. `undone`: the handoff that it undoes, or nil.
pub fn answer(text: &str, undone: Uuid) -> String {
    format!("{BEGINS}{text}\n\n{}", line(undone))
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
    use crate::marker::{MarkerKind, marks};
    use crate::text::json;

    #[test]
    fn a_note_is_short_and_its_id_is_read_back() {
        let id = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
        assert_eq!(line(Uuid::nil()), "[[handoff-note:]]");
        assert_eq!(line(id), "[[handoff-note:AZmjwn0efDqbHy9vDJ2OEQ]]");
        let read = |line: &str| {
            let found = marks(json::quote(line).as_bytes());
            found.first().map(|mark| (found.len(), mark.kind.clone()))
        };
        for id in [Uuid::nil(), id] {
            assert_eq!(read(&line(id)), Some((1, MarkerKind::Note(id))));
        }
        assert_eq!(
            read(&format!("[[handoff-note:{id}]]")),
            Some((1, MarkerKind::Note(id)))
        );
        for other in [
            "[[handoff-note:x]]",
            "[[handoff-note:AZmjwn0efDqbHy9vDJ2OE!]]",
            "[[handoff-note:",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

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
