//! Agents that ask for a summary of their transcript flattened into one text, and the cut inside that text.
//!
//! Nowhere else does text in the middle of somebody's message cut a transcript: a request is one of these agents'
//! summaries by its wording, it has no tools, and the sentinel stands in a section of the model's.

use std::collections::HashSet;
use std::ops::Range;

use memchr::memmem;
use uuid::Uuid;

use super::flattened_wordings::{WORDINGS, Wording};
use crate::mark::{self, Mark, MarkKind, sentinel};
use crate::text::{Span, json};
use crate::wire::Wire;
use crate::wire::view::{Part, PartKind, View};

/// Bytes of JSON of which the first line of a text is taken.
const LINE_BYTES: usize = 4096;
/// Characters of a line that count.
const LINE_CHARS: usize = 200;
/// Texts of a transcript that are remembered, the newest ones.
const MOST_TEXTS: usize = 4096;

/// A flattened transcript.
pub struct Flat<'a> {
    body: &'a [u8],
    wording: &'static Wording,
    /// The transcript, inside its literal.
    span: Span,
    sections: Vec<Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Assistant,
    /// The user's text or a result: in the agent's other requests, too, and in the same words.
    Shown,
    Other,
}

/// What begins with one label.
struct Section {
    kind: Kind,
    /// Where its label stands, and where its text begins.
    at: usize,
    text: usize,
}

/// A sentinel in a section of the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundSentinel {
    /// Its id.
    pub id: Uuid,
    at: usize,
    rest: usize,
    /// Whether its closing line was found, in its own section.
    closed: bool,
}

/// The flattened transcript of a summary request, where sentinels may stand in it.
pub fn find(view: &View) -> Option<Flat<'_>> {
    let body: &[u8] = &view.body;
    if view.tools.is_some_and(|t| t.count > 0) || memmem::find(body, OPEN).is_none() {
        return None;
    }
    WORDINGS.iter().find_map(|wording| {
        literal(body, wording.told_by)?;
        let text = literal(body, wording.begins)?;
        let (before, behind) = (escaped(wording.before), escaped(wording.behind));
        let start = text.start + memmem::find(text.of(body), before.as_bytes())? + before.len();
        let len = memmem::rfind(&body[start..text.end], behind.as_bytes())?;
        let span = Span::new(start, start + len);
        let sections = sections(wording, body, span);
        Some(Flat {
            body,
            wording,
            span,
            sections,
        })
    })
}

const OPEN: &[u8] = b"[[handoff-resume:";
const CLOSE: &[u8] = b"[[/handoff-resume:";
const ID_CHARS: usize = 36;

impl Flat<'_> {
    /// The sentinels in the model's sections, in order.
    pub fn sentinels(&self) -> Vec<FoundSentinel> {
        let hits: Vec<usize> = memmem::find_iter(self.span.of(self.body), OPEN)
            .map(|at| self.span.start + at)
            .collect();
        let ends = hits.iter().skip(1).copied().chain([self.span.end]);
        let read = |(&at, next): (&usize, usize)| {
            let section = self.section_of(at).filter(|s| s.kind == Kind::Assistant)?;
            self.read(at, next, section)
        };
        hits.iter().zip(ends).filter_map(read).collect()
    }

    fn section_of(&self, at: usize) -> Option<&Section> {
        let behind = self.sections.partition_point(|s| s.at <= at);
        self.sections.get(behind.checked_sub(1)?)
    }

    fn read(&self, at: usize, next: usize, section: &Section) -> Option<FoundSentinel> {
        let id_at = at + OPEN.len();
        let id = Uuid::try_parse_ascii(self.body.get(id_at..id_at + ID_CHARS)?).ok()?;
        let open = Span::new(at, id_at + ID_CHARS + 2);
        if !self.body[..open.end].ends_with(b"]]") {
            return None;
        }
        // A section further on may quote the closing line of another one, and a short sentinel has none.
        let closed = self.closed(open.end, next.min(self.end_of(section)), id);
        let end = closed.unwrap_or_else(|| {
            let inside = Span::new(section.text, next);
            let mark = Mark {
                span: open,
                kind: MarkKind::Open(id),
            };
            sentinel::read(self.body, inside, &[mark], 0).map_or(open.end, |s| s.rest)
        });
        let rest = self.behind_blanks(end);
        Some(FoundSentinel {
            id,
            at,
            rest,
            closed: closed.is_some(),
        })
    }

    /// Where a section ends: at the next label, or with the transcript.
    fn end_of(&self, section: &Section) -> usize {
        let behind = self.sections.partition_point(|s| s.at <= section.at);
        self.sections.get(behind).map_or(self.span.end, |next| next.at)
    }

    /// Behind the closing line of a sentinel: the first one with a seal, and with no other id.
    fn closed(&self, from: usize, to: usize, id: Uuid) -> Option<usize> {
        let inside = self.body.get(from..to)?;
        let mut ends =
            memmem::find_iter(inside, CLOSE).filter_map(|at| mark::closing_end(inside, at + CLOSE.len(), id));
        ends.next().map(|end| from + end)
    }

    /// Behind the prompt that this sentinel spells out in full, and behind its closing line: the prompt may hold what
    /// looks like a message's beginning.
    fn behind_prompt(&self, found: &FoundSentinel, prompt: &str) -> usize {
        let left = Span::new(found.rest, self.span.end).of(self.body);
        let Some(len) = json::spelled(left, prompt).filter(|_| !found.closed) else {
            return found.rest;
        };
        let end = self.behind_blanks(found.rest + len);
        let closing = self.body[end..self.span.end].starts_with(CLOSE);
        let closed = closing.then(|| mark::closing_end(self.body, end + CLOSE.len(), found.id));
        closed.flatten().map_or(found.rest, |end| self.behind_blanks(end))
    }

    fn behind_blanks(&self, mut at: usize) -> usize {
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

    /// Whether the transcript of a handoff leads up to its sentinel here: everything that stands in front of it was said
    /// in the agent's own requests, by these fingerprints. What somebody quotes has his own words before it.
    pub fn leads_up_to(&self, found: &FoundSentinel, texts: &[u32]) -> bool {
        let known: HashSet<u32> = texts.iter().copied().collect();
        let own = self.sections.partition_point(|s| s.at <= found.at) - 1;
        let whole = self.sections.first().is_some_and(|s| s.at == self.span.start);
        let mut any = false;
        for (i, section) in self.sections[..own].iter().enumerate() {
            if section.kind == Kind::Other {
                continue;
            }
            let raw = Span::new(section.text, self.sections[i + 1].at).of(self.body);
            match fingerprint(raw) {
                Some(print) if known.contains(&print) => any = true,
                Some(_) => return false,
                None => {}
            }
        }
        whole && any
    }

    /// The cut: what goes, and what takes its place.
    pub fn cut(&self, found: &FoundSentinel, prompt: &str) -> (Span, String) {
        let rest = self.behind_prompt(found, prompt);
        let left = &self.body[rest..self.span.end];
        let mut with = self.wording.user.to_owned();
        json::escape_into(prompt, &mut with);
        if !left.is_empty() {
            with.push_str(&escaped(self.wording.gap));
            if label(self.wording, left).is_none() {
                with.push_str(self.wording.assistant);
            }
        }
        (Span::new(self.span.start, rest), with)
    }
}

/// The inside of the first literal that begins with this text.
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

/// The label that `raw` begins with: what it stands for, and its length.
fn label(wording: &Wording, raw: &[u8]) -> Option<(Kind, usize)> {
    let of = |labels: &'static [&'static str], kind| {
        let hit = labels.iter().find(|l| raw.starts_with(l.as_bytes()));
        hit.map(|l| (kind, l.len()))
    };
    // Longer ones first: one label may begin with another.
    of(wording.results, Kind::Shown)
        .or_else(|| of(wording.others, Kind::Other))
        .or_else(|| {
            raw.starts_with(wording.user.as_bytes())
                .then_some((Kind::Shown, wording.user.len()))
        })
        .or_else(|| {
            let hit = raw.starts_with(wording.assistant.as_bytes());
            hit.then_some((Kind::Assistant, wording.assistant.len()))
        })
}

fn sections(wording: &Wording, body: &[u8], span: Span) -> Vec<Section> {
    let mut out = Vec::new();
    let mut line = Some(span.start);
    let mut at = span.start;
    loop {
        if let Some(start) = line.take()
            && let Some((kind, len)) = label(wording, &body[start..span.end])
        {
            out.push(Section {
                kind,
                at: start,
                text: start + len,
            });
        }
        let Some(hit) = memchr::memchr(b'\\', &body[at..span.end]) else {
            return out;
        };
        let (c, used) = json::escape_at(&body[at + hit..span.end]);
        at = (at + hit + used).min(span.end);
        if c == '\n' {
            line = Some(at);
        }
    }
}

/// Fingerprints of the texts in these turns of a transcript, the newest turn first, of each one's first line: what user and
/// model said, and what tools told.
pub fn texts(wire: &dyn Wire, view: &View, turns: Range<usize>) -> Vec<u32> {
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    let end = turns.end.min(view.turns.len());
    for turn in (turns.start.min(end)..end).rev() {
        for part in wire.content(view, turn).parts {
            for text in texts_of(&view.body, &part) {
                out.extend(fingerprint(text.of(&view.body)).filter(|print| seen.insert(*print)));
            }
        }
        if out.len() >= MOST_TEXTS {
            break;
        }
    }
    out.truncate(MOST_TEXTS);
    out
}

/// The insides of the literals in which a part says something. Calls and reasoning have sections of their own, which prove
/// nothing.
fn texts_of(body: &[u8], part: &Part) -> Vec<Span> {
    match (part.kind, part.text) {
        (PartKind::Call | PartKind::Thinking | PartKind::ToolChange, _) => Vec::new(),
        (_, Some(text)) => vec![text],
        (_, None) => {
            let mut all = values(body, part.span);
            all.retain(|text| part.id != Some(*text));
            all
        }
    }
}

/// The insides of all strings in a value that are no keys.
fn values(body: &[u8], span: Span) -> Vec<Span> {
    let mut all = Vec::new();
    let mut at = span.start;
    while let Some(hit) = memchr::memchr(b'"', &body[at..span.end]) {
        let start = at + hit;
        let Ok(end) = json::string_end(body, start) else {
            break;
        };
        if body.get(json::blank(body, end)) != Some(&b':') {
            all.push(Span::new(start, end).inner());
        }
        at = end.min(span.end);
    }
    all
}

/// Of the first line of a text that is not blank; `None` where there is none. FNV-1a: it tells texts apart that nobody
/// made up to be alike.
fn fingerprint(raw: &[u8]) -> Option<u32> {
    let text = json::unescape(&raw[..raw.len().min(LINE_BYTES)]);
    let line = text.lines().map(str::trim).find(|l| !l.is_empty())?;
    let chars = line.chars().take(LINE_CHARS);
    Some(chars.fold(0x811c_9dc5, |hash: u32, c| {
        (hash ^ u32::from(c)).wrapping_mul(0x0100_0193)
    }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::wire::{Operation, WIRES};

    /// A long task of calls: their ids and arguments are no texts, and take no text's place.
    #[test]
    fn the_texts_of_a_long_task_are_all_remembered() {
        let wire = WIRES.iter().find(|w| w.id().name() == "anthropic").unwrap();
        let mut messages = vec![json!({"role": "user", "content": "The first words."})];
        for n in 0..1500 {
            let input = json!({"path": format!("p{n}"), "find": format!("f{n}"), "with": format!("w{n}")});
            let call =
                json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "edit", "input": input});
            let content = [json!({"type": "text", "text": format!("Said {n}.")}), call];
            messages.push(json!({"role": "assistant", "content": content}));
            let shown = json!([{"type": "text", "text": format!("Shown {n}.")}]);
            let result =
                json!({"type": "tool_result", "tool_use_id": format!("toolu_{n}"), "content": shown});
            messages.push(json!({"role": "user", "content": [result]}));
        }
        let body = json!({"model": "m", "max_tokens": 9, "messages": messages}).to_string();
        let view = wire.read(&Bytes::from(body), Operation::Generate).unwrap();
        let known = texts(*wire, &view, 0..view.turns.len());
        for text in ["The first words.", "Said 0.", "Shown 0.", "Shown 1499."] {
            assert!(known.contains(&fingerprint(text.as_bytes()).unwrap()), "{text}");
        }
        for other in ["toolu_7", "tool_use_id", "p7"] {
            assert!(
                !known.contains(&fingerprint(other.as_bytes()).unwrap()),
                "{other}"
            );
        }
    }
}
