//! One reading of a transcript, for people and for whatever is made from transcripts: whose turn it is, what was said,
//! which tools were called, what they answered. Pure.
//!
//! Everything is a span of the body: nothing is copied, parts are read when a turn is asked for them, and a string
//! loses its escapes when its text is asked for. Time and memory are proportional to what is read.
//!
//! [`View`] says where the turns are and whose, and this room takes that from it. What a turn is made of it reads for
//! itself: `wire`'s own reading of parts tells what a rewrite may edit, and stops at a result's edge; this one tells
//! what is said, down to the texts of results, and never edits. One reader knows the shapes of all wires, which do not
//! collide, so a message that stands alone can be read as well (the journal has many of those).
//!
//! Must not know: what is done with a transcript, stores, policies.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod agents;
mod answer;
mod exits;
mod message;
mod part;
mod prose;
mod request;
mod texts;
mod tool_use;

#[cfg(test)]
mod tests;

use uuid::Uuid;

use crate::handoff::sentinel::{self, MarkKind};
use crate::json::{self, Span};
use crate::wire::{Role, View};

pub use agents::Agent;
pub use answer::{Answered, AnsweredPart, Said};
pub use part::{Arguments, Kind, Part, Text, ToolCall, ToolResult};
pub use prose::as_read;
pub use request::{OfferedTool, Surroundings, SystemPrompt, named_members};
pub use tool_use::ToolUse;

/// A request's transcript.
#[derive(Clone, Copy)]
pub struct Transcript<'a> {
    view: &'a View,
}

/// A message, an item or a content: what one speaker put there in one piece.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    body: &'a [u8],
    /// The whole element, in the body.
    pub span: Span,
    /// Whose it is.
    pub role: Role,
}

/// A line of ours in a transcript. Whether it counts is not decided here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The turn that it stands in.
    pub turn: usize,
    /// Its bytes, from the first bracket to the last.
    pub span: Span,
    /// What it says.
    pub kind: Marked,
}

/// What a line of ours says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// A handoff happened here: what follows, up to the closing line, is its carry-over prompt.
    Handoff(Uuid),
    /// The carry-over prompt ends here.
    HandoffEnd,
    /// A hidden call and its result stand here in the model's view.
    Aside(Uuid),
}

impl<'a> Transcript<'a> {
    /// The transcript of a request that its wire has read.
    pub fn of(view: &'a View) -> Self {
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
    pub fn turn(&self, at: usize) -> Option<Turn<'a>> {
        let turn = self.view.turns.get(at)?;
        Some(Turn {
            body: &self.view.body,
            span: turn.span,
            role: turn.role,
        })
    }

    /// All turns, in order.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = Turn<'a>> + use<'a> {
        let body: &'a [u8] = &self.view.body;
        self.view.turns.iter().map(move |turn| Turn {
            body,
            span: turn.span,
            role: turn.role,
        })
    }

    /// What stands around the turns: system prompts and tools.
    pub fn surroundings(&self) -> Surroundings<'a> {
        Surroundings::of(&self.view.body)
    }

    /// Every text that the system says: beside the turns, then in turns of its own, in order.
    pub fn system_texts(&self) -> Vec<Text<'a>> {
        let beside = self.surroundings().system;
        let own = self.turns().filter(|turn| turn.role == Role::System);
        let mut all: Vec<_> = beside.iter().flat_map(SystemPrompt::texts).collect();
        all.extend(own.flat_map(|turn| turn.parts()).flat_map(|part| part.texts()));
        all
    }

    /// The names of all tools that are offered: beside the turns and by turns, those in a namespace each by itself.
    pub fn tool_names(&self) -> Vec<Text<'a>> {
        let mut tools = self.surroundings().tools;
        for turn in self.turns().filter(|turn| turn.role == Role::Tools) {
            tools.extend(OfferedTool::of_item(turn.body, turn.span));
        }
        let single = tools.into_iter().flat_map(|tool| tool.single());
        single.filter_map(|tool| tool.name()).collect()
    }

    /// The agent that sends this, where its system prompt says so.
    pub fn agent(&self) -> Option<Agent> {
        Agent::of(&self.system_texts())
    }

    /// Every call of a tool with its result, in the order of the calls.
    pub fn tool_uses(&self) -> Vec<ToolUse<'a>> {
        tool_use::all(self)
    }

    /// The turns that are nothing but what the agent's harness put before the first real user text: those of the user
    /// all of whose texts begin with one of these tags.
    pub fn preamble(&self, tags: &[String]) -> Vec<usize> {
        let tagged = |text: &Text<'_>| {
            let text = text.get();
            tags.iter()
                .any(|tag| !tag.is_empty() && text.trim_start().starts_with(tag.as_str()))
        };
        let mut found = Vec::new();
        for (at, turn) in self.turns().enumerate() {
            match turn.role {
                Role::System | Role::Tools => continue,
                Role::User => {}
                _ => break,
            }
            let texts: Vec<_> = turn.parts().iter().flat_map(Part::texts).collect();
            if texts.is_empty() || !texts.iter().all(tagged) {
                break;
            }
            found.push(at);
        }
        found
    }

    /// Lines of ours, in order.
    pub fn marks(&self) -> Vec<Mark> {
        let list = self.view.text(self.view.list);
        let at = self.view.list.start;
        let marks = sentinel::marks(list).into_iter().filter_map(|mark| {
            let kind = match mark.kind {
                MarkKind::Open(id) => Marked::Handoff(id),
                MarkKind::Close(..) => Marked::HandoffEnd,
                MarkKind::Aside(id) => Marked::Aside(id),
                MarkKind::Broken(_) => return None,
            };
            let span = Span::new(mark.span.start + at, mark.span.end + at);
            let turn = self.view.turn_at(span.start)?;
            Some(Mark { turn, span, kind })
        });
        marks.collect()
    }
}

/// Members that tell when a message was made. No request of today's APIs has one; answers do, and agents that keep them.
const TIMES: [&str; 4] = ["timestamp", "created_at", "createTime", "created"];

impl<'a> Turn<'a> {
    /// A message that stands alone: `message` is one JSON value.
    pub fn alone(message: &'a [u8], role: Role) -> Self {
        Self {
            body: message,
            span: Span::new(json::blank(message, 0), message.len()),
            role,
        }
    }

    /// What it is made of, in the order in which the model reads it.
    pub fn parts(&self) -> Vec<Part<'a>> {
        message::parts(self.body, self.span, self.role)
    }

    /// When it was made, as it is written there: a number of seconds or a date; `None` where the wire does not say.
    pub fn time(&self) -> Option<&'a str> {
        let value = json::pick(self.body, self.span, TIMES)
            .into_iter()
            .flatten()
            .next()?;
        let value = match value.of(self.body).first() {
            Some(b'"') => value.inner(),
            Some(b'0'..=b'9') => value,
            _ => return None,
        };
        std::str::from_utf8(value.of(self.body)).ok()
    }
}
