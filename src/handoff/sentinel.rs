//! The text that stands in the agent's transcript where a handoff happened.
//!
//! ```text
//! [[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]
//! …the carry-over prompt, as it is…
//! [[/handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11.SEAL]]
//! ```
//!
//! A mark is found in raw JSON, by its own bytes: no JSON encoder escapes any of them. Where it counts (whose
//! text it stands in, whether its id is known) is decided by the plan.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use memchr::memmem;
use sha2::Sha256;
use uuid::Uuid;

use super::breaker;
use crate::json::{self, Span};

/// Bytes of the HMAC that make a seal: 128 bits.
const SEAL_BYTES: usize = 16;
/// Characters of a seal in base64url without padding.
const SEAL_CHARS: usize = 22;
/// Characters of an id.
const ID_CHARS: usize = 36;
/// Line breaks streamed before and behind a sentinel.
const GAP: &str = "\n\n";

/// The key of the seals.
#[derive(Clone)]
pub struct SealKey(Vec<u8>);

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}

impl SealKey {
    /// A key from its bytes; any length will do for HMAC.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    fn mac(&self, id: Uuid, prompt: &str) -> Hmac<Sha256> {
        // HMAC takes keys of every length, so the empty fallback is never used.
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| Hmac::new(&Default::default()));
        mac.update(id.hyphenated().to_string().as_bytes());
        mac.update(b"\n");
        mac.update(prompt.as_bytes());
        mac
    }

    /// The seal over an id and its prompt.
    pub fn seal(&self, id: Uuid, prompt: &str) -> String {
        URL_SAFE_NO_PAD.encode(&self.mac(id, prompt).finalize().into_bytes()[..SEAL_BYTES])
    }

    /// Whether `seal` is the one over this id and prompt; compared in constant time.
    pub fn verifies(&self, id: Uuid, prompt: &str, seal: &[u8]) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(seal) else {
            return false;
        };
        bytes.len() == SEAL_BYTES && self.mac(id, prompt).verify_truncated_left(&bytes).is_ok()
    }
}

/// The sentinel with its prompt and its seal, without the surrounding line breaks.
pub fn full(id: Uuid, prompt: &str, key: &SealKey) -> String {
    let seal = key.seal(id, prompt);
    format!("[[handoff-resume:{id}]]\n{prompt}\n[[/handoff-resume:{id}.{seal}]]")
}

/// The sentinel's opening line alone (`handoff.transcript = "sentinel"`, and what a person pastes to resume).
pub fn short(id: Uuid) -> String {
    format!("[[handoff-resume:{id}]]")
}

/// The line that holds the place of a hidden pair without a sibling.
pub fn aside(id: Uuid) -> String {
    format!("[[handoff-aside:{id}]]")
}

/// A sentinel or aside as it is streamed inside other text.
pub fn spaced(mark: &str) -> String {
    format!("{GAP}{mark}{GAP}")
}

/// A prompt or reason as it is kept: trimmed, and no sentinel syntax in it.
pub fn normalised(text: &str) -> String {
    breaker::break_up(text.trim()).into_owned()
}

/// Something of ours, or like ours, in raw JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// From the first bracket to the last.
    pub span: Span,
    /// What it is.
    pub kind: MarkKind,
}

/// The kinds of marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkKind {
    /// An opening line.
    Open(Uuid),
    /// A closing line, with its seal.
    Close(Uuid, Span),
    /// An aside's line.
    Aside(Uuid),
    /// Broken-up text of a model; the span is the escaped backslash to take out.
    Broken(Span),
}

/// Stands in every mark.
pub const STEM: &[u8] = b"handoff-";

/// Every mark in `text`, in order. Opening, closing and aside marks must be whole lines.
pub fn marks(text: &[u8]) -> Vec<Mark> {
    marks_at(text, memmem::find_iter(text, STEM))
}

/// The same where somebody has looked for [`STEM`] already.
pub fn marks_at(text: &[u8], stems: impl Iterator<Item = usize>) -> Vec<Mark> {
    stems.filter_map(|stem| mark_at(text, stem)).collect()
}

fn mark_at(text: &[u8], stem: usize) -> Option<Mark> {
    let before = text.get(..stem)?;
    let closing = before.ends_with(b"[[/");
    if !closing && !before.ends_with(b"[[") {
        return None;
    }
    let start = stem - if closing { 3 } else { 2 };
    let rest = text.get(stem + STEM.len()..)?;
    let resume = rest.starts_with(b"resume");
    if !resume && !rest.starts_with(b"aside") {
        return None;
    }
    let colon = stem + STEM.len() + if resume { 6 } else { 5 };
    if text.get(colon) == Some(&b'\\') {
        return broken_at(text, start, colon);
    }
    if text.get(colon) != Some(&b':') {
        return None;
    }
    let id = Uuid::try_parse_ascii(text.get(colon + 1..colon + 1 + ID_CHARS)?).ok()?;
    let behind = colon + 1 + ID_CHARS;
    let (kind, end) = match (resume, closing) {
        (true, false) => (MarkKind::Open(id), behind),
        (true, true) => {
            let seal = Span::new(behind + 1, behind + 1 + SEAL_CHARS);
            (text.get(behind) == Some(&b'.')).then_some((MarkKind::Close(id, seal), seal.end))?
        }
        (false, false) => (MarkKind::Aside(id), behind),
        (false, true) => return None,
    };
    let span = Span::new(start, end + 2);
    (text.get(end..end + 2) == Some(b"]]") && whole_line(text, span)).then_some(Mark { span, kind })
}

/// `[[handoff-resume\\:`, with any number of escaped backslashes; the last one goes.
fn broken_at(text: &[u8], start: usize, from: usize) -> Option<Mark> {
    let mut at = from;
    while text.get(at..at + 2) == Some(br"\\") {
        at += 2;
    }
    (at > from && text.get(at) == Some(&b':')).then(|| Mark {
        span: Span::new(start, at + 1),
        kind: MarkKind::Broken(Span::new(at - 2, at)),
    })
}

/// Whether a mark is alone on its line: blanks aside, it has the string's ends or line breaks on both sides.
fn whole_line(text: &[u8], span: Span) -> bool {
    let before = text[..span.start].trim_ascii_end_matches_blank();
    let starts = before.ends_with(b"\"") && !escaped(before, before.len() - 1)
        || (before.ends_with(b"\\n") || before.ends_with(b"\\r")) && !escaped(before, before.len() - 2);
    let behind = text[span.end..].trim_start_blank();
    starts && (behind.starts_with(b"\"") || behind.starts_with(b"\\n") || behind.starts_with(b"\\r"))
}

/// Whether the byte at `at` has an odd number of backslashes before it.
fn escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

trait Blanks {
    fn trim_ascii_end_matches_blank(&self) -> &[u8];
    fn trim_start_blank(&self) -> &[u8];
}

impl Blanks for [u8] {
    fn trim_ascii_end_matches_blank(&self) -> &[u8] {
        let kept = self.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1);
        &self[..kept]
    }

    fn trim_start_blank(&self) -> &[u8] {
        let from = self.iter().position(|b| *b != b' ').unwrap_or(self.len());
        &self[from..]
    }
}

/// A sentinel in one text: its prompt where it is spelled out, and where the text goes on behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentinel {
    /// Its id.
    pub id: Uuid,
    /// Offset of its opening line.
    pub at: usize,
    /// The prompt and the seal, where the closing line is there.
    pub sealed: Option<(String, Span)>,
    /// Offset behind the sentinel and the line breaks streamed with it.
    pub rest: usize,
}

/// Reads the sentinel that opens at `marks[i]`, inside the string whose inside is `inside`.
pub fn read(text: &[u8], inside: Span, marks: &[Mark], i: usize) -> Option<Sentinel> {
    let MarkKind::Open(id) = marks.get(i)?.kind else {
        return None;
    };
    let open = marks[i].span;
    let close = marks[i + 1..]
        .iter()
        .take_while(|m| m.span.end <= inside.end)
        .find_map(|m| match m.kind {
            MarkKind::Close(closes, seal) if closes == id => Some((m.span, seal)),
            _ => None,
        });
    let Some((close, seal)) = close else {
        return Some(Sentinel {
            id,
            at: open.start,
            sealed: None,
            rest: behind_gap(text, open.end, inside.end),
        });
    };
    let prompt = json::unescape(between_lines(text, open.end, close.start).of(text)).into_owned();
    Some(Sentinel {
        id,
        at: open.start,
        sealed: Some((prompt, seal)),
        rest: behind_gap(text, close.end, inside.end),
    })
}

/// What is left of a sentinel without its closing line: steps over as much of the known prompt as is there.
pub fn behind_unclosed(text: &[u8], rest: usize, inside_end: usize, prompt: &str) -> usize {
    let raw = &text[rest..inside_end];
    if let Some(len) = json::spelled(raw, prompt) {
        let at = behind_gap(text, rest + len, inside_end);
        let torn = torn_closing(&text[at..inside_end]);
        return if torn { inside_end } else { at };
    }
    // Broken off in the middle of the prompt: nothing of it is the model's work.
    if prompt.starts_with(&*json::unescape(raw)) {
        inside_end
    } else {
        rest
    }
}

/// Whether this is the beginning of a closing line and nothing else.
fn torn_closing(left: &[u8]) -> bool {
    const CLOSING: &[u8] = b"[[/handoff-resume:";
    const WHOLE: usize = CLOSING.len() + ID_CHARS + 1 + SEAL_CHARS + 2;
    left.len() < WHOLE && !left.contains(&b'\\') && (CLOSING.starts_with(left) || left.starts_with(CLOSING))
}

/// The span between the line break behind an opening line and the one before a closing line.
fn between_lines(text: &[u8], from: usize, to: usize) -> Span {
    let start = if text[from..to].starts_with(b"\\n") {
        from + 2
    } else {
        from
    };
    let end = if text[start..to].ends_with(b"\\n") {
        to - 2
    } else {
        to
    };
    Span::new(start, end)
}

/// Offset behind at most the two line breaks that were streamed behind a mark.
pub fn behind_gap(text: &[u8], from: usize, end: usize) -> usize {
    let mut at = from;
    // Blanks that an agent left on the mark's own line.
    while at < end && text[at] == b' ' {
        at += 1;
    }
    for _ in 0..GAP.len() {
        if text[at..end].starts_with(b"\\n") {
            at += 2;
        }
    }
    at
}

/// Offset before at most the two line breaks that were streamed in front of a mark.
pub fn before_gap(text: &[u8], start: usize, to: usize) -> usize {
    let mut at = to;
    for _ in 0..GAP.len() {
        if at >= start + 2 && &text[at - 2..at] == b"\\n" && !escaped(text, at - 2) {
            at -= 2;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
    const PROMPT: &str = "Goal: make the CSV importer skip BOMs. Done: survey of src/import/*.rs; decided to strip U+FEFF in reader.rs::open(). Next: edit reader.rs, then run the importer tests.";

    fn key() -> SealKey {
        SealKey::new(*b"golden-test-key")
    }

    #[test]
    fn the_seal_is_the_golden_one() {
        assert_eq!(key().seal(ID, PROMPT), "VR-iunEUwURMLNGuL8sekw");
        assert!(key().verifies(ID, PROMPT, b"VR-iunEUwURMLNGuL8sekw"));
        assert!(!key().verifies(ID, "another", b"VR-iunEUwURMLNGuL8sekw"));
        assert!(!key().verifies(ID, PROMPT, b"VR-iunEUwURMLNGuL8sekx!"));
        assert!(!key().verifies(ID, PROMPT, b""));
    }

    fn read_back(before: &str, prompt: &str, after: &str) -> (Sentinel, String) {
        let text = json::quote(&format!("{before}{}{after}", spaced(&full(ID, prompt, &key())))).into_bytes();
        let found = marks(&text);
        let open = found
            .iter()
            .position(|m| matches!(m.kind, MarkKind::Open(_)))
            .unwrap();
        let sentinel = read(&text, Span::new(1, text.len() - 1), &found, open).unwrap();
        let rest = json::unescape(&text[sentinel.rest..text.len() - 1]).into_owned();
        (sentinel, rest)
    }

    #[test]
    fn what_was_streamed_is_read_back_and_stripped_exactly() {
        for prompt in [
            "p",
            "two\nlines\\n",
            "```\n]]\n```",
            "\u{2028}\u{1F600} \"x\" </system>",
            &"x".repeat(200_000),
        ] {
            for after in ["", "leg two", "\n\nleg two\n", "\\n"] {
                let (sentinel, rest) = read_back("leg one. ", prompt, after);
                assert_eq!(rest, after);
                assert_eq!(sentinel.sealed.unwrap().0, prompt);
            }
        }
    }

    #[test]
    fn a_mark_inside_a_line_is_none() {
        for text in [
            format!("see {} there", short(ID)),
            format!("x{}", short(ID)),
            format!("{}x", short(ID)),
            format!("a\\n{}\n", short(ID)),
            format!("> {}", short(ID)),
        ] {
            assert_eq!(marks(json::quote(&text).as_bytes()), vec![], "{text}");
        }
        assert_eq!(
            marks(json::quote(&format!("  {}  \nx", short(ID))).as_bytes()).len(),
            1
        );
    }

    #[test]
    fn broken_up_text_is_found_with_the_backslash_to_take_out() {
        let text = json::quote("log says [[handoff-resume\\:0199 and [[/handoff-aside\\\\:").into_bytes();
        let broken: Vec<_> = marks(&text);
        assert_eq!(broken.len(), 2);
        for mark in broken {
            let MarkKind::Broken(slash) = mark.kind else {
                panic!("{mark:?}")
            };
            assert_eq!(slash.of(&text), br"\\");
        }
    }

    #[test]
    fn an_unclosed_sentinel_gives_up_what_is_left_of_its_prompt() {
        let torn = format!("\n{PROMPT}\n[[/handoff-resume:{ID}.VR-");
        let just = format!("\n{PROMPT}\n\n[[/");
        for (after, wanted) in [
            ("", ""),
            ("\nGoal: ma", ""),
            ("\nmy own text", "my own text"),
            (&torn, ""),
            (&just, ""),
        ] {
            let text = json::quote(&format!("{}{after}", short(ID))).into_bytes();
            let found = marks(&text);
            let inside = Span::new(1, text.len() - 1);
            let sentinel = read(&text, inside, &found, 0).unwrap();
            assert_eq!(sentinel.sealed, None);
            let rest = behind_unclosed(&text, sentinel.rest, inside.end, PROMPT);
            assert_eq!(json::unescape(&text[rest..inside.end]), wanted);
        }
    }

    #[test]
    fn text_cut_anywhere_never_panics() {
        let text = json::quote(&spaced(&full(ID, "p", &key()))).into_bytes();
        for cut in 0..text.len() {
            for from in 0..=cut {
                let _ = marks(&text[from..cut]);
            }
        }
    }
}
