//! Finds transcripts that an agent flattened into one string for a summary request, and cuts inside that
//! string.
//!
//! In no other case does text in the middle of a message cut a transcript. Here the wording must be that of a
//! known agent's summary request without tools, and the sentinel must be in a section of the model.

use std::collections::HashSet;
use std::ops::Range;

use memchr::memmem;
use uuid::Uuid;

use super::text_fingerprints::fingerprint;
use crate::marker::{self, MarkerKind, RawMarker, sentinel};
use crate::text::splice::Edit;
use crate::text::{Span, json};
use crate::wire::view::View;

/// A transcript that an agent has written into one string, as in a request for a summary.
pub struct FlattenedTranscript<'a> {
    pub(super) body: &'a [u8],
    pub(super) wording: &'static Wording,
    /// The transcript, inside its string literal.
    pub(super) span: Span,
    /// End of the literal.
    pub(super) end: usize,
    pub(super) sections: Vec<LabelledSection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionKind {
    Assistant,
    /// User text, which is the same in the agent's other requests.
    User,
    Result,
    Other,
}

/// A section that begins with a label.
pub(super) struct LabelledSection {
    pub(super) kind: SectionKind,
    /// Offset of the label.
    pub(super) at: usize,
    /// Offset of the text after the label.
    pub(super) text: usize,
    /// Fingerprint of the text, if it is evidence.
    print: Option<u32>,
}

/// A sentinel in a section of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundSentinel {
    pub id: Uuid,
    pub(super) at: usize,
    pub(super) rest: usize,
    /// Whether the closing line was found in the sentinel's own section.
    closed: bool,
}

/// Whether the request may have a flattened transcript: summary requests of this kind have no tools.
pub(super) fn may_be_flattened(view: &View) -> bool {
    view.tools.is_none_or(|tools| tools.count == 0)
}

/// Finds the flattened transcript of a summary request.
pub fn find(view: &View) -> Option<FlattenedTranscript<'_>> {
    let body: &[u8] = &view.body;
    if !may_be_flattened(view) {
        return None;
    }
    WORDINGS.iter().find_map(|wording| {
        literal(body, wording.marker)?;
        let text = literal(body, wording.begins)?;
        let (before, following) = (escaped(wording.before), escaped(wording.after));
        let start = text.start + memmem::find(text.of(body), before.as_bytes())? + before.len();
        // The last occurrence, because the transcript may quote the wording.
        let len = memmem::rfind(&body[start..text.end], following.as_bytes())?;
        let span = Span::new(start, start + len);
        let sections = sections(wording, body, span);
        Some(FlattenedTranscript {
            body,
            wording,
            span,
            end: text.end,
            sections,
        })
    })
}

const OPEN: &[u8] = b"[[handoff-resume:";
const CLOSE: &[u8] = b"[[/handoff-resume:";
const ID_CHARS: usize = 36;

impl FlattenedTranscript<'_> {
    /// Finds the sentinels in the model's sections, in order.
    pub fn sentinels(&self) -> Vec<FoundSentinel> {
        let hits = memmem::find_iter(self.span.of(self.body), OPEN);
        let hits: Vec<usize> = hits.map(|at| self.span.start + at).collect();
        let ends = hits.iter().skip(1).copied().chain([self.span.end]);
        let read = |(&at, next): (&usize, usize)| {
            // Results and users may quote a sentinel.
            let section = self.section_of(at).filter(|s| s.kind == SectionKind::Assistant)?;
            self.read(at, next, section)
        };
        hits.iter().zip(ends).filter_map(read).collect()
    }

    fn section_of(&self, at: usize) -> Option<&LabelledSection> {
        let following = self.sections.partition_point(|s| s.at <= at);
        self.sections.get(following.checked_sub(1)?)
    }

    fn read(&self, at: usize, next: usize, section: &LabelledSection) -> Option<FoundSentinel> {
        let id_at = at + OPEN.len();
        let id = Uuid::try_parse_ascii(self.body.get(id_at..id_at + ID_CHARS)?).ok()?;
        let open = Span::new(at, id_at + ID_CHARS + 2);
        if !self.body[..open.end].ends_with(b"]]") {
            return None;
        }
        // A later section may quote the closing line of another sentinel, and a short sentinel has none.
        let closed = self.closed(open.end, next.min(self.end_of(section)));
        let end = closed.unwrap_or_else(|| {
            let inside = Span::new(section.text, next);
            let mark = RawMarker {
                span: open,
                kind: MarkerKind::Open(id),
            };
            sentinel::read(self.body, inside, &[mark], 0).map_or(open.end, |s| s.rest)
        });
        let rest = self.after_blanks(end);
        Some(FoundSentinel {
            id,
            at,
            rest,
            closed: closed.is_some(),
        })
    }

    /// End of a section: the next label, or the end of the transcript.
    pub(super) fn end_of(&self, section: &LabelledSection) -> usize {
        let following = self.sections.partition_point(|s| s.at <= section.at);
        self.sections.get(following).map_or(self.span.end, |next| next.at)
    }

    /// End of the first closing line with a seal.
    fn closed(&self, from: usize, to: usize) -> Option<usize> {
        let inside = self.body.get(from..to)?;
        let mut ends =
            memmem::find_iter(inside, CLOSE).filter_map(|at| marker::closing_end(inside, at + CLOSE.len()));
        ends.next().map(|end| from + end)
    }

    /// Offset after the prompt that this sentinel spells out in full, and after its closing line.
    ///
    /// The prompt itself may contain text that looks like the beginning of a message.
    fn after_prompt(&self, found: &FoundSentinel, prompt: &str) -> usize {
        let left = Span::new(found.rest, self.span.end).of(self.body);
        let Some(len) = json::spelled(left, prompt).filter(|_| !found.closed) else {
            return found.rest;
        };
        let end = self.after_blanks(found.rest + len);
        let closing = self.body[end..self.span.end].starts_with(CLOSE);
        let closed = closing.then(|| marker::closing_end(self.body, end + CLOSE.len()));
        closed.flatten().map_or(found.rest, |end| self.after_blanks(end))
    }

    fn after_blanks(&self, mut at: usize) -> usize {
        while at < self.span.end {
            let raw = &self.body[at..self.span.end];
            at += match raw {
                [b' ', ..] => 1,
                [b'\\', b'n' | b'r', ..] => 2,
                _ => return at,
            };
        }
        self.span.end
    }

    /// Whether a handoff's transcript precedes its sentinel here.
    ///
    /// That is so if, by these fingerprints, all text before it comes from the agent's own requests. A quoted
    /// sentinel has other text before it.
    pub fn leads_up_to(&self, found: &FoundSentinel, texts: &[u32]) -> bool {
        let own = self.sections.partition_point(|s| s.at <= found.at) - 1;
        let known = self.known(0..own, texts);
        self.begins_with_label() && known.is_some_and(|known| known.texts > 0)
    }

    /// Whether this whole string, or all of it after `found`, predates a handoff whose sentinel is not here.
    ///
    /// The fingerprints are those of the handoff's transcript. Without a sentinel, they must include text
    /// from the model.
    pub fn lies_before(&self, found: Option<&FoundSentinel>, texts: &[u32]) -> bool {
        let from = found.map_or(0, |f| self.sections.partition_point(|s| s.at <= f.at));
        let Some(known) = self.known(from..self.sections.len(), texts) else {
            return false;
        };
        found.is_some() || self.begins_with_label() && known.models > 0 && known.texts > 1
    }

    fn begins_with_label(&self) -> bool {
        self.sections.first().is_some_and(|s| s.at == self.span.start)
    }

    /// Counts the strings of these sections that have one of these fingerprints; `None` if one of them has
    /// another.
    fn known(&self, sections: Range<usize>, texts: &[u32]) -> Option<KnownSections> {
        let texts: HashSet<u32> = texts.iter().copied().collect();
        let mut known = KnownSections::default();
        for section in &self.sections[sections] {
            let Some(print) = section.print else { continue };
            if !texts.contains(&print) {
                return None;
            }
            known.texts += 1;
            known.models += usize::from(section.kind == SectionKind::Assistant);
        }
        Some(known)
    }

    /// Cuts at a sentinel: the carry-over prompt replaces all text before it.
    pub fn cut(&self, found: &FoundSentinel, prompt: &str) -> Vec<Edit> {
        self.cut_from(self.after_prompt(found, prompt), prompt)
    }

    /// Cuts the whole string, because the sentinel follows it, in the part that the agent keeps unchanged.
    pub fn cut_whole(&self, prompt: &str) -> Vec<Edit> {
        self.cut_from(self.span.end, prompt)
    }

    fn cut_from(&self, rest: usize, prompt: &str) -> Vec<Edit> {
        let left = &self.body[rest..self.span.end];
        let mut with = self.wording.user.to_owned();
        json::escape_into(prompt, &mut with);
        if !left.is_empty() {
            with.push_str(&escaped(self.wording.gap));
            // The rest of the sentinel's own message has lost its label with the cut.
            if label(self.wording, left).is_none() {
                with.push_str(self.wording.assistant);
            }
        }
        let mut edits = vec![Edit::replace(Span::new(self.span.start, rest), with)];
        edits.extend(
            self.earlier_summary()
                .map(|span| Edit::replace(span, HANDED_OVER)),
        );
        edits
    }

    /// Span of an earlier compaction's summary right after the transcript, which covers earlier messages.
    fn earlier_summary(&self) -> Option<Span> {
        let start = self.span.end + escaped(self.wording.after).len();
        let rest = self.body.get(start..self.end)?;
        let begins = escaped(EARLIER_SUMMARY.0);
        let inside = rest.strip_prefix(begins.as_bytes())?;
        let len = memmem::find(inside, escaped(EARLIER_SUMMARY.1).as_bytes())?;
        let start = start + begins.len();
        Some(Span::new(start, start + len))
    }
}

/// Number of sections with known text.
#[derive(Default)]
struct KnownSections {
    texts: usize,
    /// Number of those sections that belong to the model.
    models: usize,
}

/// Text around the summary of an earlier compaction (pi).
const EARLIER_SUMMARY: (&str, &str) = ("<previous-summary>\n", "\n</previous-summary>");

/// Replacement for an earlier summary.
const HANDED_OVER: &str =
    "None: what came before was handed over, and the conversation above begins with what to know of it.";

/// Inside of the first literal with this beginning.
fn literal(body: &[u8], begins: &str) -> Option<Span> {
    let needle = format!("\"{}", escaped(begins));
    let start = memmem::find_iter(body, needle.as_bytes()).find(|&at| at == 0 || body[at - 1] != b'\\')?;
    Some(Span::new(start, json::string_end(body, start).ok()?).inner())
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    json::escape_into(text, &mut out);
    out
}

/// Meaning and length of the label at the beginning of `raw`.
fn label(wording: &Wording, raw: &[u8]) -> Option<(SectionKind, usize)> {
    // Longer labels come first, because one label may be a prefix of another.
    let labels = [
        (wording.results, SectionKind::Result),
        (wording.others, SectionKind::Other),
        (&[wording.user], SectionKind::User),
        (&[wording.assistant], SectionKind::Assistant),
    ];
    labels.into_iter().find_map(|(labels, kind)| {
        let hit = labels.iter().find(|label| raw.starts_with(label.as_bytes()))?;
        Some((kind, hit.len()))
    })
}

fn sections(wording: &Wording, body: &[u8], span: Span) -> Vec<LabelledSection> {
    let mut out = Vec::new();
    // Labels count only at the start of a line.
    let mut line = Some(span.start);
    let mut at = span.start;
    loop {
        if let Some(start) = line.take()
            && let Some((kind, len)) = label(wording, &body[start..span.end])
        {
            out.push(LabelledSection {
                kind,
                at: start,
                text: start + len,
                print: None,
            });
        }
        let Some(hit) = memchr::memchr(b'\\', &body[at..span.end]) else {
            break;
        };
        let (c, used) = json::escape_at(&body[at + hit..span.end]);
        at = (at + hit + used).min(span.end);
        if c == '\n' {
            line = Some(at);
        }
    }
    let ends: Vec<usize> = out.iter().skip(1).map(|s| s.at).chain([span.end]).collect();
    let sections = out.iter_mut().zip(ends);
    for (section, end) in sections.filter(|(s, _)| s.kind != SectionKind::Other) {
        section.print = fingerprint(unwrapped(wording, Span::new(section.text, end).of(body)));
    }
    out
}

/// Removes the wording's wrapper around the user's text.
pub(super) fn unwrapped<'a>(wording: &Wording, raw: &'a [u8]) -> &'a [u8] {
    let inside = wording.wrapper.and_then(|(opening, closing)| {
        let attributes = raw.strip_prefix(opening.as_bytes())?;
        let text = &attributes[memchr::memchr(b'>', attributes)? + 1..];
        Some(&text[..memmem::find(text, closing.as_bytes()).unwrap_or(text.len())])
    });
    inside.unwrap_or(raw)
}

/// An agent's wording of summary requests, as seen on the wire of the named versions.
pub(super) struct Wording {
    /// The agent and its version.
    #[allow(dead_code, reason = "what the row is about")]
    agent: &'static str,
    /// Prefix of a string in the request, usually in the system prompt.
    pub(super) marker: &'static str,
    /// Beginning of the string with the transcript.
    pub(super) begins: &'static str,
    /// Text right before the transcript.
    pub(super) before: &'static str,
    /// Text right after the transcript.
    pub(super) after: &'static str,
    /// Separator between two messages.
    pub(super) gap: &'static str,
    /// Label of a user message.
    pub(super) user: &'static str,
    /// Label of a model message.
    pub(super) assistant: &'static str,
    /// Labels of tool results.
    pub(super) results: &'static [&'static str],
    /// Labels of text that differs from the agent's requests, or appears only sometimes.
    pub(super) others: &'static [&'static str],
    /// Wrapper around the user's text, which the agent's other requests do not have: an opening tag up to its
    /// `>`, and the closing tag.
    pub(super) wrapper: Option<(&'static str, &'static str)>,
}

const PI: Wording = Wording {
    agent: "pi 0.87",
    marker: "You are a context summarization assistant.",
    begins: "<conversation>\n",
    before: "<conversation>\n",
    after: "\n</conversation>\n\n",
    gap: "\n\n",
    user: "[User]: ",
    assistant: "[Assistant]: ",
    results: &["[Tool result]: "],
    others: &["[Assistant thinking]: ", "[Assistant tool calls]: "],
    wrapper: None,
};

pub(super) const WORDINGS: &[Wording] = &[
    PI,
    Wording {
        agent: "pi 0.87, the first part of a turn",
        begins: "# Conversation\n",
        before: "# Conversation\n",
        after: "\n\n# Instructions\n",
        ..PI
    },
    Wording {
        agent: "opencode 1.18",
        marker: "You are a context summarization agent.",
        begins: "Here is the conversation so far:\n\n<conversation>\n",
        before: "<conversation>\n",
        after: "\n</conversation>\n\n",
        gap: "\n\n",
        user: "[User]: ",
        assistant: "[Assistant]: ",
        results: &["[Tool result]: ", "[Tool error]: "],
        others: &[
            "[Assistant reasoning]: ",
            "[Assistant tool call]: ",
            "[System update]: ",
            "[Synthetic context]: ",
            "[Shell]: ",
        ],
        wrapper: None,
    },
    Wording {
        agent: "goose 1.34",
        marker: "## Task Context\n- An llm context limit was reached",
        begins: "## Task Context\n- An llm context limit was reached",
        before: "\n**Conversation History:**\n",
        after: "\n\nWrap reasoning in `<analysis>` tags",
        gap: "\n",
        user: "[user]: ",
        assistant: "[assistant]: ",
        results: &["[user]: tool_response: "],
        others: &["[assistant]: tool_request("],
        wrapper: None,
    },
    Wording {
        agent: "cline 3.0.65",
        marker: "Summarize the provided coding session",
        begins: "Summarize this session for continuation.",
        before: "\n\nConversation:\n",
        after: "",
        gap: "\n\n",
        user: "[User]: ",
        assistant: "[Bot]: ",
        results: &["[Tool result]:"],
        others: &["[Bot tool calls]: "],
        wrapper: Some(("<user_input ", "</user_input>")),
    },
];
