//! Decides who speaks in each text block of a user-role turn. Chat commands, rules, drafts, search and
//! documents all use it.
//!
//! A file, a result or a block of the harness may contain anything, including closing tags and commands. So a
//! block ends at the last closing tag of its name, and the parts of a turn are read as one sequence. After
//! the beginning of an attached file, or of a result as text, nothing in the turn is the user's. If in doubt,
//! a block is not attributed to the user.

mod attached;
mod blocks;
mod interjected;
mod replies;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::attached::Attachment;
use self::blocks::Invocation;
use super::wordings::{self, UserText};
use super::{goals, user_shell};

pub use self::interjected::{AgentsCall, INTERJECTION, Interjection, in_reminder, interjected, reminders};
pub use self::replies::{REPLY_BEGINNING, may_be_reply, may_have_replies, replies};

/// Beginning of a result that the text of a skill follows (Claude Code).
const LAUNCHES: &str = "Launching skill: ";

/// Number of bytes at the start of a result that are enough to recognize it.
pub const RESULT_BEGINNING: usize = 64;

/// Maximum number of harness blocks read at the start of a block of text. With more of them, all of it counts as
/// the harness's.
const MAX_BLOCKS: usize = 64;

/// A range of a block of text, and its speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoken {
    pub by: UserText,
    pub range: Range<usize>,
}

/// One part of a turn.
#[derive(Debug, Clone, Copy)]
pub enum TurnPiece<'t> {
    Text(&'t str),
    /// A tool result with its first [`RESULT_BEGINNING`] bytes.
    Result(&'t str),
    Other,
}

/// Facts about the agent whose turns are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpeakerSettings<'s> {
    /// Further beginnings of the harness's messages.
    pub tags: &'s [String],
    /// Whether the agent escapes commands that the user ran with backslashes.
    pub backslashes: bool,
    /// Carry-over prompts that may appear in user-role turns.
    pub carry_overs: &'s [String],
}

impl<'s> SpeakerSettings<'s> {
    /// Settings with only these beginnings.
    pub fn tagged(tags: &'s [String]) -> Self {
        Self {
            tags,
            ..Self::default()
        }
    }
}

/// Reads the turns of a transcript in order.
#[derive(Debug, Default)]
pub struct Speakers {
    /// The invocation whose expansion may be the next text.
    next: Option<Invocation>,
    /// Whether the model has spoken.
    has_begun: bool,
}

/// How a turn continues after one of its text blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The following text blocks are judged on their own.
    Open,
    /// An attached file, or a result as text, has begun.
    Attached,
    /// The result of a question to the user has begun. Only its elements hold the user's words.
    Replied,
}

impl Speakers {
    /// Records a model turn. No expansion can follow it.
    pub fn model_spoke(&mut self) {
        self.next = None;
        self.has_begun = true;
    }

    /// Returns the ranges of each part of a user-role turn, in order, without blank ones.
    pub fn turn(&mut self, settings: &SpeakerSettings<'_>, pieces: &[TurnPiece<'_>]) -> Vec<Vec<Spoken>> {
        let is_text =
            |piece: &TurnPiece<'_>| matches!(piece, TurnPiece::Text(text) if !text.trim().is_empty());
        // Blank blocks do not count, because they cannot hold the user's words.
        let last = pieces.iter().rposition(is_text);
        let mut rest = Rest::Open;
        let all = pieces.iter().enumerate().map(|(at, piece)| match piece {
            TurnPiece::Text(text) => {
                let mut turn = TurnReader {
                    speakers: self,
                    settings,
                    is_last: Some(at) == last,
                    rest: &mut rest,
                    found: Vec::new(),
                };
                turn.read(text);
                let mut found = turn.found;
                found.retain(|spoken| !text[spoken.range.clone()].trim().is_empty());
                found
            }
            TurnPiece::Result(beginning) => {
                // The text of a launched skill has no name or arguments to compare.
                self.next = beginning.starts_with(LAUNCHES).then(Invocation::default);
                Vec::new()
            }
            TurnPiece::Other => Vec::new(),
        });
        all.collect()
    }
}

/// Reads the text blocks of one turn.
struct TurnReader<'r> {
    speakers: &'r mut Speakers,
    settings: &'r SpeakerSettings<'r>,
    /// Whether no other text block follows in the turn.
    is_last: bool,
    rest: &'r mut Rest,
    found: Vec<Spoken>,
}

impl TurnReader<'_> {
    fn push(&mut self, by: UserText, range: Range<usize>) {
        self.found.push(Spoken { by, range });
    }

    fn read(&mut self, text: &str) {
        match *self.rest {
            Rest::Attached => return self.push(UserText::Attached, 0..text.len()),
            Rest::Replied => return self.replied(text, 0),
            Rest::Open => {}
        }
        let expanded = match text.trim().is_empty() {
            true => None,
            false => self.speakers.next.take(),
        };
        if let Some((invocation, args)) = blocks::invocation(text) {
            // An invocation after another one, or after a result, comes from the model or a file.
            let args = args
                .filter(|_| expanded.is_none())
                .unwrap_or(text.len()..text.len());
            self.push(UserText::Harness, 0..args.start);
            self.push(UserText::User, args.clone());
            self.push(UserText::Harness, args.end..text.len());
            self.speakers.next = invocation;
            return;
        }
        match expanded {
            // A reminder may stand between the command and its expansion, so the expansion is still to come.
            Some(invocation) if blocks::harness_len(text.trim_start(), self.settings.tags).is_some() => {
                self.push(UserText::Harness, 0..text.len());
                self.speakers.next = Some(invocation);
            }
            Some(invocation) if invocation.is_all_of(text) => self.push(UserText::User, 0..text.len()),
            Some(_) => self.push(UserText::Expansion, 0..text.len()),
            None => self.divide(text),
        }
    }

    /// Reads the harness blocks at the start of a block of text.
    ///
    /// Stops at the user's words, or at a speaker who has the whole rest.
    fn divide(&mut self, text: &str) {
        let carried = carried_over(text, self.settings.carry_overs).unwrap_or_default();
        let mut at = carried.end;
        self.push(UserText::Harness, 0..carried.start);
        self.push(UserText::Summary, carried);
        for _ in 0..MAX_BLOCKS {
            at = text.len() - text[at..].trim_start().len();
            let rest = &text[at..];
            if rest.is_empty() {
                return;
            }
            if let Some((_, after)) = user_shell::read(rest, self.settings.backslashes) {
                let end = text.len() - after.len();
                self.push(UserText::UserShell, at..end);
                at = end;
            } else if let Some(typed) = interjected::in_reminder(rest) {
                self.push(UserText::Harness, at..at + typed.start);
                self.push(UserText::User, at + typed.start..at + typed.end);
                // The block holds a single message, so the rest is the harness's explanation.
                return self.push(UserText::Harness, at + typed.end..text.len());
            } else if let Some((by, len)) = blocks::at_start(rest, self.settings.tags) {
                match blocks::task(rest).filter(|_| !self.speakers.has_begun) {
                    Some(task) => self.push(UserText::Summary, at + task.start..at + task.end),
                    None => self.push(by, at..at + len),
                }
                at += len;
                // If another text block follows, only that one can be the user's.
                if !self.is_last && by == UserText::Harness {
                    return self.push(UserText::Harness, at..text.len());
                }
            } else {
                return match wordings::user_text(rest, self.settings.tags) {
                    UserText::User => self.user(text, at),
                    by => self.push(by, at..text.len()),
                };
            }
        }
        self.push(UserText::Harness, at..text.len());
    }

    /// Reads the user's words from `at` on, up to the content that the agent attached to them.
    fn user(&mut self, text: &str, at: usize) {
        let end = at + wordings::before_notices(&text[at..]).len();
        let mut from = at;
        while let Some((start, attachment)) = attached::first(&text[from..end]) {
            let start = from + start;
            self.push(UserText::User, from..start);
            match attachment {
                Attachment::Element(len) => {
                    self.push(UserText::Attached, start..start + len);
                    from = start + len;
                }
                Attachment::Turn => {
                    *self.rest = Rest::Attached;
                    return self.push(UserText::Attached, start..text.len());
                }
                Attachment::Text(by) => return self.push(by, start..text.len()),
                Attachment::Reply => {
                    *self.rest = Rest::Replied;
                    return self.replied(text, start);
                }
            }
        }
        self.push(UserText::User, from..end);
        self.push(UserText::Harness, end..text.len());
    }

    /// Reads the user's words in the result of a question to the user.
    fn replied(&mut self, text: &str, at: usize) {
        let typed = attached::reply(&text[at..])
            .map_or(text.len()..text.len(), |typed| at + typed.start..at + typed.end);
        self.push(UserText::Harness, at..typed.start);
        self.push(UserText::User, typed.clone());
        self.push(UserText::Harness, typed.end..text.len());
    }
}

/// Range of the carry-over prompt at the start of a block of text. Pins and the goal may precede it.
fn carried_over(text: &str, carry_overs: &[String]) -> Option<Range<usize>> {
    let rest = goals::without_stated(wordings::after_pins(text.trim_start()));
    let mut prompts = carry_overs.iter().map(|prompt| prompt.trim());
    let prompt = prompts.find(|prompt| !prompt.is_empty() && rest.starts_with(prompt))?;
    let start = text.len() - rest.len();
    Some(start..start + prompt.len())
}
