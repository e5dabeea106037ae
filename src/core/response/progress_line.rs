//! What an agent sees while a model writes a draft: one line at once. Its note removes it from every later request, even if
//! the answer breaks off behind it.

use bytes::Bytes;
use uuid::Uuid;

use super::StreamMerge;
use crate::marker::note;
use crate::wire::{Ending, StreamOpening};

/// The line, after the prefix of every answer of ours.
const LINE: &str = "a handoff is being written.";

/// The line, and what the agent's answer goes through. Nothing is shown before a model is asked.
pub struct ProgressLine {
    phase: ShowPhase,
    /// `None`: the leg after the line has it.
    merge: Option<StreamMerge>,
    /// What was not sent yet.
    out: Vec<Bytes>,
}

enum ShowPhase {
    Quiet(StreamOpening),
    /// The line is shown.
    Line,
    Ended,
}

impl ProgressLine {
    /// Nothing is shown yet. `opening`: of the answer.
    pub fn new(opening: StreamOpening, merge: StreamMerge) -> Self {
        Self {
            phase: ShowPhase::Quiet(opening),
            merge: Some(merge),
            out: Vec::new(),
        }
    }

    /// Shows the line. `false`: it is shown already.
    pub fn begin(&mut self) -> bool {
        let ShowPhase::Quiet(opening) = &self.phase else {
            return false;
        };
        if let Some(merge) = &mut self.merge {
            merge.begin(opening, &mut self.out);
        }
        self.phase = ShowPhase::Line;
        self.say(&format!("{}\n\n", note::answer(LINE, Uuid::nil())));
        true
    }

    /// Whether the line is shown.
    pub fn is_begun(&self) -> bool {
        !matches!(self.phase, ShowPhase::Quiet(_))
    }

    /// Shows the draft's result, and `rest`.
    pub fn end(&mut self, result: &str, rest: &str) {
        if matches!(self.phase, ShowPhase::Line) {
            self.say(&format!("{}\n\n{rest}", note::answer(result, Uuid::nil())));
            self.phase = ShowPhase::Ended;
        }
    }

    /// Appends another text of ours.
    pub fn say(&mut self, text: &str) {
        if let Some(merge) = &mut self.merge {
            merge.say(text, &mut self.out);
        }
    }

    /// The end of the whole answer: no leg follows.
    pub fn close(&mut self, next_input: u64) {
        if let Some(mut merge) = self.merge.take() {
            merge.close(Ending::Stopped { next_input }, &mut self.out);
        }
    }

    /// What the answer goes through, for the leg after the line; `None`: nothing was shown.
    pub fn take_merge(&mut self) -> Option<StreamMerge> {
        match self.phase {
            ShowPhase::Ended => self.merge.take(),
            ShowPhase::Quiet(_) | ShowPhase::Line => None,
        }
    }

    /// What is to be sent now.
    pub fn take(&mut self) -> Option<Bytes> {
        match self.out.is_empty() {
            true => None,
            false => Some(std::mem::take(&mut self.out).concat().into()),
        }
    }

    /// A keep-alive; `false`: nothing was shown yet.
    pub fn keep_alive(&mut self) -> bool {
        if let Some(merge) = self
            .merge
            .as_mut()
            .filter(|_| !matches!(self.phase, ShowPhase::Quiet(_)))
        {
            merge.keepalive(&mut self.out);
        }
        self.is_begun()
    }
}
