//! A text of the model's has no mark once it is escaped, in one piece or in many; and unescaping restores it.

use baton_core::marker::escape::{Escaper, break_up};
use baton_core::marker::{MarkerKind, marks, sentinel};
use baton_core::text::{Span, json};

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
    let left = marks(broken.as_bytes());
    assert!(
        left.iter().all(|mark| matches!(mark.kind, MarkerKind::Broken(_))),
        "{broken}"
    );
    let (mut down, mut up) = (Escaper::default(), Escaper::default());
    let (mut shown_whole, mut back) = (String::new(), String::new());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary(1 + usize::from(*length));
        let (piece, after) = rest.split_at(end);
        rest = after;
        let quoted = json::quote(piece);
        let raw = &quoted.as_bytes()[1..quoted.len() - 1];
        let mut shown = raw.to_vec();
        for at in down.follow(raw).into_iter().rev() {
            shown.splice(at..at, *br"\\");
        }
        shown_whole.push_str(&json::unescape(&shown));
        for slash in up.unescaped(&shown).into_iter().rev() {
            shown.drain(slash.start..slash.end);
        }
        back.push_str(&json::unescape(&shown));
    }
    assert_eq!(shown_whole, broken);
    assert_eq!(back, text);
}
