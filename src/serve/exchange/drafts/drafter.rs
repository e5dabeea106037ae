//! Writes the document of a draft, and makes the handoff from it.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::legs::DraftInput;
use crate::exchange::record_writer::{self, PreparedHandoff};
use crate::exchange::value::Exchange;
use crate::proxy::RequestContext;
use crate::state::files::repository;
use crate::state::jobs::drafts::{DraftJob, DraftOrder};
use crate::state::journal::LiveEvent;
use crate::state::store::StoreError;
use crate::state::telemetry::DraftEvent;
use baton_core::handoffs::draft::{self, AcceptedDraft, DraftEnd, DraftMethod, DraftRequest};
use baton_core::record::Handoff;
use baton_core::rewrite::RewriteOutcome;
use baton_core::text::splice;
use baton_core::work::DraftIndex;

/// An attempt to write a document, counted when it is dropped.
///
/// If the agent disconnects or the process stops, it counts as cancelled.
struct CountedAttempt<'e> {
    ctx: &'e RequestContext,
    event: DraftEvent,
}

impl Drop for CountedAttempt<'_> {
    fn drop(&mut self) {
        let event = self.event;
        self.ctx.recorder.note(|e| e.drafts.push(event));
    }
}

/// Writes the draft of `job` and its handoff. The sentinel may be shown once this has returned.
///
/// # Errors
/// The reason why there is no handoff. The conversation is unchanged.
pub(in crate::exchange) async fn hand_over(exchange: &Exchange, job: DraftJob) -> Result<Handoff, DraftEnd> {
    match stored(exchange, &job).await {
        Ok((document, Some(handoff))) => {
            job.done(document.method, document.document, handoff.id);
            Ok(handoff)
        }
        Ok((document, None)) => {
            job.review(document);
            Err(DraftEnd::Review)
        }
        Err(end) => {
            job.ended(&end);
            Err(end)
        }
    }
}

/// Stores the document of a job, and the handoff that it becomes.
///
/// The handoff is `None` if the document awaits the user's approval. Nothing is cut then.
async fn stored(exchange: &Exchange, job: &DraftJob) -> Result<(AcceptedDraft, Option<Handoff>), DraftEnd> {
    let request = &job.wanted.ask;
    let first = exchange.plan().first(exchange.tooled());
    let mut document = made(exchange, &first, job).await?;
    let prepared = prepared(exchange, request, &document, &first)?;
    if job.accepted.is_none() && request.is_reviewed(exchange.app.config.handoff.review) {
        let new = exchange.plan().drafted_for_review(request, &document)?;
        document.made_at = new.kept.as_ref().map(|kept| kept.from.clone());
        let written = record_writer::write_for_review(exchange, job.id, new).await;
        written.map_err(|error| unwritten(exchange, &error))?;
        tracing::info!(exchange = exchange.ctx.id, draft = %job.id, "stored a draft; waiting for approval");
        return Ok((document, None));
    }
    let written = record_writer::write(exchange, prepared).await;
    let handoff = written.map_err(|error| unwritten(exchange, &error))?;
    // The draft that was stored for review has become another handoff.
    if job.accepted.is_some()
        && let store = exchange.app.sessions.store()
        && let Err(error) = store.archive(&exchange.ctx.principal, job.id, true).await
    {
        tracing::warn!(exchange = exchange.ctx.id, %error, "failed to archive a reviewed draft; it stays listed");
    }
    Ok((document, Some(handoff)))
}

/// Returns the document of a job: accepted, given or drafted.
async fn made(
    exchange: &Exchange,
    first: &RewriteOutcome,
    job: &DraftJob,
) -> Result<AcceptedDraft, DraftEnd> {
    let DraftOrder { ask: request, prompt } = &job.wanted;
    let is_drafted = job.accepted.is_none() && prompt.is_none();
    let made = match (&job.accepted, prompt) {
        // Applies to given and accepted documents as well: in so short a history there is nothing to cut.
        _ if !draft::enough(first.messages) => Err(DraftEnd::NothingYet),
        (Some(accepted), _) => Ok(accepted.clone()),
        (None, Some(document)) => Ok(AcceptedDraft::new(document.clone(), None)),
        (None, None) => document(exchange, request, first, job).await,
    };
    let untried = DraftEvent::untried(request.origin, &made, is_drafted);
    exchange.ctx.recorder.note(|e| e.drafts.extend(untried));
    made
}

/// Writes the document by the requested method, or by the next one if the request allows that.
async fn document(
    exchange: &Exchange,
    request: &DraftRequest,
    first: &RewriteOutcome,
    job: &DraftJob,
) -> Result<AcceptedDraft, DraftEnd> {
    let config = &exchange.app.config.draft;
    let mut method = request.first_method(config.method, config.model.as_deref());
    // A local draft is done at once, so it has no progress to show.
    if method != DraftMethod::Local {
        if let Some(shown) = &exchange.shown {
            shown.begin();
        }
        let run = || exchange.ctx.recorder.read(|event| event.run.clone());
        exchange.app.journal.tell(|| LiveEvent::Draft { run: run() });
    }
    let Some(index) = exchange.of_view(first.rope.clone(), DraftIndex::from_transcript) else {
        return Err(DraftEnd::Internal);
    };
    let repository = match request.git {
        true => repository_state(exchange, &index).await,
        false => String::new(),
    };
    let input = DraftInput {
        exchange,
        request,
        index,
        repository,
    };
    loop {
        let end = match attempt(&input, method, job.cancelled()).await {
            Ok(document) => return Ok(AcceptedDraft::new(document, Some(method))),
            Err(end) => end,
        };
        let Some(next) = method.after(&end, request.falls_back()) else {
            return Err(end);
        };
        let (from, to) = (method.name(), next.name());
        tracing::warn!(exchange = exchange.ctx.id, why = %end, from, to, "failed to write a draft; trying another method");
        method = next;
    }
}

/// Returns the state of the repository that the session works in.
async fn repository_state(exchange: &Exchange, index: &DraftIndex) -> String {
    let (config, principal) = (Arc::clone(&exchange.app.config), exchange.ctx.principal.clone());
    let run = exchange.ctx.recorder.read(|event| event.run.clone());
    let whereabouts = index.whereabouts();
    let look = move || repository::draft_state(&config, &principal, run.as_deref(), &whereabouts);
    spawn_blocking(look).await.unwrap_or_default()
}

/// Returns the carry-over prompt that a draft without a model would make from the live request's history.
///
/// `None` if the history is too short.
pub(in crate::exchange) fn local_prompt(exchange: &Exchange) -> Option<String> {
    let app = &exchange.app;
    let first = exchange.plan().first(exchange.tooled());
    let index = index_of_enough(exchange, &first)?;
    let request = DraftRequest::automatic();
    let document = index.local(&request.spec(app.config.draft.facts_tokens, ""));
    let document = AcceptedDraft::new(document.ok()?, Some(DraftMethod::Local));
    let prepared = prepared(exchange, &request, &document, &first).ok()?;
    Some(app.redactor.text(&prepared.handoff.prompt).into_owned())
}

/// Index of a rewritten request. `None` if its history is too short for a draft.
fn index_of_enough(exchange: &Exchange, first: &RewriteOutcome) -> Option<DraftIndex> {
    draft::enough(first.messages)
        .then(|| exchange.of_view(first.rope.clone(), DraftIndex::from_transcript))?
}

/// Makes one attempt by this method, counted however it ends.
async fn attempt(
    input: &DraftInput<'_>,
    method: DraftMethod,
    cancelled: impl Future<Output = ()>,
) -> Result<String, DraftEnd> {
    let app = &input.exchange.app;
    let mut counted = CountedAttempt {
        ctx: &input.exchange.ctx,
        event: DraftEvent {
            origin: input.request.origin.name(),
            method: method.name(),
            outcome: DraftEnd::Cancelled.outcome(),
        },
    };
    let limit = app.config.draft.timeout;
    let end = tokio::select! {
        end = tokio::time::timeout(limit, input.written(method)) => {
            end.unwrap_or(Err(DraftEnd::Timeout(limit.as_secs())))
        }
        () = cancelled => Err(DraftEnd::Cancelled),
    };
    counted.event.outcome = end.as_ref().map_or_else(DraftEnd::outcome, |_| "complete");
    end.map(|text| match method {
        DraftMethod::Local => text,
        // Puts the user's goal first in a model's document, and adds the facts that it lacks.
        _ => input.index.completed(&text, &input.spec(0)),
    })
}

/// Makes the handoff of a document without writing it.
///
/// # Errors
/// The prompt is too long, or the draft would make the request larger.
fn prepared(
    exchange: &Exchange,
    request: &DraftRequest,
    document: &AcceptedDraft,
    first: &RewriteOutcome,
) -> Result<PreparedHandoff, DraftEnd> {
    let new = exchange.plan().drafted(request, document)?;
    let prepared = record_writer::prepare(exchange, new, splice::len(&first.rope) as u64);
    let prepared = prepared.map_err(|error| unwritten(exchange, &error))?;
    exchange.plan().check_size(request, document, prepared.bytes)?;
    Ok(prepared)
}

fn unwritten(exchange: &Exchange, error: &StoreError) -> DraftEnd {
    tracing::error!(exchange = exchange.ctx.id, %error, "failed to store the handoff; continuing without it");
    DraftEnd::Store(error.cause())
}

/// Returns the report of a handoff to the user. It precedes the sentinel, so the model never sees it.
pub(in crate::exchange) fn handoff_report(exchange: &Exchange, handoff: &Handoff) -> String {
    let event = exchange
        .ctx
        .recorder
        .read(|e| e.handoffs.last().map(|h| (h.before_bytes, h.after_bytes)));
    // A response that reports the handoff again has no event for it.
    let (before, after) = event.unwrap_or_else(|| {
        let after = splice::len(&exchange.plan().fresh(handoff).rope) as u64;
        (handoff.history_bytes, after)
    });
    let tokens = [before, after].map(|bytes| exchange.conversation_tokens(bytes as usize));
    draft::handoff_report(handoff.origin, tokens, &exchange.app.config.commands.prefix)
}
