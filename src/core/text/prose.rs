//! Prose: its sentences, its words, a line of it.

use std::ops::Range;

use memchr::memchr_iter;

use super::cut::floor;

/// The sentences of prose, code blocks left out. A line ends a sentence.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| (!piece.code).then_some(piece.text))
}

/// A sentence of prose, or a line of a code block.
pub struct TextPiece<'t> {
    pub text: &'t str,
    pub code: bool,
}

/// The sentences and the lines of code blocks, in order.
pub fn pieces(text: &str) -> impl Iterator<Item = TextPiece<'_>> {
    let mut code = false;
    let lines = text.lines().filter_map(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!fence).then_some((line, code))
    });
    let pieces = lines.flat_map(|(line, code)| {
        let parts = if code { vec![line] } else { split(line) };
        parts.into_iter().map(move |part| (part.trim(), code))
    });
    pieces
        .map(|(part, code)| TextPiece {
            text: part.trim_start_matches(['-', '*', '#', '>', ' ']),
            code,
        })
        .filter(|piece| piece.text.len() > 3)
}

fn split(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, mark) in line.match_indices(['.', '!', '?', '。', '！', '？']) {
        let end = at + mark.len();
        // Chinese and Japanese have no blank between sentences.
        let is_end = mark.len() > 1 || line[end..].starts_with(' ');
        if is_end && at > start + 2 && end < line.len() {
            out.push(&line[start..end]);
            start = end;
        }
    }
    out.push(&line[start..]);
    out
}

/// Whether a text has these words, not as a part of longer ones.
pub fn has_word(text: &str, word: &str) -> bool {
    let Some(first) = word.bytes().next() else {
        return false;
    };
    // The lists are of short words: a searcher for each takes longer to make than to use.
    let mut places = memchr_iter(first, text.as_bytes());
    places.any(|at| text[at..].starts_with(word) && is_whole_word(text, at..at + word.len()))
}

/// Whether no word goes on at either end of a place in a text.
pub(super) fn is_whole_word(text: &str, place: Range<usize>) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    !text[place.end..].starts_with(is_letter) && !text[..place.start].ends_with(is_letter)
}

/// A text on one line, at most this many bytes of it, with a mark where it was cut.
pub fn one_line(text: &str, bytes: usize) -> String {
    let mut line = String::with_capacity(bytes.min(text.len()) + 4);
    for word in text.split_whitespace() {
        if line.len() > bytes {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.len() > bytes {
        let end = cut(&line, bytes).len();
        line.truncate(end);
        line.push('…');
    }
    line
}

/// A text in one line: every run of whitespace is one blank.
pub fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What follows the mark of a list: `- text`, `1. text`, `2) text`.
pub fn list_item(line: &str) -> Option<&str> {
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match after.len() < line.len() {
        true => after.strip_prefix(['.', ')'])?,
        false => line.strip_prefix(['-', '*', '+', '•'])?,
    };
    Some(rest.strip_prefix([' ', '\t'])?.trim_start())
}

/// A text without one of these in front of it.
pub fn without_any<'t>(text: &'t str, prefixes: &[&str]) -> &'t str {
    prefixes
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text)
}

/// At most this many bytes of a line, cut between words where one is near.
pub fn cut(line: &str, bytes: usize) -> &str {
    if line.len() <= bytes {
        return line;
    }
    let end = floor(line, bytes);
    let blank = line[..end].rfind(' ').filter(|at| at * 10 > end * 7);
    line[..blank.unwrap_or(end)].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_prose() {
        let text = "We use v1.2 here. Never push!\n```\nmust not count.\n```\n- And this";
        let all: Vec<_> = sentences(text).collect();
        assert_eq!(all, ["We use v1.2 here.", "Never push!", "And this"]);
        assert_eq!(one_line("a\n b  c", 40), "a b c");
        assert_eq!(one_line("alpha beta gamma", 12), "alpha beta…");
    }
}
