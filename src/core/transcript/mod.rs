//! A transcript as values, for people and for everything that is derived from transcripts: whose turn it is, what was
//! written, which tools were called, what they answered. Pure.
//!
//! Everything is a span of the body: nothing is copied, parts are read on request, and a string loses its escapes when
//! its text is requested. Time and memory are proportional to what is read.
//!
//! [`View`] says where the turns are and whose, and `wire`'s one reader of elements what they are made of. It reads a
//! message that stands alone as well (the journal has many of those). Here its spans become texts, down to those of
//! results.
//!
//! Must not know: what is done with a transcript, stores, policies.

use memchr::memmem;
use std::collections::HashSet;

mod agents;
mod answer;
mod exits;
mod goal;
mod literal;
mod part;
mod quoted;
mod request;
mod said;
mod texts;
mod tool_use;
mod turn;

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests;

use crate::agents::speakers::{self, SpeakerSettings, Speakers};
use crate::marker::{self, MarkerKind};
use crate::record::HandoffId;
use crate::text::json;
use crate::wire::{Role, View};

pub use agents::AgentKind;
pub use answer::{AnswerContent, AnswerPart, AnswerPartKind};
pub use goal::SessionGoal;
pub use literal::{CallArguments, JsonText};
pub use part::{ToolCall, ToolResult, TranscriptPart, TranscriptPartKind};
pub use request::{OfferedTool, Surroundings, SystemPrompt, named_members};
pub use said::{SaidPart, SaidReader, said};
pub use texts::texts;
pub use tool_use::{AnsweredCalls, ToolUse};
pub use turn::TranscriptTurn;

/// A request's transcript.
#[derive(Clone, Copy)]
pub struct Transcript<'a> {
    view: &'a View,
}

impl<'a> Transcript<'a> {
    /// The transcript of a request that its wire has read.
    pub fn from_view(view: &'a View) -> Self {
        Self { view }
    }

    /// How many turns it has.
    pub fn len(&self) -> usize {
        self.view.turns.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.view.turns.is_empty()
    }

    /// The turn at this place, from 0.
    pub fn turn(&self, at: usize) -> Option<TranscriptTurn<'a>> {
        let turn = self.view.turns.get(at)?;
        Some(TranscriptTurn {
            body: &self.view.body,
            span: turn.span,
            role: turn.role,
        })
    }

    /// All turns, in order.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = TranscriptTurn<'a>> + use<'a> {
        let whole = *self;
        (0..self.len()).filter_map(move |at| whole.turn(at))
    }

    /// What is around the turns: system prompts and tools.
    pub fn surroundings(&self) -> Surroundings<'a> {
        Surroundings::of_members(&self.view.body, &self.view.around)
    }

    /// Every text that the system says: next to the turns, then in turns of its own, in order.
    pub fn system_texts(&self) -> Vec<JsonText<'a>> {
        let beside = self.surroundings().system;
        let own = self.turns().filter(|turn| turn.role == Role::System);
        let mut all: Vec<_> = beside.iter().flat_map(SystemPrompt::texts).collect();
        all.extend(own.flat_map(|turn| turn.parts()).flat_map(|part| part.texts()));
        all
    }

    /// The names of all tools that are offered: next to the turns and by turns, those in a namespace each by itself.
    pub fn tool_names(&self) -> Vec<JsonText<'a>> {
        let mut tools = self.surroundings().tools;
        for turn in self.turns().filter(|turn| turn.role == Role::Tools) {
            tools.extend(OfferedTool::of_item(turn.body, turn.span));
        }
        let single = tools.into_iter().flat_map(|tool| tool.single());
        single.filter_map(|tool| tool.name()).collect()
    }

    /// The agent that sends this, where its system prompt or the opening of its first message says so.
    pub fn agent(&self) -> Option<AgentKind> {
        let opening = self.turns().find(|turn| turn.role == Role::User);
        let opening = opening.map_or(Vec::new(), |turn| turn.parts());
        let mut texts = self.system_texts();
        texts.extend(opening.iter().flat_map(TranscriptPart::texts));
        AgentKind::from_texts(&texts)
    }

    /// The goal of the agent's session. `tags`: further beginnings of a harness's texts.
    pub fn goal(&self, tags: &[String]) -> SessionGoal {
        goal::of(self.turns(), tags)
    }

    /// Every call of a tool with its result, in the order of the calls.
    pub fn tool_uses(&self) -> Vec<ToolUse<'a>> {
        tool_use::all(self.turns())
    }

    /// The calls of tools that have a result, by it.
    pub fn answered_calls(&self) -> AnsweredCalls<'a> {
        let uses = self.tool_uses().into_iter();
        uses.filter_map(|used| used.answer.map(|(turn, part)| ((turn, part.span.start), used)))
            .collect()
    }

    /// A reader of who speaks in all its turns, from the first one on.
    pub fn said_by<'s>(&self, settings: SpeakerSettings<'s>) -> SaidReader<'s, 'a> {
        let words = speakers::INTERJECTION.trim_end().as_bytes();
        let is_interjected = memmem::find(&self.view.body, words).is_some();
        SaidReader::new(settings, is_interjected.then(|| self.answered_calls()))
    }

    /// The parts of one turn; the turn before it decides whether it begins with an expansion.
    pub fn said_in(&self, at: usize, settings: &SpeakerSettings<'_>) -> Vec<SaidPart<'a>> {
        let mut speakers = Speakers::default();
        let before = at.checked_sub(1).and_then(|before| self.turn(before));
        if let Some(before) = before.filter(|turn| matches!(turn.role, Role::User | Role::Tool)) {
            said(&mut speakers, settings, &before);
        }
        self.turn(at)
            .map_or_else(Vec::new, |turn| said(&mut speakers, settings, &turn))
    }

    /// The turn with the opening line of this handoff. Whether the line counts is not decided here.
    pub fn turn_of(&self, handoff: HandoffId) -> Option<usize> {
        let body = &self.view.body;
        let (marks, _) = marker::marks_in(body, self.view.list, &marker::stems(body));
        let mut lines = marks.iter().filter(|mark| mark.kind == MarkerKind::Open(handoff));
        lines.find_map(|line| self.view.turn_at(line.span.start))
    }
}

/// The most that are named: the newest ones.
const MAX_NAMED: usize = 20;

impl Transcript<'_> {
    /// The names of tools that results refer to and that the request still has, the newest last.
    pub fn loaded_tools(&self) -> Vec<String> {
        let kind = memmem::Finder::new(b"\"tool_reference\"");
        let mut found = Vec::new();
        for turn in self.turns().rev().filter(|turn| kind.find(turn.raw()).is_some()) {
            let parts = turn.parts().into_iter().rev();
            for part in parts.filter(|part| matches!(part.kind, TranscriptPartKind::Result(_))) {
                let references = part.said[0].map_or(Vec::new(), |list| json::elements(turn.body, list));
                found.extend(references.into_iter().rev().filter_map(|block| {
                    let [of, name] = json::pick(turn.body, block, ["type", "tool_name"]);
                    let is_reference = JsonText::literal(turn.body, of?)? == *"tool_reference";
                    let name = JsonText::literal(turn.body, name?)?;
                    is_reference.then(|| name.get().into_owned())
                }));
            }
        }
        if found.is_empty() {
            return found;
        }
        let offered: HashSet<String> = self
            .tool_names()
            .iter()
            .map(|name| name.get().into_owned())
            .collect();
        let mut seen = HashSet::new();
        found.retain(|name| offered.contains(name) && seen.insert(name.clone()));
        found.truncate(MAX_NAMED);
        found.reverse();
        found
    }
}
