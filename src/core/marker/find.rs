//! Finds markers in raw JSON by their bytes, because no JSON encoder escapes any of their characters.

use memchr::memmem;
use uuid::Uuid;

use super::note;
use super::seal::{SEAL_CHARS, is_seal};
use crate::text::scan::escaped;
use crate::text::{Span, cost};

/// Length of an id, in characters.
pub(super) const ID_CHARS: usize = 36;

/// A marker in raw JSON: a sentinel's line, an aside, a note, or escaped text that looks like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMarker {
    /// Span from the first bracket to the last.
    pub span: Span,
    pub kind: MarkerKind,
}

/// Kind of a marker, with the id or the span that it contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkerKind {
    /// Opening line of a sentinel.
    Open(Uuid),
    /// Closing line of a sentinel. Contains the span of its seal.
    Close(Span),
    /// Line of an aside.
    Aside(Uuid),
    /// Line of a note. Contains the handoff that it undoes, or nil. The [progress line](note::PROGRESS) is a
    /// reply and its note in one.
    Note(Uuid),
    /// Escaped text from a model. Contains the span of the backslash to remove.
    Broken(Span),
}

const RESUME: &[u8] = b"resume";
const ASIDE: &[u8] = b"aside";
const NOTE: &[u8] = b"note";

/// Words that follow the stem.
const WORDS: [&[u8]; 3] = [RESUME, ASIDE, NOTE];

/// Stem of every marker.
pub(crate) const STEM: &[u8] = b"handoff-";

/// Finds all markers in `text`, in order. Except for escaped ones, they must be whole lines.
pub fn marks(text: &[u8]) -> Vec<RawMarker> {
    marks_in(text, Span::new(0, text.len()), &stems(text)).0
}

/// Word that stems and progress lines share, so that one search finds both.
pub(crate) const WORD: &[u8] = b"handoff";

/// Offset of that word in a progress line.
const WORD_IN_PROGRESS: usize = 22;

/// Offsets of all stems and progress lines in `text`, in order.
pub fn stems(text: &[u8]) -> Vec<usize> {
    let words = memmem::find_iter(text, WORD);
    words.filter_map(|word| stem_at(text, word)).collect()
}

/// Offset of the stem or the progress line that has its [`WORD`] at `word`.
pub(crate) fn stem_at(text: &[u8], word: usize) -> Option<usize> {
    if text[word..].starts_with(STEM) {
        return Some(word);
    }
    let start = word.checked_sub(WORD_IN_PROGRESS)?;
    let is_progress = text[start..].starts_with(note::PROGRESS.as_bytes());
    is_progress.then_some(start)
}

/// Finds the markers within `span`, given the [`stems`] of the whole text. Also returns the stems there that
/// do not belong to a marker.
pub(crate) fn marks_in(text: &[u8], span: Span, stems: &[usize]) -> (Vec<RawMarker>, Vec<usize>) {
    let (mut marks, mut others) = (Vec::new(), Vec::new());
    for &stem in stems.iter().filter(|stem| span.holds(**stem)) {
        cost::add(1);
        match mark_at(&text[..span.end], stem) {
            Some(mark) => marks.push(mark),
            None if text[stem..].starts_with(STEM) => others.push(stem),
            None => {}
        }
    }
    (marks, others)
}

fn mark_at(text: &[u8], stem: usize) -> Option<RawMarker> {
    if text[stem..].starts_with(note::PROGRESS.as_bytes()) {
        let span = Span::new(stem, stem + note::PROGRESS.len());
        let kind = MarkerKind::Note(Uuid::nil());
        return whole_line(text, span).then_some(RawMarker { span, kind });
    }
    let before = text.get(..stem)?;
    let closing = before.ends_with(b"[[/");
    if !closing && !before.ends_with(b"[[") {
        return None;
    }
    let start = stem - if closing { 3 } else { 2 };
    let rest = text.get(stem + STEM.len()..)?;
    let word = WORDS.iter().position(|word| rest.starts_with(word))?;
    let colon = stem + STEM.len() + WORDS[word].len();
    // Escaped text only looks like a marker.
    if text.get(colon) == Some(&b'\\') {
        return broken_at(text, start, colon);
    }
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let id = || id_at(text, colon + 1);
    let (kind, end) = match (WORDS[word], closing) {
        (RESUME, true) => {
            let seal = seal_at(text, colon + 1)?;
            (MarkerKind::Close(seal), seal.end)
        }
        (RESUME, false) => (MarkerKind::Open(id()?), colon + 1 + ID_CHARS),
        (ASIDE, false) => (MarkerKind::Aside(id()?), colon + 1 + ID_CHARS),
        (NOTE, false) => {
            let (id, end) = note::id_at(text, colon + 1)?;
            (MarkerKind::Note(id), end)
        }
        _ => return None,
    };
    let span = Span::new(start, end + 2);
    (text.get(end..end + 2) == Some(b"]]") && whole_line(text, span)).then_some(RawMarker { span, kind })
}

fn id_at(text: &[u8], at: usize) -> Option<Uuid> {
    Uuid::try_parse_ascii(text.get(at..at + ID_CHARS)?).ok()
}

/// Span of the seal that begins at `at` in a closing line.
fn seal_at(text: &[u8], at: usize) -> Option<Span> {
    let seal = Span::new(at, at + SEAL_CHARS);
    is_seal(text.get(seal.start..seal.end)?).then_some(seal)
}

/// End of a closing line whose seal begins at `at`.
pub(crate) fn closing_end(text: &[u8], at: usize) -> Option<usize> {
    let end = seal_at(text, at)?.end;
    (text.get(end..end + 2) == Some(b"]]")).then_some(end + 2)
}

/// Matches `[[handoff-resume\\:` with any number of escaped backslashes. The last one is the one to remove.
fn broken_at(text: &[u8], start: usize, from: usize) -> Option<RawMarker> {
    let mut at = from;
    while text.get(at..at + 2) == Some(br"\\") {
        at += 2;
    }
    (at > from && text.get(at) == Some(&b':')).then(|| RawMarker {
        span: Span::new(start, at + 1),
        kind: MarkerKind::Broken(Span::new(at - 2, at)),
    })
}

/// Whether a marker fills its line: except for blanks, both sides are line breaks or the ends of the string.
fn whole_line(text: &[u8], span: Span) -> bool {
    let blanks = |bytes: &[u8]| bytes.iter().take_while(|b| **b == b' ').count();
    let before = text[..span.start].iter().rev();
    let leading = before.take_while(|b| **b == b' ').count();
    let before = &text[..span.start - leading];
    // A quote or `\n` that is itself escaped is text, and not an end.
    let starts = before.ends_with(b"\"") && !escaped(before, before.len() - 1)
        // In a flattened transcript, the first line of a message follows its heading.
        || leading == 1 && before.ends_with(b"]:")
        || (before.ends_with(b"\\n") || before.ends_with(b"\\r")) && !escaped(before, before.len() - 2);
    let after = &text[span.end..];
    let after = &after[blanks(after)..];
    starts && (after.starts_with(b"\"") || after.starts_with(b"\\n") || after.starts_with(b"\\r"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::sentinel::opening;
    use crate::text::json;

    const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);

    #[test]
    fn a_mark_inside_a_line_is_none() {
        for text in [
            format!("see {} there", opening(ID)),
            format!("x{}", opening(ID)),
            format!("{}x", opening(ID)),
            format!("a\\n{}\n", opening(ID)),
            format!("> {}", opening(ID)),
        ] {
            assert_eq!(marks(json::quote(&text).as_bytes()), vec![], "{text}");
        }
        assert_eq!(
            marks(json::quote(&format!("  {}  \nx", opening(ID))).as_bytes()).len(),
            1
        );
    }

    #[test]
    fn the_progress_line_is_a_note_if_it_is_a_whole_line() {
        for (text, found) in [
            (format!("{}\n\nbaton: handed over.", note::PROGRESS), 1),
            (format!("[Assistant]: {}", note::PROGRESS), 1),
            (format!("It printed `{}`", note::PROGRESS), 0),
            (format!("{} So it said.", note::PROGRESS), 0),
        ] {
            let text = json::quote(&text).into_bytes();
            let (marks, others) = marks_in(&text, Span::new(0, text.len()), &stems(&text));
            assert_eq!((marks.len(), others.len()), (found, 0), "{text:?}");
        }
    }

    #[test]
    fn broken_up_text_is_found_with_the_backslash_to_take_out() {
        let text = json::quote("log says [[handoff-resume\\:0199 and [[/handoff-aside\\\\:").into_bytes();
        let broken: Vec<_> = marks(&text);
        assert_eq!(broken.len(), 2);
        for mark in broken {
            let MarkerKind::Broken(slash) = mark.kind else {
                panic!("{mark:?}")
            };
            assert_eq!(slash.of(&text), br"\\");
        }
    }
}
