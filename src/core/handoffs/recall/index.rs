//! The index: passages of the cut part, the words of each, and the calls with their outcomes.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use serde_json::Value;

use super::sections::{self, TextSource};
use super::{CutPart, RecallIndexSettings};
use crate::agents::ending::LineEnd;
use crate::agents::speakers::SpeakerSettings;
use crate::agents::tools::{self, ToolKind};
use crate::agents::wordings::before_reminders;
use crate::agents::{files, secret_files};
use crate::text::json;
use crate::text::vocabulary::Vocabulary;
use crate::text::words::{self, WordKind};
use crate::transcript::{
    AgentKind, SaidPart, ToolCall, ToolUse, TranscriptPart, TranscriptPartKind, TranscriptTurn,
};
use crate::wire::Role;

/// A passage of a part's text.
#[derive(Debug)]
pub(super) struct Passage {
    /// Indexes of the message and of its part.
    pub(super) turn: usize,
    pub(super) part: usize,
    /// The part's text, and the byte range of the passage.
    pub(super) text: Rc<str>,
    pub(super) range: Range<usize>,
    pub(super) source: TextSource,
    /// Number of the call whose arguments or result the passage is from.
    pub(super) call: Option<usize>,
    /// Number of words.
    pub(super) words: u32,
}

/// A message that was read.
#[derive(Debug, Clone)]
struct MessageEntry {
    /// Number of the user's requests up to and including this message.
    user_turns: u32,
    /// Number of handoffs up to and including this message.
    handoffs: u32,
}

/// Index of the cut part of a conversation: passages, words and their positions.
#[derive(Debug)]
pub struct RecallIndex<'a> {
    pub(super) settings: &'a RecallIndexSettings,
    agent: Option<AgentKind>,
    turns: Vec<MessageEntry>,
    pub(super) passages: Vec<Passage>,
    pub(super) vocabulary: Vocabulary,
    pub(super) calls: Vec<RecalledCall>,
    /// Words in all passages.
    words: u64,
}

impl<'a> RecallIndex<'a> {
    /// Indexes a part that was cut.
    pub fn new(cut: &CutPart<'_>, settings: &'a RecallIndexSettings) -> Self {
        let mut index = Self {
            settings,
            agent: cut.transcript.agent(),
            turns: Vec::new(),
            passages: Vec::new(),
            vocabulary: Vocabulary::default(),
            calls: Vec::new(),
            words: 0,
        };
        let mut calls = HashMap::new();
        let turns = cut.transcript.turns();
        let mut reader = cut.transcript.said_by(SpeakerSettings {
            tags: &settings.tags,
            backslashes: index.agent == Some(AgentKind::GeminiCli),
            carry_overs: &[],
        });
        for turn in turns.take_while(|turn| turn.span.start < cut.end) {
            let said = reader.next_turn(&turn);
            index.read(cut, (&turn, &said), &mut calls);
        }
        index
    }

    /// The user turn of this message, from 1: the number of the user's requests up to it.
    pub(super) fn user_turn(&self, turn: usize) -> u32 {
        self.turns.get(turn).map_or(0, |read| read.user_turns).max(1)
    }

    /// The number of the next handoff after this message, from 1.
    pub(super) fn handoff(&self, turn: usize) -> u32 {
        self.turns.get(turn).map_or(0, |read| read.handoffs) + 1
    }

    /// The call with this number in the newest part between two handoffs that has so many, as drafts count them.
    pub(super) fn call_at(&self, number: usize) -> Option<usize> {
        let (mut found, mut part, mut count) = (None, 0, 0);
        for (at, called) in self.calls.iter().enumerate() {
            let here = self.handoff(called.turn);
            if std::mem::replace(&mut part, here) != here {
                count = 0;
            }
            count += usize::from(called.kind != ToolKind::Own);
            if count == number && called.kind != ToolKind::Own {
                found = Some(at);
            }
        }
        found
    }

    /// Numbers of turns and of handoffs, including the handoff that made the last cut.
    pub(super) fn extent(&self) -> (u32, u32) {
        let last = self.turns.len().saturating_sub(1);
        (self.user_turn(last), self.handoff(last))
    }

    /// Mean number of words in a passage, at least 1.
    pub(super) fn mean(&self) -> f32 {
        (self.words as f32 / self.passages.len().max(1) as f32).max(1.0)
    }

    /// Reads the next message.
    ///
    /// `calls` maps positions of earlier calls to their numbers.
    fn read(
        &mut self,
        cut: &CutPart<'_>,
        (turn, said): (&TranscriptTurn<'_>, &[SaidPart<'_>]),
        calls: &mut HashMap<(usize, usize), usize>,
    ) {
        let at = self.turns.len();
        let before = self
            .turns
            .last()
            .map_or((0, 0), |read| (read.user_turns, read.handoffs));
        let (mut user_turn, mut handoffs) = before;
        if turn.role.is_spoken() {
            for (n, said) in said.iter().enumerate() {
                let part = &said.part;
                let Some(here) = cut.reaches(part) else { break };
                match part.kind {
                    TranscriptPartKind::Text(text) => {
                        let text: Rc<str> = match here {
                            None => said.text.as_ref().into(),
                            // The cut is in this string; only the part before it is out of the model's sight.
                            Some(bytes) => json::unescape(&text.raw()[..bytes]).into(),
                        };
                        let found = sections::of(&text, turn.role, &said.spoken);
                        let asks =
                            |source: &TextSource| matches!(source, TextSource::User | TextSource::Summary);
                        let opens =
                            turn.role == Role::User && found.all.iter().any(|(source, _)| asks(source));
                        // A message begins one turn, however many text blocks it has.
                        if opens && user_turn == before.0 {
                            user_turn += 1;
                        }
                        handoffs += found.handoffs;
                        for (source, range) in found.all {
                            self.add((at, n), source, &text, range, None);
                        }
                    }
                    // A call or a result that the cut divides is still in the model's sight.
                    TranscriptPartKind::Call(call) if here.is_none() => {
                        let files = self.settings.redactor.secret_files();
                        let (called, spoken) = read_call(&call, at, files);
                        let (own, call) = (called.kind == ToolKind::Own, self.calls.len());
                        self.calls.push(called);
                        calls.insert((at, part.span.start), call);
                        // A handoff call repeats the carry-over prompt, and a recall call a question.
                        if !own {
                            let all = 0..spoken.len();
                            self.add((at, n), TextSource::Call, &spoken.into(), all, Some(call));
                        }
                    }
                    TranscriptPartKind::Result(_) if here.is_none() => {
                        let used = said.used.as_ref();
                        let call = used
                            .and_then(|used| Some((*calls.get(&(used.turn, used.part.span.start))?, used)));
                        self.result((at, n), part, call);
                    }
                    _ => {}
                }
            }
        }
        self.turns.push(MessageEntry {
            user_turns: user_turn,
            handoffs,
        });
    }

    /// Reads a result. `used` is the call that it answers, with its number.
    fn result(
        &mut self,
        place: (usize, usize),
        part: &TranscriptPart<'_>,
        used: Option<(usize, &ToolUse<'_>)>,
    ) {
        if let Some((call, used)) = used {
            let called = &mut self.calls[call];
            called.end = Some(used.end(self.agent));
            // Credentials must not be quoted. Results of baton's tools and of to-do lists add nothing to their calls.
            if called.secret || matches!(called.kind, ToolKind::Own | ToolKind::Todo) {
                return;
            }
        }
        let text = part.text();
        // Agents append reminders to results; those are not output of the tool.
        let own = 0..before_reminders(&text).len();
        let call = used.map(|(call, _)| call);
        self.add(place, TextSource::Result, &text[own.clone()].into(), own, call);
    }

    /// Adds the passages of a section of a part.
    fn add(
        &mut self,
        (turn, part): (usize, usize),
        source: TextSource,
        text: &Rc<str>,
        section: Range<usize>,
        call: Option<usize>,
    ) {
        // A result is also found by its call's subject. A call has the subject in its text, so only the name is added.
        let about = match (source, call.map(|call| &self.calls[call])) {
            (TextSource::Result, Some(called)) => &*called.about,
            (TextSource::Call, Some(called)) => &called.name,
            _ => "",
        };
        for range in sections::passages(text, section) {
            let passage = u32::try_from(self.passages.len()).unwrap_or(u32::MAX);
            let mut count = 0;
            let vocabulary = &mut self.vocabulary;
            for text in [&text[range.clone()], about] {
                words::each(text, &mut |kind, word| {
                    count += u32::from(kind == WordKind::Whole);
                    vocabulary.add(word, passage);
                });
            }
            self.words += u64::from(count);
            self.passages.push(Passage {
                turn,
                part,
                text: Rc::clone(text),
                range,
                source,
                call,
                words: count,
            });
        }
    }
}

impl CutPart<'_> {
    /// How much of a part was cut.
    ///
    /// `None` if nothing, `Some(None)` if all of it, `Some(Some(bytes))` if only so many bytes of its text.
    fn reaches(&self, part: &TranscriptPart<'_>) -> Option<Option<usize>> {
        // Calls may stand next to the content, before or after it. A part that begins after the end was not cut.
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
}

/// Maximum size of a call's subject, in bytes.
const ABOUT: usize = 160;

#[derive(Debug, Clone)]
pub(super) struct RecalledCall {
    /// Index of the message with the call.
    pub(super) turn: usize,
    /// Subject of the call on one line: a command, a path or a question. Not redacted.
    pub(super) about: String,
    pub(super) name: String,
    pub(super) kind: ToolKind,
    /// Named files, and whether the call changes them.
    pub(super) paths: Vec<(String, bool)>,
    /// Whether the call reads a file with credentials, so that its result must not be quoted.
    pub(super) secret: bool,
    /// How the call ended; `None` if it has no result.
    pub(super) end: Option<LineEnd>,
}

/// Reads a call into its record and its searchable text.
///
/// `more` has patterns of additional files with credentials.
fn read_call(call: &ToolCall<'_>, turn: usize, more: &[String]) -> (RecalledCall, String) {
    let (name, arguments) = tools::called(call.named(), &call.given());
    let kind = ToolKind::from_call(&name, &arguments);
    let command = tools::command(&arguments).filter(|_| kind == ToolKind::Shell);
    let paths = files::named(kind, &arguments, command.as_deref());
    let secret = !secret_files::of_call(kind, &paths, command.as_deref(), more).is_empty();
    let about = match (&command, paths.first()) {
        (Some(command), _) => command.as_str(),
        (None, Some((path, _))) => path,
        (None, None) => tools::query(&arguments).unwrap_or_default(),
    };
    let called = RecalledCall {
        turn,
        about: beginning(about),
        kind,
        secret,
        end: None,
        paths: paths
            .into_iter()
            .map(|(path, change)| (path, change.is_some()))
            .collect(),
        name,
    };
    // A shell call is searched by its command, other calls by the names and values of their arguments.
    let words = match command {
        Some(command) => command,
        None => written(&arguments),
    };
    (called, words)
}

/// The arguments in readable form, one per line.
fn written(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key}: {text}\n"),
                other => format!("{key}: {other}\n"),
            })
            .collect(),
        other => other.to_string(),
    }
}

/// The first words, on one line.
fn beginning(about: &str) -> String {
    let mut line = String::new();
    for word in about.split_whitespace() {
        if line.len() + word.len() > ABOUT {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Messages after `after` that have a call which changed this file and did not fail, in order.
pub(super) fn changes<'c>(
    calls: &'c [RecalledCall],
    path: &'c str,
    after: usize,
) -> impl DoubleEndedIterator<Item = usize> + 'c {
    // The calls are in the order of their messages.
    let from = calls.partition_point(|called| called.turn <= after);
    let changed = calls[from..].iter().filter(move |called| {
        let mut paths = called.paths.iter();
        called.end.is_none_or(|end| end.failed != Some(true))
            && paths.any(|(named, changes)| *changes && named == path)
    });
    changed.map(|called| called.turn)
}
