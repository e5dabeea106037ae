//! Divides text blocks into the sections to search, without baton's markers, and without harness text in user turns.

use std::ops::Range;

use crate::agents::speakers::Spoken;
use crate::agents::wordings::UserText;
use crate::redact::Redactor;
use crate::text::cut::floor;
use crate::transcript::Transcript;
use crate::wire::Role;

/// Approximate size of a passage in bytes: the content of one excerpt.
const PASSAGE: usize = 800;

/// Length in bytes above which a line is divided.
const LONGEST: usize = 1200;

/// Origin of a section: a speaker or a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextSource {
    User,
    Model,
    /// A carry-over prompt of an earlier handoff.
    CarryOver,
    /// The agent's summary, in a user turn.
    Summary,
    /// A command that the user ran with its output, or another agent's report.
    Report,
    /// The model's call of a tool.
    Call,
    /// The result of a tool.
    Result,
}

/// A section with its origin.
pub(super) type SourceSection = (TextSource, Range<usize>);

/// The sections, and the number of handoffs that they contain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) all: Vec<SourceSection>,
    pub(super) handoffs: u32,
}

/// Kind of a line that baton inserted.
enum OwnLine {
    Opens,
    Closes,
    Aside,
    /// A response from baton itself follows.
    Note,
}

fn ours(line: &str) -> Option<OwnLine> {
    let line = line.trim();
    let rest = line.strip_prefix("[[").filter(|_| line.ends_with("]]"))?;
    [
        ("handoff-resume:", OwnLine::Opens),
        ("/handoff-resume:", OwnLine::Closes),
        ("handoff-aside:", OwnLine::Aside),
        ("handoff-note:", OwnLine::Note),
    ]
    .into_iter()
    .find_map(|(begins, line)| rest.starts_with(begins).then_some(line))
}

/// Divides `text` by origin. In a user turn, `spoken` has its speakers.
pub(super) fn of(text: &str, role: Role, spoken: &[Spoken]) -> Sections {
    // Without a marker there is no need to look at each line.
    let mut found = match memchr::memmem::find(text.as_bytes(), b"handoff-") {
        Some(_) => without_marks(text),
        None => Sections {
            all: vec![(TextSource::Model, 0..text.len())],
            handoffs: 0,
        },
    };
    if role == Role::User {
        let all = std::mem::take(&mut found.all).into_iter();
        found.all = all.flat_map(|section| spoken_in(section, spoken)).collect();
    }
    found
        .all
        // Sections of blanks and punctuation would only be found by chance.
        .retain(|(_, range)| text[range.clone()].chars().any(char::is_alphanumeric));
    found
}

/// The parts of a section by speaker, without harness text.
fn spoken_in((source, range): SourceSection, spoken: &[Spoken]) -> Vec<SourceSection> {
    // baton wrote the carry-over prompt into a user turn, so no speaker is found in it.
    if source == TextSource::CarryOver {
        return vec![(source, range)];
    }
    let stretches = spoken.iter().filter_map(|spoken| {
        let source = match spoken.by {
            UserText::User => TextSource::User,
            UserText::Summary | UserText::Branch => TextSource::Summary,
            UserText::UserShell | UserText::Subagent | UserText::Expansion | UserText::Attached => {
                TextSource::Report
            }
            UserText::Interrupted | UserText::Harness => return None,
        };
        let inside = spoken.range.start.max(range.start)..spoken.range.end.min(range.end);
        (inside.start < inside.end).then_some((source, inside))
    });
    stretches.collect()
}

fn without_marks(text: &str) -> Sections {
    let mut found = Sections::default();
    let (mut source, mut from, mut at) = (TextSource::Model, 0, 0);
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        let next = match ours(line) {
            // Baton wrote the whole message.
            Some(OwnLine::Note) => return Sections::default(),
            Some(OwnLine::Opens) => {
                found.handoffs += 1;
                TextSource::CarryOver
            }
            Some(OwnLine::Closes) => TextSource::Model,
            Some(OwnLine::Aside) => source,
            // The line for the user, directly after the opening line.
            None if source == TextSource::CarryOver && from == start && line.starts_with("*Handed over") => {
                source
            }
            None => continue,
        };
        found.all.push((source, from..start));
        (source, from) = (next, end);
    }
    // Without a closing line, the end of the carry-over prompt is unknown, so the rest of the text belongs to its section.
    found.all.push((source, from..text.len()));
    found
}

/// Divides a section into passages of whole lines; only overlong lines are split.
pub(super) fn passages(text: &str, section: Range<usize>) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    let (mut from, mut at) = (section.start, section.start);
    for line in text[section].split_inclusive('\n') {
        let end = at + line.len();
        if at > from && end - from > PASSAGE {
            out.push(from..at);
            from = at;
        }
        at = end;
        while at - from > LONGEST {
            let cut = divided(text, from, from + PASSAGE);
            out.push(from..cut);
            from = cut;
        }
    }
    if at > from {
        out.push(from..at);
    }
    out.retain(|range| text[range.clone()].chars().any(char::is_alphanumeric));
    out
}

/// A position for splitting a line: between two words at or before `most` if possible.
fn divided(text: &str, from: usize, most: usize) -> usize {
    let end = floor(text, most);
    let near = text[from..end].rfind(char::is_whitespace).filter(|at| *at > 0);
    near.map_or(end, |at| from + at)
}

/// The part of a request that the model no longer sees.
#[derive(Clone, Copy)]
pub struct CutPart<'a> {
    pub transcript: Transcript<'a>,
    /// Offset in the request's body; everything before it was cut.
    pub end: usize,
}

/// Settings of an index, constant for its life.
#[derive(Debug, Clone, Default)]
pub struct RecallIndexSettings {
    /// Beginnings of harness text (`handoff.preamble_tags`).
    pub tags: Vec<String>,
    /// Removes credentials from quoted text.
    pub redactor: Redactor,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::speakers::{SpeakerSettings, Speakers, TurnPiece};

    fn parts(text: &str, role: Role) -> Vec<(TextSource, &str)> {
        let tags = ["<mine>".to_owned()];
        let settings = SpeakerSettings {
            tags: &tags,
            ..SpeakerSettings::default()
        };
        let spoken = Speakers::default().turn(&settings, &[TurnPiece::Text(text)]);
        let sections = of(text, role, &spoken[0]);
        let all = sections.all.into_iter();
        all.map(|(source, range)| (source, text[range].trim())).collect()
    }

    #[test]
    fn lines_of_ours_are_no_text_and_an_earlier_carry_over_is() {
        let text = "Done with that.\n\n[[handoff-resume:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\n*Handed over: done. From here on \
                    the model knows only what follows.*\n\nGoal: skip BOMs.\n[[/handoff-resume:VR-iunEUwURMLNGuL8sekw]]\n\nFresh.\n\
                    [[handoff-aside:0199a3c2-7d1e-7c3a-9b1f-2f6f0c9d8e11]]\nSo be it.";
        assert_eq!(
            parts(text, Role::Assistant),
            [
                (TextSource::Model, "Done with that."),
                (TextSource::CarryOver, "Goal: skip BOMs."),
                (TextSource::Model, "Fresh."),
                (TextSource::Model, "So be it."),
            ]
        );
        assert_eq!(of(text, Role::Assistant, &[]).handoffs, 1);
        assert!(parts("[[handoff-note:0199]]\nHandoffs: 3", Role::Assistant).is_empty());
    }

    #[test]
    fn only_the_users_own_words_are_the_users() {
        let both = "<system-reminder>\nrules\n</system-reminder>\nKeep it small.";
        assert_eq!(parts(both, Role::User), [(TextSource::User, "Keep it small.")]);
        assert!(parts("<mine>rules</mine>", Role::User).is_empty());
        assert!(parts("[Request interrupted by user]", Role::User).is_empty());
        let printed = "<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>";
        assert_eq!(parts(printed, Role::User), [(TextSource::Report, printed)]);
    }

    #[test]
    fn passages_are_whole_lines_and_long_lines_are_divided() {
        let line = format!("{}\n", "word ".repeat(60));
        let text = line.repeat(9) + &"x".repeat(5_000) + " end ü";
        let all = passages(&text, 0..text.len());
        assert_eq!(all.first().unwrap().end, 2 * line.len());
        assert!(all.iter().all(|range| range.len() <= LONGEST), "{all:?}");
        assert!(all.windows(2).all(|two| two[0].end == two[1].start));
        assert_eq!(all.last().unwrap().end, text.len());
    }
}
