//! Sentences, words and lines of prose.

use std::ops::Range;

use memchr::memchr_iter;

use super::cut::floor;
use super::han::simplified;

/// Sentences of prose, without code blocks. A line break ends a sentence.
pub fn sentences(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| (!piece.code).then_some(piece.text))
}

/// A sentence of prose, or a line of a code block.
pub struct TextPiece<'t> {
    pub text: &'t str,
    pub code: bool,
}

/// Sentences and lines of code blocks, in order.
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
            text: without_markers(part),
            code,
        })
        // Shorter pieces are remains of list markers and abbreviations.
        .filter(|piece| piece.text.len() > 3)
}

/// A line without the markers of lists, headings and quotations before it. `#42`, `--all` and `*.tmp` begin with none.
pub fn without_markers(line: &str) -> &str {
    let mut rest = line;
    while let Some(marker) = rest
        .chars()
        .next()
        .filter(|c| matches!(c, '-' | '*' | '•' | '#' | '>' | ' '))
    {
        let after = rest.trim_start_matches(marker);
        let is_single = rest.len() - after.len() == marker.len_utf8();
        let is_word = match marker {
            '#' => !after.is_empty() && !after.starts_with(' '),
            '-' => !is_single && after.starts_with(char::is_alphanumeric),
            '*' => is_single && after.starts_with(['.', '/']),
            _ => false,
        };
        if is_word {
            break;
        }
        rest = after;
    }
    rest
}

fn split(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, mark) in line.match_indices(['.', '!', '?', '。', '！', '？']) {
        let end = at + mark.len();
        // Chinese and Japanese have no space between sentences.
        let is_end = mark.len() > 1 || line[end..].starts_with(' ');
        // "It works...does it?" has two sentences.
        let is_end = is_end || line[..end].ends_with("...") && line[end..].starts_with(char::is_alphabetic);
        // Initials, list numbers and abbreviations do not end a sentence.
        let mut short = ["e.g.", "i.e.", "vs.", "cf.", "z.B.", "d.h."].iter();
        // `… etc. Then stop` has two sentences.
        let goes_on =
            line[..end].ends_with("etc.") && line[end..].trim_start().starts_with(char::is_lowercase);
        let is_short = goes_on || short.any(|word| line[..end].ends_with(word));
        if is_end && !is_short && at > start + 2 && end < line.len() {
            out.push(&line[start..end]);
            start = end;
        }
    }
    out.push(&line[start..]);
    out
}

/// A string in lower case with straight apostrophes and simplified Chinese characters, as the tables of words have them.
pub fn lower(text: &str) -> String {
    let small = simplified(text).to_lowercase();
    match small.contains('’') {
        true => small.replace('’', "'"),
        false => small,
    }
}

/// Whether a model's sentence ends with a question mark, perhaps within its formatting.
pub fn ends_with_question(sentence: &str) -> bool {
    sentence
        .trim_end_matches(['*', '_', ')', '"', ' '])
        .ends_with(['?', '？'])
}

/// Whether a string contains `word` as whole words.
pub fn has_word(text: &str, word: &str) -> bool {
    let Some(first) = word.bytes().next() else {
        return false;
    };
    // For lists of short words, building a searcher for each takes longer than using it.
    let mut places = memchr_iter(first, text.as_bytes());
    places.any(|at| text[at..].starts_with(word) && is_whole_word(text, at..at + word.len()))
}

/// Whether a range of a string is bounded by non-word characters.
fn is_whole_word(text: &str, place: Range<usize>) -> bool {
    !text[place.end..].starts_with(is_letter) && !text[..place.start].ends_with(is_letter)
}

/// Whether a character belongs to a word.
pub(super) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether a letter belongs to a script that writes words without spaces, or with their endings: Chinese, Japanese, Korean,
/// Thai.
pub fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Whether a string contains a path, or the end of one, and not only as a part of another name.
pub fn has_path(text: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(path).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + path.len()..]);
        !before.ends_with(|c| is_part(c) || c == '.') && !after.trim_start_matches('.').starts_with(is_part)
    })
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Puts a string on one line of at most `bytes` bytes, with `…` if it was cut.
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

/// Puts a string on one line: each run of whitespace becomes one space.
pub fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Number of lines, as `str::lines` divides a string.
pub fn count_lines(text: &str) -> usize {
    let breaks = memchr_iter(b'\n', text.as_bytes()).count();
    breaks + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Text after a list marker: `- text`, `1. text`, `2) text`.
pub fn list_item(line: &str) -> Option<&str> {
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = match after.len() < line.len() {
        true => after.strip_prefix(['.', ')'])?,
        false => line.strip_prefix(['-', '*', '+', '•'])?,
    };
    Some(rest.strip_prefix([' ', '\t'])?.trim_start())
}

/// Removes the first matching prefix from a string.
pub fn without_any<'t>(text: &'t str, prefixes: &[&str]) -> &'t str {
    let mut rests = prefixes.iter().filter_map(|prefix| text.strip_prefix(prefix));
    rests.next().unwrap_or(text)
}

/// At most `bytes` bytes of a line, cut at a space if one is near the limit.
pub fn cut(line: &str, bytes: usize) -> &str {
    if line.len() <= bytes {
        return line;
    }
    let end = floor(line, bytes);
    // Only in the last third: cutting earlier would lose more text than a broken word costs.
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
        let all: Vec<_> = sentences("Use tabs etc. in all files etc. Stop.").collect();
        assert_eq!(all, ["Use tabs etc. in all files etc.", "Stop."]);
        let text = "#42 is open. #43 is not.\n## Title\n- --all is slow.\n*.tmp is ours.\n> - *Never* push.";
        let all: Vec<_> = sentences(text).collect();
        assert_eq!(
            all,
            [
                "#42 is open.",
                "#43 is not.",
                "Title",
                "--all is slow.",
                "*.tmp is ours.",
                "Never* push."
            ]
        );
        assert_eq!(one_line("a\n b  c", 40), "a b c");
        assert_eq!(one_line("alpha beta gamma", 12), "alpha beta…");
    }
}
