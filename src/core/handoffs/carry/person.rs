//! The person's own words of a transcript: user text without what the harness, a shell or a paste put into it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::agents::speakers::SpeakerSettings;
use crate::agents::wordings;
use crate::mark::STEM;
use crate::text::table;
use crate::transcript::{AgentKind, SaidPart, Transcript};
use crate::wire::Role;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct PasteWords {
    own_tags: Vec<&'static str>,
    introduces: Vec<&'static str>,
    file_headings: Vec<&'static str>,
}

static WORDS: LazyLock<PasteWords> = LazyLock::new(|| table::read(include_str!("pastes.toml")));

/// How a pasted sentinel begins and ends.
const SENTINEL: &str = "[[handoff-resume:";
const SENTINEL_ENDS: &str = "[[/handoff-resume:";

/// The texts of the person in a transcript, oldest first.
#[derive(Debug, Default)]
pub struct PersonTexts(pub(super) Vec<String>);

impl PersonTexts {
    /// Reads a transcript. `tags`: how texts of a harness begin. `carry_over`: the prompt that the transcript may begin
    /// with in a user's place.
    pub fn of(transcript: &Transcript<'_>, tags: &[String], carry_over: Option<&str>) -> Self {
        let carry_overs: Vec<String> = carry_over.map(str::to_owned).into_iter().collect();
        let mut reader = transcript.said_by(SpeakerSettings {
            tags,
            backslashes: transcript.agent() == Some(AgentKind::GeminiCli),
            carry_overs: &carry_overs,
        });
        let mut texts = Vec::new();
        let mut newest = 0;
        for turn in transcript.turns() {
            let said = reader.next_turn(&turn);
            match turn.role {
                Role::User | Role::Tool => {
                    newest = texts.len();
                    let own = said.iter().map(SaidPart::users_words);
                    texts.extend(
                        own.filter(|own| !own.is_empty())
                            .map(|own| without_sentinels(&own)),
                    );
                }
                // The text before it was a summary of the agent's.
                Role::Assistant if texts.len() > newest && is_after_summary(&said) => texts.truncate(newest),
                _ => {}
            }
        }
        Self(texts)
    }

    /// Their lines: a paste is left out of each text.
    pub(super) fn lines(&self) -> impl Iterator<Item = Vec<&str>> {
        self.0.iter().map(|text| typed(text))
    }
}

fn is_after_summary(said: &[SaidPart<'_>]) -> bool {
    said.first()
        .is_some_and(|first| wordings::follows_summary(&first.text))
}

/// A text without the sentinels that a person pasted, each with the carry-over prompt after it.
fn without_sentinels(text: &str) -> String {
    // Found once: a text may have any number of beginnings without an end.
    let last_end = text.rfind(SENTINEL_ENDS).unwrap_or_default();
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SENTINEL) {
        // With the mark of a quotation in front of it.
        kept.push_str(before.trim_end_matches(['>', ' ']));
        kept.push('\n');
        let has_end = text.len() - after.len() <= last_end;
        rest = match has_end.then(|| after.split_once(SENTINEL_ENDS)).flatten() {
            Some((_, end)) => end.split_once("]]").map_or("", |(_, rest)| rest),
            None => {
                let below = after.split_once('\n').map_or("", |(_, below)| below);
                // A block that was cut off: where it ends is not known.
                let is_block = below.trim_start().starts_with("*Handed over");
                if is_block { "" } else { below }
            }
        };
    }
    kept + rest
}

/// The lines that a person typed: no code, quotation, tagged block, numbered listing, mark of ours, or what follows the
/// heading of a file or an announcement of one. What is quoted may contain the end of a quotation, so that code ends with
/// the last fence, and a block with the last closing tag of its name.
fn typed(text: &str) -> Vec<&str> {
    let closed = closed_tags(text);
    let fences = text.lines().filter(|line| is_fence(line)).count();
    let mut lines = Vec::new();
    let (mut fence, mut at) = (0, 0);
    let mut block_end = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        if start < block_end {
            continue;
        }
        let line = line.trim_end_matches(['\n', '\r']);
        let trimmed = line.trim();
        if is_fence(trimmed) {
            fence += 1;
            continue;
        }
        let is_fenced = fence > 0 && (fence < fences || fences % 2 == 1);
        if is_fenced
            || trimmed.is_empty()
            || trimmed.starts_with('>')
            || is_listing(trimmed)
            || is_mark(trimmed)
        {
            continue;
        }
        if let Some(name) = tag(trimmed) {
            let is_own = WORDS.own_tags.contains(&name);
            let end = closed.get(name).copied().unwrap_or_default();
            if !is_own && end > start {
                block_end = end;
            }
            let inside = trimmed.trim_start_matches(|c| c != '>').trim_start_matches('>');
            let inside = inside
                .split_once("</")
                .map_or(inside, |(inside, _)| inside)
                .trim();
            if is_own && !inside.is_empty() {
                lines.push(inside);
            }
            continue;
        }
        if is_file_heading(trimmed) {
            break;
        }
        let is_code = line.starts_with("    ") || line.starts_with('\t');
        if !is_code || trimmed.starts_with(['-', '*', '•']) {
            lines.push(trimmed);
        }
        if introduces_paste(trimmed) {
            break;
        }
    }
    lines
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~")
}

/// The names of the tags that are closed anywhere in a text, and where each is closed last.
fn closed_tags(text: &str) -> HashMap<&str, usize> {
    let mut pieces = text.split("</");
    let mut at = pieces.next().map_or(0, str::len);
    let mut closed = HashMap::new();
    for piece in pieces {
        if let Some((name, _)) = piece.split_once('>') {
            closed.insert(name, at);
        }
        at += "</".len() + piece.len();
    }
    closed
}

/// The name of a tag that opens or closes at the start of a line.
fn tag(line: &str) -> Option<&str> {
    let name = line.strip_prefix("</").or_else(|| line.strip_prefix('<'))?;
    let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | ':')))?;
    let is_name = end > 0 && name[end..].starts_with(['>', ' ', '/']);
    is_name.then(|| &name[..end])
}

/// Whether a line is one of a file with its number: `12→text`, `12 | text`.
fn is_listing(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && (rest.starts_with(['→', '\t', '|']) || rest.starts_with(" |"))
}

/// Whether a line begins with a mark of ours, broken up or not. A seal may begin with `No-`, which would read as a rule.
fn is_mark(line: &str) -> bool {
    let inside = line.trim_start_matches(['-', '*', '•', ' ']).strip_prefix("[[");
    inside.is_some_and(|text| text.trim_start_matches('/').as_bytes().starts_with(STEM))
}

/// Whether a line names a file and nothing else, or is one of the usual headings over a file's text.
fn is_file_heading(line: &str) -> bool {
    let bare = line.trim_matches(['#', '*', '`', '=', '-', '+', ' ', ':']);
    let is_path = !bare.is_empty()
        && !bare.contains(char::is_whitespace)
        && bare.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty()
                && (1..=5).contains(&ending.len())
                && ending.bytes().all(|b| b.is_ascii_alphanumeric())
                && !ending.bytes().all(|b| b.is_ascii_digit())
        });
    let small = line.to_lowercase();
    is_path || WORDS.file_headings.iter().any(|begins| small.starts_with(begins))
}

/// Whether a line says that what follows it is pasted.
fn introduces_paste(line: &str) -> bool {
    let small = line.to_lowercase();
    line.ends_with(':') && WORDS.introduces.iter().any(|words| small.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_typed_is_the_persons() {
        let text = "Port it. Never touch the API.\n\n```\nnever in code\n```\n> never quoted\n<file path=\"a\">\nnever in a \
                    file\n</file>\n  12→never listed\n    never indented\n    - in a list\nThen stop.";
        assert_eq!(
            typed(text),
            ["Port it. Never touch the API.", "- in a list", "Then stop."]
        );
        for (pasted, kept) in [
            ("Mend it.\n\nREADME.md\nNever do that.", 1),
            ("Mend it.\n### src/a.rs\nNever do that.", 1),
            ("Here is the log:\nNever do that.", 1),
            ("--- a/b.rs\nNever do that.", 0),
            ("Rules:\nNever do that.", 2),
            (
                "<task>\nNever do that.\n</task>\n<environment_details>\nNever.\n</environment_details>",
                1,
            ),
            ("<task>Never do that.</task>", 1),
            ("<b\nNever do that.", 2),
            ("Go on.\n- [[/handoff-resume\\:No-Syrljfxp4i5Lhc5Dd6A]]", 1),
            ("[[/handoff-resume:No-Syrljfxp4i5Lhc5Dd6A]]", 0),
        ] {
            assert_eq!(typed(pasted).len(), kept, "{pasted}: {:?}", typed(pasted));
        }
    }

    #[test]
    fn a_pasted_sentinel_is_none_of_the_persons_words() {
        let id = "[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]";
        for (text, own) in [
            (
                format!("{id}\n*Handed over.*\n\nNever x.\n[[/handoff-resume:abc]]\nGo on."),
                "Go on.",
            ),
            (format!("> {id}\nGo on."), "Go on."),
            (format!("{id}\n*Handed over.*\n\nNever x."), ""),
            (format!("What is {id}?"), "What is"),
            (
                format!(
                    "See:\n{id}\n*Handed over.*\n\nNever x.\n[[/handoff-resume:abc]]\n\n{id}\n*Handed over.*\n\nNever y."
                ),
                "See:",
            ),
        ] {
            let left = without_sentinels(&text);
            assert!(
                left.trim().starts_with(own) && !left.contains("Never"),
                "{text}: {left}"
            );
        }
    }
}
