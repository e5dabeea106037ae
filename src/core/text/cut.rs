//! Cutting texts between two characters.

/// The place at or before `at` where a character begins, or the text's end.
pub fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The place at or after `at` where a character begins, or the text's end.
pub fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// At most this many bytes of a text.
pub fn cut(text: &str, bytes: usize) -> &str {
    &text[..floor(text, bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "aü";
        assert_eq!(
            (0..5).map(|at| floor(text, at)).collect::<Vec<_>>(),
            [0, 1, 1, 3, 3]
        );
        assert_eq!(
            (0..5).map(|at| ceil(text, at)).collect::<Vec<_>>(),
            [0, 1, 3, 3, 3]
        );
        assert_eq!((cut(text, 2), cut(text, 9)), ("a", text));
    }
}
