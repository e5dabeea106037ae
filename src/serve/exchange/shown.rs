//! What an agent sees while a model writes a draft: one line at once. Its note removes it from every later request, even if
//! the answer breaks off behind it.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{Exchange, is_model_call};
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::sync::locked;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::StreamMerge;
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::mark::note;
use baton_core::wire::{Ending, LocalAnswer, StreamOpening};

/// The line. Nothing is shown before a model is asked. All clones of an exchange share it.
pub(super) struct ShownDraft {
    state: Mutex<ShownLine>,
    begun: Notify,
}

/// The line, after the prefix of every answer of ours.
const LINE: &str = "a handoff is being written.";

struct ShownLine {
    phase: ShowPhase,
    /// What the agent's answer goes through; `None`: the leg after the line has it.
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

impl ShownLine {
    fn say(&mut self, text: &str) {
        if let Some(merge) = &mut self.merge {
            merge.say(text, &mut self.out);
        }
    }
}

impl ShownDraft {
    /// Shows the line, where it is not shown yet.
    pub(super) fn begin(&self) {
        let mut state = locked(&self.state);
        let ShownLine { phase, merge, out } = &mut *state;
        let ShowPhase::Quiet(opening) = phase else {
            return;
        };
        if let Some(merge) = merge {
            merge.begin(opening, out);
        }
        *phase = ShowPhase::Line;
        state.say(&format!("{}\n\n", note::answer(LINE, Uuid::now_v7())));
        self.begun.notify_one();
    }

    /// Whether the line is shown.
    pub(super) fn is_begun(&self) -> bool {
        !matches!(locked(&self.state).phase, ShowPhase::Quiet(_))
    }

    /// Is done when the line is shown.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Shows the draft's result, its note, and `rest`.
    pub(super) fn end(&self, result: &str, rest: &str) {
        let mut state = locked(&self.state);
        if matches!(state.phase, ShowPhase::Line) {
            state.say(&format!("{}\n\n{rest}", note::answer(result, Uuid::now_v7())));
            state.phase = ShowPhase::Ended;
        }
    }

    /// Appends another text of ours.
    pub(super) fn say(&self, text: &str) {
        locked(&self.state).say(text);
    }

    /// The end of the whole answer: no leg follows.
    fn close(&self, next_input: u64) {
        let ShownLine { merge, out, .. } = &mut *locked(&self.state);
        if let Some(mut merge) = merge.take() {
            merge.close(Ending::Stopped { next_input }, out);
        }
    }

    /// What the answer goes through, for the leg after the line; `None`: nothing was shown.
    pub(super) fn take_merge(&self) -> Option<StreamMerge> {
        let mut state = locked(&self.state);
        match state.phase {
            ShowPhase::Ended => state.merge.take(),
            ShowPhase::Quiet(_) | ShowPhase::Line => None,
        }
    }

    /// What is to be sent now.
    pub(super) fn take(&self) -> Option<Bytes> {
        let mut state = locked(&self.state);
        match state.out.is_empty() {
            true => None,
            false => Some(std::mem::take(&mut state.out).concat().into()),
        }
    }

    /// A keep-alive; `false`: nothing was shown yet.
    pub(super) fn keep_alive(&self) -> bool {
        let state = &mut *locked(&self.state);
        if matches!(state.phase, ShowPhase::Quiet(_)) {
            return false;
        }
        if let Some(merge) = &mut state.merge {
            merge.keepalive(&mut state.out);
        }
        true
    }
}

impl Exchange {
    /// The same exchange, whose agent sees that a draft is made if it streams. An agent whose history is stored by the
    /// provider would continue an answer that the provider does not know.
    pub(super) fn showing(self) -> Self {
        let offered = &self.offered;
        let facts = &offered.agent.request.view().facts;
        if !facts.stream || !offered.agent.resends() || !is_model_call(self.ctx.operation) {
            return self;
        }
        let answer = LocalAnswer {
            id: Uuid::now_v7(),
            model: facts.model.as_deref().unwrap_or_default(),
            text: "",
            handoff: None,
            request_bytes: offered.agent.request.len(),
        };
        let framing = self.form().framing();
        let begun = offered
            .agent
            .wire
            .stream_opening(offered.agent.request.view(), &answer, framing);
        let state = ShownLine {
            phase: ShowPhase::Quiet(begun),
            merge: Some(self.merge()),
            out: Vec::new(),
        };
        let shown = ShownDraft {
            state: Mutex::new(state),
            begun: Notify::new(),
        };
        Self {
            shown: Some(Arc::new(shown)),
            ..self
        }
    }

    /// What the agent sees of a draft, where it has seen any of it.
    pub(super) fn begun_draft(&self) -> Option<&ShownDraft> {
        self.shown.as_deref().filter(|shown| shown.is_begun())
    }

    /// Ends an answer after the draft that it shows: the rest of it was sent already.
    pub(super) fn end_shown(&self, shown: &ShownDraft) -> Response<ResponseBody> {
        shown.close(self.offered.agent.request.len() as u64 / BYTES_PER_TOKEN);
        self.ctx.recorder.note(|e| e.streamed = true);
        self.ctx.recorder.decide(ExchangeOutcome::Complete);
        Response::new(ResponseBody::whole(Bytes::new()))
    }
}
