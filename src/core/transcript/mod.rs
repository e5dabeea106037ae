//! A transcript as values: who speaks in each turn, the text, the tool calls and their results. Pure.
//!
//! Users read these values, and everything that is derived from transcripts builds on them. All values are
//! spans of the body: nothing is copied, parts are read on request, and a string is unescaped when its text
//! is requested. Time and memory are proportional to the part that is read.
//!
//! [`View`] locates the turns and their roles, and `wire::parts` divides a turn into parts, even one that is
//! stored without its request, as in the journal. This module turns those spans into text, including the text of
//! results.
//!
//! Must not depend on the use of a transcript, on stores or on policies.

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
mod tool_use;

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
pub use literal::{CallArguments, JsonText, texts};
pub use part::{ToolCall, ToolResult, TranscriptPart, TranscriptPartKind, TranscriptTurn};
pub use request::{OfferedTool, Surroundings, SystemPrompt, named_members};
use said::UsersResults;
pub use said::{SaidPart, SaidReader, said};
use tool_use::CallPairing;
pub use tool_use::{AnsweredCalls, ToolUse};

/// A request's transcript.
#[derive(Clone, Copy)]
pub struct Transcript<'a> {
    view: &'a View,
}

impl<'a> Transcript<'a> {
    /// The transcript of a request that its wire has parsed.
    pub fn from_view(view: &'a View) -> Self {
        Self { view }
    }

    /// Number of turns.
    pub fn len(&self) -> usize {
        self.view.turns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.view.turns.is_empty()
    }

    /// The turn at index `at`, from 0.
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

    /// The system prompts and tools next to the turns.
    pub fn surroundings(&self) -> Surroundings<'a> {
        Surroundings::of_members(&self.view.body, &self.view.around)
    }

    /// All system prompts as strings: first those next to the turns, then those of system turns.
    pub fn system_texts(&self) -> Vec<JsonText<'a>> {
        let beside = self.surroundings().system;
        let own = self.turns().filter(|turn| turn.role == Role::System);
        let mut all: Vec<_> = beside.iter().flat_map(SystemPrompt::texts).collect();
        all.extend(own.flat_map(|turn| turn.parts()).flat_map(|part| part.texts()));
        all
    }

    /// The names of all offered tools, whether next to the turns or in a turn. Tools in a namespace are
    /// listed singly.
    pub fn tool_names(&self) -> Vec<JsonText<'a>> {
        let mut tools = self.surroundings().tools;
        for turn in self.turns().filter(|turn| turn.role == Role::Tools) {
            tools.extend(OfferedTool::of_item(turn.body, turn.span));
        }
        let single = tools.into_iter().flat_map(|tool| tool.single());
        single.filter_map(|tool| tool.name()).collect()
    }

    /// The agent that sends this, if its system prompt or the opening of its first message identifies it.
    pub fn agent(&self) -> Option<AgentKind> {
        let opening = self.turns().find(|turn| turn.role == Role::User);
        let opening = opening.map_or(Vec::new(), |turn| turn.parts());
        let mut texts = self.system_texts();
        // Gemini CLI introduces itself in the first message instead of the system prompt.
        texts.extend(opening.iter().flat_map(TranscriptPart::texts));
        AgentKind::from_texts(&texts)
    }

    /// The agent that certainly sends this; `None` in doubt.
    pub fn certain_agent(&self) -> Option<AgentKind> {
        let Surroundings { system, tools } = self.surroundings();
        let mut prompts: Vec<_> = system.iter().flat_map(SystemPrompt::texts).collect();
        let leading = self
            .turns()
            .take_while(|turn| matches!(turn.role, Role::System | Role::Tools));
        let leading = leading.filter(|turn| turn.role == Role::System);
        prompts.extend(
            leading
                .flat_map(|turn| turn.parts())
                .flat_map(|part| part.texts()),
        );
        AgentKind::certain(prompts, &tools)
    }

    /// The goal of the agent's session. `tags` lists further beginnings of harness text.
    pub fn goal(&self, tags: &[String]) -> SessionGoal {
        goal::of(self.turns(), tags)
    }

    /// Every tool call with its result, in call order.
    pub fn tool_uses(&self) -> Vec<ToolUse<'a>> {
        let mut pairing = CallPairing::default();
        for (at, turn) in self.turns().enumerate() {
            turn.parts().into_iter().for_each(|part| {
                pairing.take(at, part);
            });
        }
        pairing.uses
    }

    /// The tool calls that have a result, keyed by the position of that result.
    pub fn answered_calls(&self) -> AnsweredCalls<'a> {
        let uses = self.tool_uses().into_iter();
        uses.filter_map(|used| used.answer.map(|(turn, part)| ((turn, part.span.start), used)))
            .collect()
    }

    /// A reader of the speakers in all turns, beginning with the first.
    pub fn said_by<'s>(&self, settings: SpeakerSettings<'s>) -> SaidReader<'s, 'a> {
        let words = speakers::INTERJECTION.trim_end().as_bytes();
        let interjected = memmem::find(&self.view.body, words).is_some();
        let replied = speakers::may_have_replies(&self.view.body);
        let agent = (interjected || replied).then(|| self.certain_agent());
        let results = UsersResults {
            interjected,
            replied,
            agent: agent.flatten().map_or("", AgentKind::name),
        };
        SaidReader::new(settings, results)
    }

    /// The parts of one turn. The previous turn decides whether it begins with an expansion.
    pub fn said_in(&self, at: usize, settings: &SpeakerSettings<'_>) -> Vec<SaidPart<'a>> {
        let mut speakers = Speakers::default();
        let before = at.checked_sub(1).and_then(|before| self.turn(before));
        // A turn of the model in between means that no expansion follows.
        if let Some(before) = before.filter(|turn| matches!(turn.role, Role::User | Role::Tool)) {
            said(&mut speakers, settings, &before);
        }
        self.turn(at)
            .map_or_else(Vec::new, |turn| said(&mut speakers, settings, &turn))
    }

    /// The turn that has the opening line of this handoff. Does not check whether the line counts.
    pub fn turn_of(&self, handoff: HandoffId) -> Option<usize> {
        let body = &self.view.body;
        let (marks, _) = marker::marks_in(body, self.view.list, &marker::stems(body));
        let mut lines = marks.iter().filter(|mark| mark.kind == MarkerKind::Open(handoff));
        lines.find_map(|line| self.view.turn_at(line.span.start))
    }
}

/// Maximum number of reported names; the newest are kept.
const MAX_NAMED: usize = 20;

impl Transcript<'_> {
    /// The names of tools that results refer to and that are still in the request, newest last.
    pub fn loaded_tools(&self) -> Vec<String> {
        // Claude Code's ToolSearch answers with references; without them the deferred tools are no longer
        // loaded.
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
        // A tool that the agent has since removed cannot be loaded again.
        found.retain(|name| offered.contains(name) && seen.insert(name.clone()));
        found.truncate(MAX_NAMED);
        found.reverse();
        found
    }
}
