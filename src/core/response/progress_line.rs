//! Progress line for the agent while a model writes a draft.
//!
//! The line is shown at once. It needs no note after it: its own words identify it, so it is removed from later requests
//! even if the response is interrupted right after it.

use bytes::Bytes;

use super::StreamMerge;
use crate::marker::note;
use crate::wire::{Ending, StreamOpening};

/// The progress line and the stream that carries it. Nothing is shown before the request to a model.
pub struct ProgressLine {
    phase: ShowPhase,
    /// `None` once the leg after the line has taken it.
    merge: Option<StreamMerge>,
    /// Bytes that were not sent yet.
    out: Vec<Bytes>,
}

enum ShowPhase {
    Quiet(StreamOpening),
    /// The line was shown.
    Line,
    Ended,
}

impl ProgressLine {
    /// Starts without showing anything. `opening` begins the response.
    pub fn new(opening: StreamOpening, merge: StreamMerge) -> Self {
        Self {
            phase: ShowPhase::Quiet(opening),
            merge: Some(merge),
            out: Vec::new(),
        }
    }

    /// Shows the line. Returns `false` if it was already shown.
    pub fn begin(&mut self) -> bool {
        let ShowPhase::Quiet(opening) = &self.phase else {
            return false;
        };
        if let Some(merge) = &mut self.merge {
            merge.begin(opening, &mut self.out);
        }
        self.phase = ShowPhase::Line;
        self.say(&format!("{}\n\n", note::PROGRESS));
        true
    }

    /// Whether the line was shown.
    pub fn is_begun(&self) -> bool {
        !matches!(self.phase, ShowPhase::Quiet(_))
    }

    /// Shows the result of the draft: a reply, or the report and the sentinel of its handoff.
    pub fn end(&mut self, result: &str) {
        if matches!(self.phase, ShowPhase::Line) {
            self.say(result);
            self.phase = ShowPhase::Ended;
        }
    }

    fn say(&mut self, text: &str) {
        if let Some(merge) = &mut self.merge {
            merge.say(text, &mut self.out);
        }
    }

    /// Ends the whole response without another leg.
    pub fn close(&mut self, next_input: u64) {
        if let Some(mut merge) = self.merge.take() {
            merge.close(Ending::Stopped { next_input }, &mut self.out);
        }
    }

    /// Returns the stream for the leg after the line, or `None` if nothing was shown.
    pub fn take_merge(&mut self) -> Option<StreamMerge> {
        match self.phase {
            ShowPhase::Ended => self.merge.take(),
            // A draft that has not ended keeps the stream for its keep-alives.
            ShowPhase::Quiet(_) | ShowPhase::Line => None,
        }
    }

    /// Takes the bytes to send now.
    pub fn take(&mut self) -> Option<Bytes> {
        match self.out.is_empty() {
            true => None,
            false => Some(std::mem::take(&mut self.out).concat().into()),
        }
    }

    /// Emits a keep-alive. Returns `false` if nothing was shown yet.
    pub fn keep_alive(&mut self) -> bool {
        let is_quiet = matches!(self.phase, ShowPhase::Quiet(_));
        if let Some(merge) = self.merge.as_mut().filter(|_| !is_quiet) {
            merge.keepalive(&mut self.out);
        }
        self.is_begun()
    }
}
