//! Marker of a synthetic response. The model sees neither that response nor the message that caused it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::text::visible::without_controls;

/// Length of an id in base64url without padding, in characters.
const SHORT_ID_CHARS: usize = 22;

/// Formats the line of a note: `[[handoff-note:]]`, or with the short id of the handoff that an undo names.
/// Nil stands for none.
///
/// The line is plain text, because agents drop or escape HTML comments. It has only seventeen characters,
/// because the user reads it after each response.
pub fn line(undone: Uuid) -> String {
    match undone.is_nil() {
        true => "[[handoff-note:]]".to_owned(),
        false => format!("[[handoff-note:{}]]", URL_SAFE_NO_PAD.encode(undone)),
    }
}

/// Parses the id in a note's line, beginning at `at`. Returns it with its end. Both short and full ids are
/// valid.
pub(super) fn id_at(text: &[u8], at: usize) -> Option<(Uuid, usize)> {
    // Limited to the longest id, so that a line without an end costs no search through the whole body.
    let chars = memchr::memmem::find(text.get(at..text.len().min(at + Hyphenated::LENGTH + 2))?, b"]]")?;
    let id = &text[at..at + chars];
    let id = match chars {
        0 => Uuid::nil(),
        SHORT_ID_CHARS => Uuid::from_slice(&URL_SAFE_NO_PAD.decode(id).ok()?).ok()?,
        _ => Uuid::try_parse_ascii(id).ok()?,
    };
    Some((id, at + chars))
}

/// Prefix of every synthetic response, at the start of a line. It shows where such a response begins after an
/// agent has joined it to other text.
pub const BEGINS: &str = "baton: ";

/// Progress line while a model writes a draft.
///
/// The line is a marker itself, since a response may be interrupted right after it. Its second colon is the one that
/// [`break_up`](super::escape::break_up) escapes.
pub const PROGRESS: &str = "baton: please wait: a handoff is being written.";

/// Formats a synthetic response. `undone` is the handoff that it undoes, or nil.
///
/// Text of files, models and users in it cannot act on a terminal.
pub fn answer(text: &str, undone: Uuid) -> String {
    let text = without_controls(text);
    format!("{BEGINS}{text}\n\n{}", line(undone))
}

/// First word of [`BEGINS`], up to the character that [`quoted`] escapes.
const WORD: &str = "baton";

/// Escapes text inside a synthetic response, so that nothing in it counts as a marker or as a response's
/// prefix.
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
    fn nothing_in_a_response_acts_on_a_terminal() {
        let shown = answer("pinned: a\u{1b}[2J\u{1b}]52;c;eA==\u{7}\nb", Uuid::nil());
        assert!(shown.starts_with("baton: pinned: a\\u{1b}[2J"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown}");
    }

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
