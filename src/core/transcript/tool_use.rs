//! Calls with their results.

use std::collections::{HashMap, VecDeque};

use super::agents::AgentKind;
use super::exits;
use super::part::{ToolCall, ToolResult, TranscriptPart, TranscriptPartKind};
use crate::agents::ending::LineEnd;
use crate::agents::tools::PLANS;

/// A tool call and its outcome.
#[derive(Debug, Clone, Copy)]
pub struct ToolUse<'a> {
    /// The turn that makes the call.
    pub turn: usize,
    pub call: ToolCall<'a>,
    /// The part that holds the call.
    pub part: TranscriptPart<'a>,
    /// The turn and the part that answer the call.
    pub answer: Option<(usize, TranscriptPart<'a>)>,
}

impl<'a> ToolUse<'a> {
    /// The tool's result.
    pub fn result(&self) -> Option<ToolResult<'a>> {
        match self.answer?.1.kind {
            TranscriptPartKind::Result(result) => Some(result),
            _ => None,
        }
    }

    /// Whether the call asks for the approval of a plan, and the user gave it.
    pub fn accepts_plan(&self) -> bool {
        let is_accepted = || self.result().is_some_and(|result| result.error != Some(true));
        PLANS.contains(&self.call.named().as_str()) && is_accepted()
    }

    /// How the call ended; everything is unknown without a result.
    ///
    /// `agent` is the agent that ran the tool (`Transcript::agent`): tools of the same name word their results
    /// differently.
    pub fn end(&self, agent: Option<AgentKind>) -> LineEnd {
        match (self.answer, self.result()) {
            (Some((_, answer)), Some(result)) => exits::end(agent, &self.call, &answer, &result),
            _ => LineEnd::default(),
        }
    }
}

/// Calls by their results, keyed by the turn of the result and the start of its part.
pub type AnsweredCalls<'a> = HashMap<(usize, usize), ToolUse<'a>>;

/// Calls by the keys that results use, oldest first.
#[derive(Default)]
struct CallsById<'a> {
    by_id: HashMap<&'a [u8], VecDeque<usize>>,
    /// Calls without an id, which results can only refer to by tool name.
    without_id: HashMap<&'a [u8], VecDeque<usize>>,
    by_name: HashMap<&'a [u8], VecDeque<usize>>,
}

impl<'a> CallsById<'a> {
    fn add(&mut self, call: &ToolCall<'a>, at: usize) {
        let name = call.name.map_or(&b""[..], |name| name.raw());
        let by_id = match call.id {
            Some(id) => self.by_id.entry(id.raw()),
            None => self.without_id.entry(name),
        };
        by_id.or_default().push_back(at);
        // Entered by name as well, because results may lack the id of their call (Gemini, Ollama).
        self.by_name.entry(name).or_default().push_back(at);
    }

    /// The call that a result answers: the call with the same id, or the first pending call of the tool.
    ///
    /// Servers that number their ids may repeat them; then the first pending call with that id is the
    /// answered one.
    fn answered(&mut self, result: &ToolResult<'a>, waits: impl Fn(usize) -> bool) -> Option<usize> {
        let name = result.name.map_or(&b""[..], |name| name.raw());
        let first = |calls: &mut HashMap<&'a [u8], VecDeque<usize>>, key: &[u8]| {
            let calls = calls.get_mut(key)?;
            // Answered calls are dropped on the way, so that the whole search is linear.
            std::iter::from_fn(|| calls.pop_front()).find(|at| waits(*at))
        };
        match result.call {
            // A result may have an id although its call has none; then the tool's name decides.
            Some(id) => first(&mut self.by_id, id.raw()).or_else(|| first(&mut self.without_id, name)),
            None => first(&mut self.by_name, name),
        }
    }
}

/// Pairs calls with their results, part by part.
#[derive(Default)]
pub(super) struct CallPairing<'a> {
    /// The calls so far, in order.
    pub(super) uses: Vec<ToolUse<'a>>,
    by_id: CallsById<'a>,
}

impl<'a> CallPairing<'a> {
    /// Takes the next part. Returns the call that it answers.
    pub(super) fn take(&mut self, turn: usize, part: TranscriptPart<'a>) -> Option<ToolUse<'a>> {
        let uses = &mut self.uses;
        match part.kind {
            TranscriptPartKind::Call(call) => {
                self.by_id.add(&call, uses.len());
                uses.push(ToolUse {
                    turn,
                    call,
                    part,
                    answer: None,
                });
                None
            }
            TranscriptPartKind::Result(result) => {
                let at = self.by_id.answered(&result, |at| uses[at].answer.is_none())?;
                uses[at].answer = Some((turn, part));
                Some(uses[at])
            }
            _ => None,
        }
    }
}
