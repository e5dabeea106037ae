//! What an agent sees while a model writes a draft: one line at once, with `draft.show` also the text as it is written. Marks
//! of ours remove both from every later request, even if the answer breaks off in the middle of the text.

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

/// The line and the text. Nothing is shown before a model is asked. All clones of an exchange share it.
pub(super) struct ShownDraft {
    state: Mutex<ShownText>,
    begun: Notify,
    /// Whether the text follows the line.
    with_text: bool,
    /// Id of the note that ends the line or the text.
    id: Uuid,
}

/// The line, after the prefix of every answer of ours.
const LINE: &str = "a handoff is being written.";

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
    /// The line alone is shown, and is complete.
    Line,
    /// The text is open.
    Text,
    Ended,
}

impl ShownText {
    fn say(&mut self, piece: &str) {
        self.text.push_str(piece);
        if let Some(merge) = &mut self.merge {
            merge.text_piece(piece, &mut self.out);
        }
    }

    fn end(&mut self) {
        let Self { merge, text, out, .. } = self;
        if let Some(merge) = merge {
            merge.end_text(text, out);
        }
    }
}

impl ShownDraft {
    /// Shows the line, where nothing is shown yet.
    pub(super) fn begin(&self) {
        let mut state = locked(&self.state);
        let ShowPhase::Quiet(opening) = &state.phase else {
            return;
        };
        let opening = opening.clone();
        let ShownText { merge, out, .. } = &mut *state;
        if let Some(merge) = merge {
            merge.begin_text(opening, out);
        }
        match self.with_text {
            true => {
                let line = note::draft_line(self.id);
                state.say(&format!("{}{LINE}\n\n{line}\n\n", note::BEGINS));
                state.phase = ShowPhase::Text;
            }
            false => {
                state.say(&format!("{}\n\n", note::answer(LINE, self.id)));
                // Agents that print whole blocks print it now.
                state.end();
                state.phase = ShowPhase::Line;
            }
        }
        self.begun.notify_one();
    }

    /// The next piece of a model's text.
    pub(super) fn piece(&self, text: &str) {
        let mut state = locked(&self.state);
        if matches!(state.phase, ShowPhase::Text) {
            let quoted = state.quoter.follow(text);
            state.say(&quoted);
        }
    }

    /// The shown text has no effect, and another one follows.
    pub(super) fn begin_again(&self, why: &str) {
        self.piece(&format!("\n\n({why}; another method is used)\n\n"));
    }

    /// Whether anything was shown.
    pub(super) fn is_begun(&self) -> bool {
        !matches!(locked(&self.state).phase, ShowPhase::Quiet(_))
    }

    /// Whether the text is shown, and not the line alone.
    pub(super) fn has_text(&self) -> bool {
        self.with_text && self.is_begun()
    }

    /// Is done when something is shown.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Shows the draft's result, its note, and `rest`.
    pub(super) fn end(&self, result: &str, rest: &str) {
        let mut state = locked(&self.state);
        match state.phase {
            ShowPhase::Text => {
                state.say(&format!("\n\n{result}\n\n{}\n\n{rest}", note::line(self.id)));
                state.end();
            }
            ShowPhase::Line => {
                let ShownText { merge, out, .. } = &mut *state;
                if let Some(merge) = merge {
                    merge.say(
                        &format!("{}\n\n{rest}", note::answer(result, Uuid::now_v7())),
                        out,
                    );
                }
            }
            ShowPhase::Quiet(_) | ShowPhase::Ended => return,
        }
        state.phase = ShowPhase::Ended;
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
            ShowPhase::Quiet(_) | ShowPhase::Line | ShowPhase::Text => None,
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
    /// The same exchange, whose agent sees that a draft is made if it streams. The agent also sees the draft's text, where
    /// that may be shown and the config or the draft's request wants it. An agent whose history is stored by the provider
    /// would continue an answer that the provider does not know.
    pub(super) fn showing(self, request: &DraftRequest, may_show_text: bool) -> Self {
        let offered = &self.offered;
        let facts = &offered.agent.request.view().facts;
        if !facts.stream || !offered.agent.resends() || !is_model_call(self.ctx.operation) {
            return self;
        }
        let with_text = may_show_text && request.show.unwrap_or(self.app.config.draft.show);
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
            with_text,
            id,
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
