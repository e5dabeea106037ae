//! A handoff that the model did not begin: its document is written, and the conversation goes on behind it.
//!
//! ```text
//! a draft waits ─► the document: given | oneshot | bundle | local ─► write the handoff ─► the sentinel, then the leg behind it
//!                      └► failed, empty, cancelled: the request goes up as it came
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use http::Response;
use uuid::Uuid;

use super::Exchange;
use super::opening::AnswerOpening;
use crate::serve::proxy::response_body::ResponseBody;
use crate::state::config::ReviewPolicy;
use crate::state::jobs::drafts::{AcceptedDraft, DraftJob, DraftOrder, DraftState};
use crate::state::session::LiveConversation;
use crate::state::telemetry::DraftEvent;
use baton_core::agents::wordings::{self, UserText};
use baton_core::handoffs::draft::{
    self, DraftEnd, DraftFailure, DraftIndex, DraftMethod, DraftRequest, DraftSpec, TokenCounter,
};
use baton_core::limits;
use baton_core::mark::{note, sentinel};
use baton_core::record::{Handoff, HandoffOrigin};
use baton_core::rewrite::RewriteOutcome;
use baton_core::text::splice;
use baton_core::transcript::{Transcript, TranscriptPartKind};
use baton_core::wire::Role;

/// What a draft is made of.
pub(super) struct Asked<'a> {
    pub(super) ask: &'a DraftRequest,
    pub(super) index: &'a DraftIndex,
    pub(super) repository: &'a str,
    /// Who counts the conversation's tokens.
    pub(super) count: TokenCounter,
}

impl<'a> Asked<'a> {
    /// The size is the method's.
    pub(super) fn request(&self) -> DraftSpec<'a> {
        DraftSpec {
            focus: &self.ask.focus,
            preset: self.ask.preset,
            tokens: 0,
            count: self.count,
            repository: self.repository,
            commands: self.ask.commands,
            why: self.ask.why,
        }
    }
}

/// A try to make a document, counted when it is over. An agent that leaves drops it, and what it waits for.
struct Counted<'e> {
    exchange: &'e Exchange,
    ask: &'e DraftRequest,
    method: DraftMethod,
    outcome: &'static str,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let Self {
            exchange,
            ask,
            method,
            outcome,
        } = self;
        exchange.note_draft(ask, method.name(), outcome);
    }
}

/// A document, and how it was made; `None`: it was given.
struct Document {
    text: String,
    method: Option<DraftMethod>,
}

/// Answers a request with which a draft is made: by the leg behind the handoff, or as if nobody had asked.
pub(super) async fn run(exchange: Exchange, job: DraftJob) -> Response<ResponseBody> {
    let ask = &job.wanted().ask;
    let exchange = match exchange.is_reviewed(ask) {
        // Whoever looks at it does so elsewhere.
        true => exchange,
        false => exchange.showing(ask),
    };
    super::slow_answer::answered(exchange.clone(), async move {
        let (id, origin) = (job.id(), job.wanted().ask.origin);
        match exchange.hand_over(job).await {
            Ok(handoff) => {
                exchange.save_automatic(id, &handoff);
                let told = exchange.told(&handoff);
                match exchange.begun_draft() {
                    Some(shown) => {
                        shown.end(told.strip_prefix(note::BEGINS).unwrap_or(&told), "");
                        shown.say(&exchange.sentinel(&handoff));
                        exchange.go_on_behind(&handoff).await
                    }
                    None => exchange.telling(told).go_on_behind(&handoff).await,
                }
            }
            Err(DraftEnd::Review) => exchange.begin().await,
            Err(end) => {
                tracing::warn!(exchange = exchange.ctx.id, draft = %id, end = end.name(), why = %end, "no handoff was made");
                exchange.note_no_draft(origin);
                if let Some(shown) = exchange.begun_draft() {
                    shown.end(&format!("no handoff was made: {end}."), "");
                }
                exchange.begin().await
            }
        }
    })
    .await
}

impl Exchange {
    /// The draft that waits for a request of this conversation, where it can be made with this one.
    pub(super) fn waiting_draft(&self) -> Option<DraftJob> {
        let drafting = &self.app.drafting;
        let live = self.offered.agent.live.as_ref()?;
        if !drafting.waits(live.key()) || !self.is_safe_point() {
            return None;
        }
        drafting.take(live.key())
    }

    /// Whether the conversation may be cut in front of the answer to this request: an agent's loop asks, the model has no
    /// call that waits, and a sentinel may stand in the answer.
    pub(super) fn is_safe_point(&self) -> bool {
        self.offered.agent.is_safe_point(self.ctx.endpoint)
    }

    /// Writes the draft of `job` and the handoff that it becomes; when this has returned, its sentinel may be shown.
    ///
    /// # Errors
    /// How it ended else; the conversation is as it was.
    pub(super) async fn hand_over(&self, job: DraftJob) -> Result<Handoff, DraftEnd> {
        let first = self.offered.first(&self.app, self.offered.offer.tooled);
        let DraftOrder { ask, prompt } = job.wanted().clone();
        let accepted = job.accepted().cloned();
        let reviewed = accepted.is_none() && self.is_reviewed(&ask);
        let is_drafted = accepted.is_none() && prompt.is_none();
        let made = match (accepted, prompt) {
            _ if !self.is_enough(&first) => Err(DraftEnd::Failed(DraftFailure::NothingYet)),
            (Some(AcceptedDraft { document, method }), _) => Ok(Document {
                text: document,
                method,
            }),
            (None, Some(text)) => Ok(Document { text, method: None }),
            (None, None) => self.document(&ask, &first, &job).await,
        };
        match &made {
            Ok(Document { method: None, .. }) => self.note_draft(&ask, DraftEvent::GIVEN, "complete"),
            Err(end @ DraftEnd::Failed(DraftFailure::NothingYet | DraftFailure::Internal)) if is_drafted => {
                self.note_draft(&ask, DraftEvent::NONE, end.outcome());
            }
            _ => {}
        }
        if reviewed && let Ok(document) = made {
            return Err(self.for_review(&ask, document, job).await);
        }
        let written = match made {
            Ok(document) => self.write_draft(&ask, document, &first).await,
            Err(end) => Err(end),
        };
        match written {
            Ok((handoff, document)) => {
                self.archive_reviewed(&job).await;
                job.done(document.method, document.text, handoff.id);
                Ok(handoff)
            }
            Err(end) => {
                job.ended(&end);
                Err(end)
            }
        }
    }

    /// Counts a try to make a document.
    fn note_draft(&self, ask: &DraftRequest, method: &'static str, outcome: &'static str) {
        let origin = ask.origin.name();
        self.ctx.recorder.note(|e| {
            e.drafts.push(DraftEvent {
                origin,
                method,
                outcome,
            });
        });
    }

    /// Whether a person looks at it first.
    fn is_reviewed(&self, ask: &DraftRequest) -> bool {
        ask.review
            || match self.app.config.handoff.review {
                ReviewPolicy::Never => false,
                ReviewPolicy::Manual => ask.origin != HandoffOrigin::Auto,
                ReviewPolicy::Always => true,
            }
    }

    /// Stores a document that waits for a person's yes. Nothing is cut by it.
    async fn for_review(&self, ask: &DraftRequest, document: Document, job: DraftJob) -> DraftEnd {
        let (carried, origin) = carried(ask, &document);
        let prompt = sentinel::normalised(&carried);
        if prompt.len() > limits::PROMPT {
            let end = DraftEnd::Failed(DraftFailure::TooLong);
            job.ended(&end);
            return end;
        }
        match self.write_for_review(job.id(), prompt, origin).await {
            Ok(()) => {
                tracing::info!(exchange = self.ctx.id, draft = %job.id(), "a draft waits for a person's yes");
                job.review(document.method, document.text);
                DraftEnd::Review
            }
            Err(error) => {
                tracing::error!(exchange = self.ctx.id, %error, "draft not written");
                let end = DraftEnd::Failed(DraftFailure::Store);
                job.ended(&end);
                end
            }
        }
    }

    /// What was stored for the review has become another handoff, with what was said since.
    async fn archive_reviewed(&self, job: &DraftJob) {
        if job.accepted().is_some() {
            let store = self.app.sessions.store();
            if let Err(error) = store.archive(&self.ctx.principal, job.id(), true).await {
                tracing::warn!(exchange = self.ctx.id, %error, "a reviewed draft is still listed");
            }
        }
    }

    /// The same exchange, whose answer tells once that a draft of this conversation waits for a person, where the person goes on
    /// without. The note behind it keeps that out of the model's view.
    pub(super) fn noting_pending(mut self) -> Self {
        let drafting = &self.app.drafting;
        let live = self.offered.agent.live.as_ref();
        let waits = |live: &&Arc<LiveConversation>| {
            let open = drafting.open_in(live.key());
            open.is_some_and(|draft| draft.state == DraftState::Review)
        };
        let Some(live) = live.filter(waits).filter(|_| self.is_safe_point()) else {
            return self;
        };
        if let Some(draft) = drafting.pending_once(live.key()) {
            tracing::info!(exchange = self.ctx.id, %draft, "a draft waits for a person's yes, and the conversation goes on");
            let line = note::line(Uuid::now_v7());
            let told = format!(
                "{}a draft of a handoff waits for your yes: {}. Until then nothing changes.\n\n{line}\n\n",
                note::BEGINS,
                self.yes_or_no()
            );
            self.opening = AnswerOpening::Notice(told.into());
        }
        self
    }

    fn is_enough(&self, first: &RewriteOutcome) -> bool {
        draft::enough(first.messages)
    }

    /// The document, by the method that was asked for, or by the next one where it may be.
    async fn document(
        &self,
        ask: &DraftRequest,
        first: &RewriteOutcome,
        job: &DraftJob,
    ) -> Result<Document, DraftEnd> {
        let config = &self.app.config.draft;
        let Some(index) = self.index(first.rope.clone()) else {
            return Err(DraftEnd::Failed(DraftFailure::Internal));
        };
        let repository = self.repository(ask.git).await;
        let asked = Asked {
            ask,
            index: &index,
            repository: &repository,
            count: self.offered.count(),
        };
        let mut method = ask.method.unwrap_or(config.method);
        if method == DraftMethod::Oneshot && ask.model.as_ref().or(config.model.as_ref()).is_some() {
            // The history is bound to the model that it was made with.
            method = DraftMethod::Bundle;
        }
        loop {
            let mut counted = Counted {
                exchange: self,
                ask,
                method,
                outcome: DraftEnd::Cancelled.outcome(),
            };
            let end = tokio::select! {
                end = self.by(method, &asked) => end,
                () = job.cancelled() => DraftEnd::Cancelled,
            };
            counted.outcome = end.outcome();
            drop(counted);
            let next = match &end {
                DraftEnd::Complete(text) => {
                    let text = self.checked(method, &asked, text);
                    return Ok(Document {
                        text: text.into_owned(),
                        method: Some(method),
                    });
                }
                DraftEnd::Cancelled | DraftEnd::Review => None,
                DraftEnd::Failed(why) if why.is_size() => method.fallback(),
                DraftEnd::Empty | DraftEnd::Failed(_) => method.fallback().filter(|_| ask.falls_back()),
            };
            let Some(next) = next else { return Err(end) };
            let (from, to) = (method.name(), next.name());
            tracing::warn!(exchange = self.ctx.id, why = %end, from, to, "a draft came to nothing: made another way");
            if let Some(shown) = &self.shown {
                shown.begin_again(&end.to_string());
            }
            method = next;
        }
    }

    async fn by(&self, method: DraftMethod, asked: &Asked<'_>) -> DraftEnd {
        let config = &self.app.config.draft;
        let work = async {
            match method {
                DraftMethod::Oneshot => self.ask_behind_history(asked).await,
                DraftMethod::Bundle => self.ask_with_bundle(asked).await,
                DraftMethod::Local => {
                    let request = DraftSpec {
                        tokens: config.facts_tokens,
                        ..asked.request()
                    };
                    let composed = asked.index.local(&request);
                    composed.map_or_else(
                        |why| DraftEnd::Failed(DraftFailure::TooSmall(why)),
                        DraftEnd::Complete,
                    )
                }
            }
        };
        match tokio::time::timeout(config.timeout, work).await {
            Ok(end) => end,
            Err(_) => DraftEnd::Failed(DraftFailure::Timeout(config.timeout.as_secs())),
        }
    }

    /// A model's document with what it lacks.
    fn checked<'t>(&self, method: DraftMethod, asked: &Asked<'_>, text: &'t str) -> Cow<'t, str> {
        match method {
            DraftMethod::Local => text.into(),
            DraftMethod::Oneshot | DraftMethod::Bundle => {
                let prompts = &self.app.prompts;
                asked.index.completed(text, prompts, asked.count).into()
            }
        }
    }

    /// Writes the handoff of a document.
    async fn write_draft(
        &self,
        ask: &DraftRequest,
        document: Document,
        first: &RewriteOutcome,
    ) -> Result<(Handoff, Document), DraftEnd> {
        let (carried, origin) = carried(ask, &document);
        let prompt = draft::with_open_message(&carried, &self.open_message());
        // A document may quote a transcript with marks of ours in it.
        let prompt = sentinel::normalised(&prompt);
        if prompt.len() > limits::PROMPT {
            return Err(DraftEnd::Failed(DraftFailure::TooLong));
        }
        let reason = ask.reason.as_deref().map(sentinel::normalised);
        let parent = self.offered.pin.active.as_ref().map(|active| active.id);
        let before = splice::len(&first.rope) as u64;
        let written = self
            .write_drafted(
                prompt,
                reason.filter(|reason| !reason.is_empty()),
                parent,
                (origin, before),
            )
            .await;
        match written {
            Ok(handoff) => Ok((handoff, document)),
            Err(error) => {
                tracing::error!(exchange = self.ctx.id, %error, "handoff not written");
                Err(DraftEnd::Failed(DraftFailure::Store))
            }
        }
    }

    /// What the person said behind the model's last turn: nobody has answered it yet.
    fn open_message(&self) -> String {
        let tags = &self.app.config.handoff.preamble_tags;
        let view = self.offered.agent.request.view();
        let turns = Transcript::of(view).turns().rev();
        // What is sent by its id alone is the model's, mostly.
        let open = turns.take_while(|turn| !matches!(turn.role, Role::Assistant | Role::Other));
        let mut texts = Vec::new();
        for turn in open.filter(|turn| turn.role == Role::User) {
            for part in turn.parts().iter().rev() {
                let TranscriptPartKind::Text(text) = part.kind else {
                    continue;
                };
                let text = text.get();
                let said = wordings::after_harness(&text, tags);
                if !said.trim().is_empty() && wordings::user_text(said, tags) == UserText::Person {
                    texts.push(said.trim().to_owned());
                }
            }
        }
        texts.reverse();
        texts.join("\n\n")
    }

    /// What the person is told of a handoff, in front of its sentinel: there it is never in the model's view.
    pub(super) fn told(&self, handoff: &Handoff) -> String {
        let event = self
            .ctx
            .recorder
            .read(|e| e.handoffs.last().map(|h| (h.before_bytes, h.after_bytes)));
        // An answer that tells of it again has no event of it.
        let (before, after) = event.flatten().unwrap_or_else(|| {
            let after = splice::len(&self.fresh(&handoff.head).rope) as u64;
            (handoff.history_bytes, after)
        });
        let undo = match self.app.config.commands.prefix.as_str() {
            "" => "To undo it, go back in your agent to before this answer.".to_owned(),
            prefix => format!("To undo it: `{prefix}handoff undo`."),
        };
        format!(
            "baton: handed over ({}), {} before, {} now, {}. {undo}",
            how(handoff.origin),
            size(before),
            size(after),
            handoff.id
        )
    }
}

/// The carry-over prompt of a document, and the handoff's origin.
fn carried(ask: &DraftRequest, document: &Document) -> (String, HandoffOrigin) {
    match document.method {
        Some(method) => (draft::carried(&document.text), ask.origin_of(method)),
        // A document that somebody brings is the carry-over prompt as it is.
        None => (document.text.trim().to_owned(), HandoffOrigin::Person),
    }
}

/// How a handoff was made.
fn how(origin: HandoffOrigin) -> &'static str {
    match origin {
        HandoffOrigin::Model => "by the model",
        HandoffOrigin::Oneshot => "written by the model",
        HandoffOrigin::Bundle => "written from a selection",
        HandoffOrigin::Local => "composed without a model",
        HandoffOrigin::Person => "as given",
        HandoffOrigin::Auto => "by a threshold",
        HandoffOrigin::Api => "by the API",
        HandoffOrigin::Other => "by a newer version of baton",
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
