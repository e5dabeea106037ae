//! A text of the model's has no mark once it is escaped, in one piece or in many; and unescaping restores it.

use baton_core::marker::escape::{Escaper, break_up};
use baton_core::marker::{MarkerKind, marks, sentinel};
use baton_core::text::{Span, json};

use super::returned::{escaped, split};

pub fn check(input: &[u8]) {
    let [length, text @ ..] = input else { return };
    let found = marks(text);
    for at in 0..found.len() {
        assert!(found[at].span.end <= text.len());
        sentinel::read(text, Span::new(0, text.len()), &found, at);
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let broken = break_up(text);
    // As raw JSON, whose line breaks are escapes, and as a text that is quoted.
    for raw in [&*broken, &json::quote(&broken)] {
        let mut left = marks(raw.as_bytes()).into_iter();
        assert!(
            left.all(|mark| matches!(mark.kind, MarkerKind::Broken(_))),
            "{raw}"
        );
    }
    let (mut down, mut up) = (Escaper::default(), Escaper::default());
    let (mut shown_whole, mut back) = (String::new(), String::new());
    for piece in split(text, *length) {
        let mut shown = escaped(&mut down, piece);
        shown_whole.push_str(&json::unescape(&shown));
        for slash in up.unescaped(&shown).into_iter().rev() {
            shown.drain(slash.start..slash.end);
        }
        back.push_str(&json::unescape(&shown));
    }
    assert_eq!(shown_whole, broken);
    assert_eq!(back, text);
}
