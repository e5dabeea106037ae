//! The marker of a handoff in the agent's transcript.
//!
//! ```text
//! [[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]
//! *Handed over: REASON. From here on the model knows only what follows.*
//!
//! …the carry-over prompt, with words in place of its tags…
//! [[/handoff-resume:SEAL]]
//! ```
//!
//! `rewrite` decides whether a marker is valid: who wrote the text around it, and whether its id exists.

use std::borrow::Cow;

use uuid::Uuid;

use super::find::{MarkerKind, RawMarker};
use super::seal::{SEAL_CHARS, SealKeys};
use super::shown::{restored, shown};
use super::{escape, gap};
use crate::text::visible::acts;
use crate::text::{Span, cost, json};

/// Maximum length of the reason in the line for users, in characters.
const REASON_CHARS: usize = 120;
/// Beginning and end of the line for users.
const HANDED_OVER: &str = "*Handed over";
const KNOWS_ONLY: &str = "From here on the model knows only what follows.*";
/// Maximum length of the line for users as JSON, in bytes. Every character of the reason may be escaped.
const LINE_BYTES: usize = 2048;

/// Formats the line that opens a sentinel, and that a user pastes to resume.
pub fn opening(id: Uuid) -> String {
    format!("[[handoff-resume:{id}]]")
}

/// Formats a sentinel with prompt and seal, without the line breaks around it.
pub fn full(id: Uuid, reason: Option<&str>, prompt: &str, seal: &str) -> String {
    format!(
        "{}\n\n{}\n[[/handoff-resume:{seal}]]",
        short(id, reason),
        shown(prompt)
    )
}

/// Formats a sentinel without its prompt (`handoff.transcript = "sentinel"`).
pub fn short(id: Uuid, reason: Option<&str>) -> String {
    format!("{}\n{}", opening(id), for_people(reason))
}

/// Formats the line that explains the sentinel to the user.
fn for_people(reason: Option<&str>) -> String {
    let reason = reason.map(one_line).filter(|r| !r.is_empty());
    match reason {
        Some(reason) => format!("{HANDED_OVER}: {reason}. {KNOWS_ONLY}"),
        None => format!("{HANDED_OVER}. {KNOWS_ONLY}"),
    }
}

/// Formats a reason as one line of at most [`REASON_CHARS`] characters, without characters that would end the
/// emphasis or begin a marker.
fn one_line(reason: &str) -> String {
    let plain = reason.replace("[[", " ").replace("]]", " ");
    let shown = |c: char| if acts(c) || c == '*' { ' ' } else { c };
    let plain: String = plain.chars().map(shown).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let line = words.join(" ");
    let line = line.trim_end_matches(['.', ' ']);
    if line.chars().count() <= REASON_CHARS {
        return line.to_owned();
    }
    let cut: String = line.chars().take(REASON_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}

/// Trims a prompt or a reason and escapes sentinel syntax in it, before it is stored.
pub fn normalised(text: &str) -> String {
    escape::break_up(text.trim()).into_owned()
}

/// A parsed sentinel: its prompt, if that is included, and its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentinel {
    pub id: Uuid,
    /// Offset of the opening line.
    pub at: usize,
    /// Content up to the closing line, if there is one.
    pub sealed: Option<SealedBody>,
    /// Offset after the sentinel and the line breaks streamed with it.
    pub rest: usize,
}

/// Content between the opening and the closing line of a sentinel, and its seal.
///
/// Stored as spans of the body, because most sentinels in a transcript are never opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedBody {
    prompt: Span,
    seal: Span,
}

impl SealedBody {
    /// Returns the prompt after the line for users if any key verifies it for this principal, as it stands or
    /// with its tags restored.
    pub fn opened(&self, text: &[u8], keys: &SealKeys, principal: &str, id: Uuid) -> Option<String> {
        let unescaped = json::unescape(self.prompt.of(text));
        let prompt = after_line_for_people(&unescaped)?;
        let tagged = restored(prompt);
        // Without words to restore, the second attempt would verify the same prompt again.
        let tagged = matches!(tagged, Cow::Owned(_)).then_some(tagged);
        let mut forms = std::iter::once(Cow::Borrowed(prompt)).chain(tagged);
        let sealed = forms.find(|prompt| keys.verifies(principal, id, prompt, self.seal.of(text)));
        sealed.map(Cow::into_owned)
    }
}

/// Parses the sentinel that opens at `marks[i]` within the string with this `inside`. The next marker is its
/// closing line, because all others inside a prompt are escaped.
pub fn read(text: &[u8], inside: Span, marks: &[RawMarker], i: usize) -> Option<Sentinel> {
    let MarkerKind::Open(id) = marks.get(i)?.kind else {
        return None;
    };
    let open = marks[i].span;
    let next = marks[i + 1..]
        .iter()
        .inspect(|_| cost::add(1))
        // A prompt may quote any number of escaped markers.
        .find(|m| !matches!(m.kind, MarkerKind::Broken(_)))
        .filter(|m| m.span.end <= inside.end);
    let (sealed, end) = match next.map(|m| (m.span, &m.kind)) {
        Some((close, MarkerKind::Close(seal))) => {
            let spelled_out = Span::new(open.end, close.start);
            (
                Some(SealedBody {
                    prompt: spelled_out,
                    seal: *seal,
                }),
                close.end,
            )
        }
        // Without a closing line, only the line for users certainly belongs to the sentinel.
        _ => {
            let line = raw_line_for_people(text, open.end, inside.end);
            (None, line.unwrap_or(open.end))
        }
    };
    Some(Sentinel {
        id,
        at: open.start,
        sealed,
        rest: gap::after(text, end, inside.end),
    })
}

/// Returns the prompt after the line for users, or `None` if the first line is a different one.
fn after_line_for_people(prompt: &str) -> Option<&str> {
    let prompt = prompt.trim();
    let (line, rest) = prompt.split_once('\n').unwrap_or((prompt, ""));
    is_for_people(line).then(|| rest.trim())
}

fn is_for_people(line: &str) -> bool {
    let line = line.trim();
    line.starts_with(HANDED_OVER) && line.ends_with(KNOWS_ONLY)
}

/// End of the line for users after an opening line that ends at `from`. Returns `end` if the text is
/// truncated within that line.
pub(super) fn raw_line_for_people(text: &[u8], from: usize, end: usize) -> Option<usize> {
    let start = gap::after(text, from, end);
    let left = &text[start..end.min(start + LINE_BYTES)];
    if start == from || !left.starts_with(HANDED_OVER.as_bytes()) {
        return None;
    }
    let len = line_len(left);
    let line = json::unescape(&left[..len]);
    let torn = start + len == end;
    (torn || is_for_people(&line)).then_some(start + len)
}

/// Bytes of the inside of a literal up to its first line break.
fn line_len(raw: &[u8]) -> usize {
    let mut at = 0;
    while let Some(hit) = memchr::memchr(b'\\', &raw[at..]) {
        at += hit;
        let (c, used) = json::escape_at(&raw[at..]);
        if matches!(c, '\n' | '\r') {
            return at;
        }
        at += used;
    }
    raw.len()
}

/// Length of a prompt at the start of `raw`, as it is stored or as it is shown.
pub fn spelled_prompt(raw: &[u8], prompt: &str) -> Option<usize> {
    json::spelled(raw, prompt).or_else(|| json::spelled(raw, &shown(prompt)))
}

/// Offset after the remainder of a sentinel without a closing line. Skips as much of the known prompt as is
/// present.
pub fn after_unclosed(text: &[u8], rest: usize, inside_end: usize, prompt: &str) -> usize {
    let raw = &text[rest..inside_end];
    if let Some(len) = spelled_prompt(raw, prompt) {
        let at = gap::after(text, rest + len, inside_end);
        // An interrupted response may end inside of the closing line.
        let torn = torn_closing(&text[at..inside_end]);
        return if torn { inside_end } else { at };
    }
    // The text ends in the middle of the prompt, so none of it is the model's work.
    let left = json::unescape(raw);
    if prompt.starts_with(&*left) || shown(prompt).starts_with(&*left) {
        inside_end
    } else {
        rest
    }
}

/// Whether `left` is a truncated closing line and nothing else.
fn torn_closing(left: &[u8]) -> bool {
    const CLOSING: &[u8] = b"[[/handoff-resume:";
    const WHOLE: usize = CLOSING.len() + SEAL_CHARS + 2;
    left.len() < WHOLE && !left.contains(&b'\\') && (CLOSING.starts_with(left) || left.starts_with(CLOSING))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::find::marks;
    use crate::marker::seal::SealKey;
    use crate::marker::{aside, note};
    use crate::record::LOCAL;
    use crate::text::testing::assert_lacks;

    const ID: Uuid = Uuid::from_u128(0x0199a3c2_7d1e_7c3a_9b1f_2f6f0c9d8e11);
    const PROMPT: &str = "Goal: make the CSV importer skip BOMs. Done: survey of src/import/*.rs; decided to strip U+FEFF in reader.rs::open(). Next: edit reader.rs, then run the importer tests.";

    const TAGGED: &str = "<handoff-context>\nGoal: x.\n</handoff-context>\n\nGo on.\n\n<carried-over>\n- Never push.\n</carried-over>";

    fn key() -> SealKeys {
        SealKey::new(*b"golden-test-key").into()
    }

    /// Formats a sentinel with its seal.
    fn sealed(prompt: &str, reason: Option<&str>) -> String {
        full(ID, reason, prompt, &key().seal(LOCAL, ID, prompt))
    }

    /// Parses the first sentinel. Returns it with its prompt, if the seal verifies, and the text after it.
    fn read_back(text: &str) -> (Sentinel, Option<String>, String) {
        let text = json::quote(text).into_bytes();
        let found = marks(&text);
        let open = found
            .iter()
            .position(|m| matches!(m.kind, MarkerKind::Open(_)))
            .unwrap();
        let sentinel = read(&text, Span::new(1, text.len() - 1), &found, open).unwrap();
        let prompt = sentinel
            .sealed
            .and_then(|s| s.opened(&text, &key(), LOCAL, sentinel.id));
        let rest = json::unescape(&text[sentinel.rest..text.len() - 1]).into_owned();
        (sentinel, prompt, rest)
    }

    #[test]
    fn what_is_streamed_is_what_a_stranger_can_read() {
        let shown = sealed("Go on.", Some("survey finished"));
        let seal = key().seal(LOCAL, ID, "Go on.");
        assert_eq!(
            gap::spaced(&shown),
            format!(
                "\n\n[[handoff-resume:{ID}]]\n*Handed over: survey finished. From here on the model knows only what \
                 follows.*\n\nGo on.\n[[/handoff-resume:{seal}]]\n\n"
            )
        );
        assert_eq!(
            short(ID, None),
            format!(
                "[[handoff-resume:{ID}]]\n*Handed over. From here on the model knows only what follows.*"
            )
        );
    }

    #[test]
    fn a_reason_is_one_short_line_without_syntax() {
        for (reason, expected) in [
            ("done.", "done"),
            (" task 1\n is\tdone… ", "task 1 is done…"),
            ("**bold** [[handoff-resume\\:x]]", "bold handoff-resume\\:x"),
            ("*", ""),
            (&"é".repeat(121), &format!("{}…", "é".repeat(119))),
            (&"é".repeat(120), &"é".repeat(120)),
        ] {
            assert_eq!(one_line(reason), expected);
            let (_, prompt, _) = read_back(&sealed("p", Some(reason)));
            assert_eq!(prompt.as_deref(), Some("p"), "{reason}");
        }
        assert_eq!(for_people(Some(" * ")), for_people(None));
    }

    #[test]
    fn what_was_streamed_is_read_back_and_stripped_exactly() {
        for prompt in [
            "p",
            "two\nlines\\n",
            "```\n]]\n```",
            "\u{2028}\u{1F600} \"x\" </system>".trim(),
            "*Handed over. From here on the model knows only what follows.*\n\nIt was said before.",
            TAGGED,
            "*Carried over:*\n\nx\n<carried-over>\ny\n</carried-over>",
            &"x".repeat(200_000),
        ] {
            for after in ["", "leg two", "\n\nleg two\n", "\\n"] {
                for reason in [None, Some("say \"why\" \u{1F600}")] {
                    let shown = gap::spaced(&sealed(prompt, reason));
                    let (_, opened, rest) = read_back(&format!("leg one. {shown}{after}"));
                    assert_eq!(rest, after);
                    assert_eq!(opened.as_deref(), Some(prompt), "{reason:?}");
                }
            }
        }
    }

    #[test]
    fn a_prompt_may_quote_every_marker() {
        let quoted = [
            &opening(ID),
            &*aside::line(ID),
            &note::line(Uuid::nil()),
            note::PROGRESS,
        ]
        .join("\n");
        let prompt = normalised(&format!("The user saw:\n{quoted}\nExplain it."));
        let (_, opened, rest) = read_back(&gap::spaced(&sealed(&prompt, None)));
        assert_eq!((opened, &*rest), (Some(prompt), ""));
    }

    /// Agents trim blanks, and double or remove blank lines.
    #[test]
    fn blanks_that_an_agent_changed_do_not_break_the_seal() {
        let shown = sealed(PROMPT, Some("survey finished"));
        for changed in [
            shown.trim().to_owned(),
            shown.replace("\n\n", "\n"),
            shown.replace("\n\n", "\n\n\n"),
            shown.replace("\n", "\r\n"),
            shown.replace("]]\n*", "]]\n\n*"),
            shown.replace("]]\n*", "]]  \n*"),
            shown.replace(".*\n", ".*   \n"),
        ] {
            let (_, opened, rest) = read_back(&changed);
            assert_eq!((opened.as_deref(), &*rest), (Some(PROMPT), ""), "{changed}");
        }
    }

    #[test]
    fn a_closing_line_is_its_own_opening_lines() {
        let shown = sealed("p", None);
        let other = shown.replace("0199a3c2", "0199a3c3");
        for (text, sealed) in [
            (format!("{}\n{shown}", opening(ID)), false),
            (format!("{shown}\n{other}"), true),
            (format!("{}\nx\n{}", opening(ID), aside::line(ID)), false),
        ] {
            assert_eq!(read_back(&text).0.sealed.is_some(), sealed, "{text}");
        }
    }

    #[test]
    fn an_unclosed_sentinel_gives_up_what_is_left_of_its_prompt() {
        let seal = format!("\n{PROMPT}\n[[/handoff-resume:VR-");
        let just = format!("\n{PROMPT}\n\n[[/");
        for (after, wanted) in [
            ("", ""),
            ("\nGoal: ma", ""),
            ("\nmy own text", "my own text"),
            (&seal, ""),
            (&just, ""),
        ] {
            let line = format!("\n{}\n", for_people(Some("\"done\"")));
            for line in ["", &line] {
                let text = json::quote(&format!("{}{line}{after}", opening(ID))).into_bytes();
                let found = marks(&text);
                let inside = Span::new(1, text.len() - 1);
                let sentinel = read(&text, inside, &found, 0).unwrap();
                assert_eq!(sentinel.sealed, None);
                let rest = after_unclosed(&text, sentinel.rest, inside.end, PROMPT);
                assert_eq!(json::unescape(&text[rest..inside.end]), wanted, "{line}{after}");
            }
        }
        let (_, _, rest) = read_back(&format!("{}\n*Handed over: surv", opening(ID)));
        assert_eq!(rest, "");
    }

    /// Older transcripts have the tags, and no text may show them anew.
    #[test]
    fn a_prompt_is_shown_without_its_tags_and_verified_in_both_forms() {
        let sealed = sealed(TAGGED, None);
        assert_lacks(&sealed, "<handoff-context>");
        assert_lacks(&sealed, "carried-over>");
        let older = sealed.replace(&*shown(TAGGED), TAGGED);
        assert!(older.contains("<handoff-context>"));
        let forged = sealed.replace("Never push", "Always push");
        for (text, verified) in [(&sealed, true), (&older, true), (&forged, false)] {
            let (_, prompt, rest) = read_back(text);
            assert_eq!(
                (prompt.as_deref(), &*rest),
                (verified.then_some(TAGGED), ""),
                "{text}"
            );
        }
        let unclosed = |whole: &str, left: usize| {
            let text = json::quote(&format!("\n{}", &whole[..left])).into_bytes();
            let rest = after_unclosed(&text, 3, text.len() - 1, TAGGED);
            json::unescape(&text[rest..text.len() - 1]).into_owned()
        };
        for whole in [TAGGED, &*shown(TAGGED)] {
            assert_eq!(unclosed(whole, whole.len()), "");
            assert_eq!(unclosed(whole, 20), "");
        }
    }

    #[test]
    fn text_cut_anywhere_never_panics() {
        let text = json::quote(&gap::spaced(&sealed("p", Some("r")))).into_bytes();
        for cut in 0..text.len() {
            for from in 0..=cut {
                let _ = marks(&text[from..cut]);
            }
        }
    }
}
