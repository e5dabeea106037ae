//! Shortens strings at character boundaries.

/// The last character boundary at or before `at`.
pub fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The first character boundary at or after `at`, or the end of the string.
pub fn ceil(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// At most the first `bytes` bytes of a string.
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
