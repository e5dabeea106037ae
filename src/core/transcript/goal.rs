//! The goal of the agent's session, as the transcript shows it.

use std::collections::HashMap;

use super::part::{ToolCall, ToolResult, TranscriptPart, TranscriptPartKind, TranscriptTurn};
use super::said::said;
use crate::agents::goals::{self, GoalChange};
use crate::agents::speakers::{SpeakerSettings, Speakers};
use crate::agents::wordings::UserText;
use crate::wire::Role;

/// State of the session's goal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SessionGoal {
    /// The transcript mentions no goal.
    #[default]
    Unmentioned,
    /// A goal was set and is no longer pursued.
    Dropped,
    /// The newest goal, still pursued.
    Active(String),
}

/// State of the walk over the turns.
#[derive(Default)]
struct GoalWalk<'a> {
    goal: SessionGoal,
    /// Whether the agent leaves no trace in the transcript once the goal is met.
    silent: bool,
    /// The last goal that was set, even if it was dropped since.
    last: Option<String>,
    speakers: Speakers,
    /// Calls of goal tools, by id.
    calls: HashMap<&'a [u8], ToolCall<'a>>,
    /// Whether the model has spoken since the last turn that is not the model's.
    spoke: bool,
    /// Whether the model has called a tool since then.
    called: bool,
}

/// The goal after these turns.
pub(super) fn of<'a>(turns: impl Iterator<Item = TranscriptTurn<'a>>, tags: &[String]) -> SessionGoal {
    let mut walk = GoalWalk::default();
    for turn in turns {
        match turn.role {
            Role::Assistant => walk.model(&turn),
            Role::User | Role::Tool => walk.other(&turn, tags),
            _ => {}
        }
    }
    walk.goal
}

impl<'a> GoalWalk<'a> {
    fn model(&mut self, turn: &TranscriptTurn<'a>) {
        self.speakers.model_spoke();
        self.spoke = true;
        for call in turn.calls() {
            self.called = true;
            if let Some(id) = call.id.filter(|_| goals::is_goal_tool(&call.named())) {
                self.calls.insert(id.raw(), call);
            }
        }
    }

    fn other(&mut self, turn: &TranscriptTurn<'a>, tags: &[String]) {
        let is_finished = self.spoke && !self.called;
        (self.spoke, self.called) = (false, false);
        let (mut is_mentioned, mut is_stopped, mut says) = (false, false, false);
        let settings = SpeakerSettings::tagged(tags);
        for said in said(&mut self.speakers, &settings, turn) {
            let change = match said.part.kind {
                TranscriptPartKind::Result(result) => self.in_result(&said.part, &result),
                TranscriptPartKind::Text(_) => {
                    let change = goals::in_text(&said.text, self.last.as_deref());
                    if change.is_none() {
                        let by = |by| said.spoken.iter().any(|spoken| spoken.by == by);
                        // An interruption outweighs the words after it.
                        is_stopped |= by(UserText::Interrupted);
                        says |= by(UserText::User);
                    }
                    change
                }
                _ => None,
            };
            is_mentioned |= change.is_some();
            self.apply(change);
        }
        // An unmet goal would have kept the model from ending its turn, so it was met or dropped.
        if self.silent && is_finished && !is_mentioned && says && !is_stopped {
            self.apply(Some(GoalChange::Dropped));
        }
    }

    fn in_result(&self, part: &TranscriptPart<'a>, result: &ToolResult<'a>) -> Option<GoalChange> {
        match result.call {
            None => goals::in_named_result(&result.name?.get(), &part.text()),
            Some(id) => {
                let call = self.calls.get(id.raw())?;
                goals::in_result(&call.named(), &call.given(), &part.text())
            }
        }
    }

    fn apply(&mut self, change: Option<GoalChange>) {
        match change {
            None => {}
            Some(GoalChange::Set { goal, silent }) => {
                self.silent = silent;
                self.last = Some(goal.clone());
                self.goal = SessionGoal::Active(goal);
            }
            // A goal that was dropped in between is pursued again.
            Some(GoalChange::Kept) => {
                if let Some(last) = self.last.clone() {
                    self.goal = SessionGoal::Active(last);
                }
            }
            Some(GoalChange::Dropped) if self.last.is_some() => self.goal = SessionGoal::Dropped,
            // No goal was set in this transcript, so none was dropped.
            Some(GoalChange::Dropped) => {}
        }
    }
}
