//! A draft's text that the agent sees while the model writes it (`draft.show`). It is between two marks of ours, by
//! which it is removed from every later request, even if the answer breaks off in the middle of it.

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
use baton_core::handoffs::draft::DraftRequest;
use baton_core::limits::BYTES_PER_TOKEN;
use baton_core::mark::note::{self, Quoter};
use baton_core::transcript::{AnswerContent, AnswerPartKind};
use baton_core::wire::framer::Framer;
use baton_core::wire::{Ending, Framing, LocalAnswer, StreamOpening};

/// The text. Nothing is shown before its first piece. All clones of an exchange share it.
pub(super) struct ShownDraft {
    state: Mutex<ShownText>,
    begun: Notify,
    /// The draft's line and the note that ends it have this one.
    id: Uuid,
}

struct ShownText {
    phase: ShowPhase,
    /// What the agent's answer goes through; `None`: the leg after the text has it.
    merge: Option<StreamMerge>,
    quoter: Quoter,
    /// The whole text so far.
    text: String,
    /// The text that was not sent yet.
    out: Vec<Bytes>,
}

enum ShowPhase {
    Quiet(StreamOpening),
    Open,
    Ended,
}

impl ShownText {
    fn say(&mut self, piece: &str) {
        self.text.push_str(piece);
        if let Some(merge) = &mut self.merge {
            merge.text_piece(piece, &mut self.out);
        }
    }

    /// Whether a piece may be shown now.
    fn open(&mut self, id: Uuid) -> bool {
        if let ShowPhase::Quiet(begun) = &self.phase {
            if let Some(merge) = &mut self.merge {
                merge.begin_text(begun.clone(), &mut self.out);
            }
            self.phase = ShowPhase::Open;
            let line = note::draft_line(id);
            self.say(&format!(
                "{}a handoff is being written.\n\n{line}\n\n",
                note::BEGINS
            ));
        }
        matches!(self.phase, ShowPhase::Open)
    }
}

impl ShownDraft {
    /// The next piece of a model's text.
    pub(super) fn piece(&self, text: &str) {
        let mut state = locked(&self.state);
        if matches!(state.phase, ShowPhase::Quiet(_)) && text.trim().is_empty() || !state.open(self.id) {
            return;
        }
        let quoted = state.quoter.follow(text);
        state.say(&quoted);
        self.begun.notify_one();
    }

    /// The shown text has no effect, and another one follows.
    pub(super) fn begin_again(&self, why: &str) {
        if self.is_begun() {
            self.piece(&format!("\n\n({why}; another method is used)\n\n"));
        }
    }

    /// Whether anything was shown.
    pub(super) fn is_begun(&self) -> bool {
        !matches!(locked(&self.state).phase, ShowPhase::Quiet(_))
    }

    /// Is done when something is shown.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Ends the text with the draft's result, its note, and `rest`.
    pub(super) fn end(&self, result: &str, rest: &str) {
        let mut state = locked(&self.state);
        if !matches!(state.phase, ShowPhase::Open) {
            return;
        }
        state.phase = ShowPhase::Ended;
        state.say(&format!("\n\n{result}\n\n{}\n\n{rest}", note::line(self.id)));
        let ShownText { merge, text, out, .. } = &mut *state;
        if let Some(merge) = merge {
            merge.end_text(text, out);
        }
    }

    /// Appends another text of ours.
    pub(super) fn say(&self, text: &str) {
        let ShownText { merge, out, .. } = &mut *locked(&self.state);
        if let Some(merge) = merge {
            merge.say(text, out);
        }
    }

    /// The end of the whole answer: no leg follows.
    fn close(&self, next_input: u64) {
        let ShownText { merge, out, .. } = &mut *locked(&self.state);
        if let Some(mut merge) = merge.take() {
            merge.close(Ending::Stopped { next_input }, out);
        }
    }

    /// What the answer goes through, for the leg after the text; `None`: nothing was shown.
    pub(super) fn take_merge(&self) -> Option<StreamMerge> {
        let mut state = locked(&self.state);
        match state.phase {
            ShowPhase::Ended => state.merge.take(),
            ShowPhase::Quiet(_) | ShowPhase::Open => None,
        }
    }

    /// The text to send now.
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
    /// The same exchange, whose agent sees the draft's text as it is written, if the config or the draft's request
    /// wants that and the agent streams. An agent whose history is stored by the provider would continue an answer that
    /// the provider does not know.
    pub(super) fn showing(self, request: &DraftRequest) -> Self {
        let offered = &self.offered;
        let facts = &offered.agent.request.view().facts;
        let is_wanted = request.show.unwrap_or(self.app.config.draft.show);
        if !is_wanted || !facts.stream || !offered.agent.resends() || !is_model_call(self.ctx.operation) {
            return self;
        }
        let id = Uuid::now_v7();
        let answer = LocalAnswer {
            id,
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
        let state = ShownText {
            phase: ShowPhase::Quiet(begun),
            merge: Some(self.merge()),
            quoter: Quoter::default(),
            text: String::new(),
            out: Vec::new(),
        };
        let shown = ShownDraft {
            state: Mutex::new(state),
            begun: Notify::new(),
            id,
        };
        Self {
            shown: Some(Arc::new(shown)),
            ..self
        }
    }

    /// The text of the draft, where the agent has seen any of it.
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

/// Finds the pieces of a model's text in a stream as it arrives.
pub(super) struct TextExtractor {
    framing: Framing,
    framer: Framer,
    /// The last piece was of another part than text.
    aside: bool,
    any: bool,
}

impl TextExtractor {
    pub(super) fn new(framing: Framing, frame_limit: usize) -> Self {
        Self {
            framing,
            framer: Framer::of(framing, frame_limit),
            aside: false,
            any: false,
        }
    }

    /// The text in upstream's next bytes. A frame over the limit has none.
    pub(super) fn feed(&mut self, chunk: Bytes) -> String {
        let mut text = String::new();
        let Ok(batch) = self.framer.push(chunk) else {
            return text;
        };
        for frame in &batch.frames {
            let data = self.framing.data(&batch.buf[frame.clone()]);
            for part in AnswerContent::of(&data).parts {
                match part.kind {
                    AnswerPartKind::Text => {
                        if std::mem::take(&mut self.aside) && self.any {
                            text.push('\n');
                        }
                        self.any = true;
                        text.push_str(&part.text());
                    }
                    _ => self.aside = true,
                }
            }
        }
        text
    }
}
