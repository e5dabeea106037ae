//! The index: passages of what was cut, and which words are in each.

use std::collections::HashMap;

use super::calls::{self, CallHistory, CallOutcome};
use super::sections::{self, TextSource};
use super::{CutPart, RecallIndexSettings};
use crate::agents::tools::ToolKind;
use crate::agents::wordings::before_reminders;
use crate::text::json;
use crate::text::vocabulary::Vocabulary;
use crate::text::words::{self, WordKind};
use crate::transcript::{
    AgentKind, AnsweredCalls, ToolUse, TranscriptPart, TranscriptPartKind, TranscriptTurn,
};
use crate::wire::Role;

/// A passage. Its text is in the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    /// The message and its part.
    pub(super) turn: u32,
    pub(super) part: u32,
    /// Bytes of the part's text.
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) source: TextSource,
    /// The call that it is, or that it answers.
    pub(super) call: Option<u32>,
    /// How many words it has.
    pub(super) words: u32,
}

/// A message that was read.
#[derive(Debug, Clone)]
struct MessageEntry {
    /// Number of the person's requests so far, this message included.
    person_turns: u32,
    /// Handoffs in it and in front of it.
    handoffs: u32,
}

/// What is known of the part of a conversation that was cut: words and their places. What is quoted is read from the request
/// again.
#[derive(Debug, Default)]
pub struct RecallIndex {
    agent: Option<AgentKind>,
    turns: Vec<MessageEntry>,
    pub(super) passages: Vec<Passage>,
    pub(super) vocabulary: Vocabulary,
    pub(super) calls: CallHistory,
    /// Words in all passages.
    words: u64,
}

impl RecallIndex {
    /// The index of a part that was cut.
    pub fn of(cut: &CutPart<'_>, settings: &RecallIndexSettings) -> Self {
        let mut index = Self {
            agent: cut.transcript.agent(),
            ..Self::default()
        };
        let answered = cut.transcript.answered_calls();
        let mut calls = HashMap::new();
        for turn in cut.transcript.turns().take(cut.turns()) {
            index.read(cut, settings, &turn, &answered, &mut calls);
        }
        index
    }

    /// Number of the person's requests up to this message: its turn, from 1.
    pub(super) fn person_turn(&self, turn: usize) -> u32 {
        self.turns.get(turn).map_or(0, |read| read.person_turns).max(1)
    }

    /// The next handoff after this message, from 1.
    pub(super) fn handoff(&self, turn: usize) -> u32 {
        self.turns.get(turn).map_or(0, |read| read.handoffs) + 1
    }

    /// How many turns and handoffs there are, the last handoff counted that cut all this.
    pub(super) fn extent(&self) -> (u32, u32) {
        let last = self.turns.len().saturating_sub(1);
        (self.person_turn(last), self.handoff(last))
    }

    /// How many words a passage has in the mean.
    pub(super) fn mean(&self) -> f32 {
        (self.words as f32 / self.passages.len().max(1) as f32).max(1.0)
    }

    /// Reads the next message. `answered`: the calls that results answer; `calls`: those before, by where their parts begin.
    fn read(
        &mut self,
        cut: &CutPart<'_>,
        settings: &RecallIndexSettings,
        turn: &TranscriptTurn<'_>,
        answered: &AnsweredCalls<'_>,
        calls: &mut HashMap<(usize, usize), usize>,
    ) {
        let at = self.turns.len();
        let before = self
            .turns
            .last()
            .map_or((0, 0), |read| (read.person_turns, read.handoffs));
        let (mut person_turn, mut handoffs) = before;
        if turn.role.is_spoken() {
            for (n, part) in turn.parts().iter().enumerate() {
                let Some(here) = cut.reaches(part) else { break };
                match part.kind {
                    TranscriptPartKind::Text(_) => {
                        let text = text_of(part, here);
                        let found = sections::of(&text, turn.role, &settings.tags);
                        let asks =
                            |source: &TextSource| matches!(source, TextSource::Person | TextSource::Summary);
                        let opens =
                            turn.role == Role::User && found.all.iter().any(|(source, _)| asks(source));
                        if opens && person_turn == before.0 {
                            person_turn += 1;
                        }
                        handoffs += found.handoffs;
                        for (source, range) in found.all {
                            self.add((at, n), source, &text, &range, None);
                        }
                    }
                    TranscriptPartKind::Call(call) if here.is_none() => {
                        let (called, spoken) = calls::read(&call, at, settings.redactor.secret_files());
                        let own = called.kind == ToolKind::Own;
                        let call = self.calls.add(called);
                        calls.insert((at, part.span.start), call);
                        if !own {
                            self.add((at, n), TextSource::Call, &spoken, &(0..spoken.len()), Some(call));
                        }
                    }
                    TranscriptPartKind::Result(_) if here.is_none() => {
                        let used = answered.get(&(at, part.span.start));
                        let call = used
                            .and_then(|used| Some((*calls.get(&(used.turn, used.part.span.start))?, used)));
                        self.result((at, n), part, call);
                    }
                    _ => {}
                }
            }
        }
        self.turns.push(MessageEntry {
            person_turns: person_turn,
            handoffs,
        });
    }

    /// `used`: the call that it answers, with its number.
    fn result(
        &mut self,
        place: (usize, usize),
        part: &TranscriptPart<'_>,
        used: Option<(usize, &ToolUse<'_>)>,
    ) {
        let call = used.map(|(call, _)| call);
        if let Some((call, used)) = used {
            let end = used.end(self.agent);
            let outcome = match end.failed {
                Some(true) => CallOutcome::Failed(end.code),
                Some(false) => CallOutcome::Succeeded,
                None => CallOutcome::Unknown,
            };
            self.calls.settle(call, place.0, outcome);
        }
        let called = call.and_then(|call| self.calls.get(call));
        if called.is_some_and(|called| called.secret || matches!(called.kind, ToolKind::Own | ToolKind::Todo))
        {
            return;
        }
        let text = result_text(part);
        self.add(place, TextSource::Result, &text, &(0..text.len()), call);
    }

    /// Adds the passages of a section of a part.
    fn add(
        &mut self,
        (turn, part): (usize, usize),
        source: TextSource,
        text: &str,
        section: &std::ops::Range<usize>,
        call: Option<usize>,
    ) {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        // A result is found by what was called, too; a call says that itself.
        let about = match (source, call.and_then(|call| self.calls.get(call))) {
            (TextSource::Result, Some(called)) => called.about.clone(),
            (TextSource::Call, Some(called)) => called.name.clone(),
            _ => String::new(),
        };
        for range in sections::passages(text, section) {
            let passage = number(self.passages.len());
            let mut count = 0;
            let vocabulary = &mut self.vocabulary;
            for text in [&text[range.clone()], &about] {
                words::each(text, &mut |kind, word| {
                    count += u32::from(kind == WordKind::Whole);
                    vocabulary.add(word, passage);
                });
            }
            self.words += u64::from(count);
            self.passages.push(Passage {
                turn: number(turn),
                part: number(part),
                start: number(range.start),
                end: number(range.end),
                source,
                call: call.map(number),
                words: count,
            });
        }
    }
}

impl<'a> CutPart<'a> {
    /// How many messages it reaches into.
    pub(super) fn turns(&self) -> usize {
        let mut turns = self.transcript.turns();
        turns
            .position(|turn| turn.span.start >= self.end)
            .unwrap_or(self.transcript.len())
    }

    /// Whether it reaches a part: `None` where it does not, `Some(Some(bytes))` where it ends inside of its text, after
    /// so many bytes.
    fn reaches(&self, part: &TranscriptPart<'_>) -> Option<Option<usize>> {
        // Calls may be next to the content, in front of it or after it; what begins after the end is not reached.
        if part.span.start >= self.end {
            return None;
        }
        if part.span.end <= self.end {
            return Some(None);
        }
        let TranscriptPartKind::Text(text) = part.kind else {
            return Some(Some(0));
        };
        Some(Some(
            self.end.saturating_sub(text.span.start).min(text.span.len()),
        ))
    }

    /// The part of a text that was cut: what passages are made of.
    pub(super) fn text(&self, part: &TranscriptPart<'_>) -> String {
        match part.kind {
            TranscriptPartKind::Text(_) => text_of(part, self.reaches(part).flatten()),
            TranscriptPartKind::Call(call) => calls::read(&call, 0, &[]).1,
            TranscriptPartKind::Result(_) => result_text(part),
            _ => String::new(),
        }
    }
}

/// A text without its escapes; this many bytes of it where not all of it counts.
fn text_of(part: &TranscriptPart<'_>, bytes: Option<usize>) -> String {
    match (part.kind, bytes) {
        (TranscriptPartKind::Text(text), None) => text.get().into_owned(),
        (TranscriptPartKind::Text(text), Some(bytes)) => json::unescape(&text.raw()[..bytes]).into_owned(),
        _ => String::new(),
    }
}

/// What a tool returned, without what the harness has put after it.
fn result_text(part: &TranscriptPart<'_>) -> String {
    let mut text = part.text();
    text.truncate(before_reminders(&text).len());
    text
}
