//! Writes handoffs and hidden pairs to the store before any of them is shown.
//!
//! Appends missing items to a handoff's prompt (`handoff.append_missing`), and creates the handoff's document.

use std::sync::Arc;

use bytes::Bytes;

use super::recording::bytes_sent;
use super::value::Exchange;
use crate::heavy;
use crate::proxy::headers;
use crate::state::files::documents::{StoredHandoff, TranscriptReader};
use crate::state::jobs::recalls::{AnswerOutcome, RecallCall};
use crate::state::journal::LiveEvent;
use crate::state::session::FiredHandoff;
use crate::state::store::StoreResult;
use crate::state::telemetry::HandoffEvent;
use baton_core::handoffs::carry::{self, Carried, CarryScope, Rule, UsersWords};
use baton_core::handoffs::document::HandoffSize;
use baton_core::plan::{HandoffSource, NewHandoff, RuleQuery};
use baton_core::record::{Handoff, HandoffId, HiddenPair, HiddenResult, InsertionPoint, KeptTurns};
use baton_core::response::AnsweredCall;
use baton_core::text::splice;
use baton_core::tools::RECALL_NAME;
use baton_core::transcript::Transcript;
use baton_core::wire::Operation;
use baton_core::work::{DraftIndexSettings, SeenFacts};

/// Cost of reading a transcript down to its sentences, relative to rewriting it.
///
/// Measured by `cargo bench --bench core -- carry`.
const READING: usize = 60;

/// Cost of searching a byte, whose words are split and looked up, relative to rewriting it.
const SEARCHED: usize = 32;

/// A handoff that is ready to be written.
pub(super) struct PreparedHandoff {
    pub(super) handoff: Handoff,
    /// Size of the request before and after its cut.
    pub(super) bytes: HandoffSize,
    /// Whether the leg that hands off has also done work. A later leg that hands off at once has not.
    pub(super) has_work: bool,
}

/// Writes the model's handoff. Its sentinel may be shown once this has returned.
pub(super) async fn write_handoff(exchange: &Exchange, new: NewHandoff) -> StoreResult<Handoff> {
    let prepared = prepare(exchange, new, bytes_sent(exchange))?;
    write(exchange, prepared).await
}

/// Creates a handoff of any origin without writing it. `before` is the size of the request before its cut, in
/// bytes.
pub(super) fn prepare(exchange: &Exchange, new: NewHandoff, before: u64) -> StoreResult<PreparedHandoff> {
    let has_work = exchange.answer.fired().is_empty();
    let Carried { prompt, items } = exchange.carried(&new, has_work);
    let id = exchange.app.clock.new_id();
    let handoff = Handoff {
        carried: items,
        ..handoff(exchange, id, NewHandoff { prompt, ..new })?
    };
    let after = splice::len(&exchange.plan().fresh(&handoff).rope) as u64;
    let bytes = HandoffSize { before, after };
    Ok(PreparedHandoff {
        handoff,
        bytes,
        has_work,
    })
}

/// Writes a handoff. Its sentinel may be shown once this has returned.
pub(super) async fn write(exchange: &Exchange, prepared: PreparedHandoff) -> StoreResult<Handoff> {
    let handoff = &prepared.handoff;
    let live = exchange.offered.live()?;
    let now = exchange.app.clock.now_ms();
    let fired = FiredHandoff {
        handoff,
        point: exchange.plan().cut_point(handoff),
        answer: &exchange.answer,
        body_hash: exchange.offered.hash(),
    };
    let pairs = exchange.app.sessions.hand_over(live, fired, now).await?;
    if let Some(branch) = &exchange.branch {
        for outcome in branch.handed_over(handoff.id) {
            exchange.ctx.note_nudge(outcome);
        }
    }
    // A pending draft was about the task before this handoff.
    exchange.app.drafting.handed_over(live.key());
    report(exchange, &prepared, &pairs);
    Ok(prepared.handoff)
}

/// Writes a handoff that awaits the user's approval. It is not active in any conversation.
pub(super) async fn write_for_review(exchange: &Exchange, id: HandoffId, new: NewHandoff) -> StoreResult<()> {
    let handoff = handoff(exchange, id, new)?;
    let (app, live) = (&exchange.app, exchange.offered.live()?);
    app.sessions.put_draft(live, handoff, app.clock.now_ms()).await
}

/// Creates the record of a handoff of this request.
fn handoff(exchange: &Exchange, id: HandoffId, new: NewHandoff) -> StoreResult<Handoff> {
    let (app, offered) = (&exchange.app, &exchange.offered);
    let live = offered.live()?;
    let model = offered.view().facts.model.as_deref().unwrap_or_default();
    let mut routes = app.config.handoff.routes.iter();
    let route = routes.find(|route| route.matches(model, new.reason.as_deref()));
    let source = HandoffSource {
        id,
        principal: &exchange.ctx.principal,
        conversation: live.key(),
        pins: &live.pins(),
        route: route.map(|route| route.to.as_str()),
        history_bytes: offered.len() as u64,
        now_ms: app.clock.now_ms(),
    };
    Ok(exchange.plan().handoff(new, &source))
}

/// Reports a written handoff to the log, the journal, the event, and the writer of documents.
fn report(exchange: &Exchange, prepared: &PreparedHandoff, pairs: &[Arc<HiddenPair>]) {
    let PreparedHandoff { handoff, bytes, .. } = prepared;
    let again = handoff
        .parent
        .and_then(|parent| exchange.looked_up_again(parent, pairs));
    let event = HandoffEvent {
        relookups: again.map(|all| all.len() as u64),
        ..HandoffEvent::from_handoff(handoff, &exchange.ctx.id, *bytes, &exchange.app.redactor)
    };
    match exchange.app.config.log.json {
        true => event.log(),
        false => event.log_line(),
    }
    let told = || LiveEvent::Handoff(Box::new(event.clone()));
    exchange.app.journal.tell(told);
    exchange.write_document(prepared);
    exchange.ctx.recorder.note(|e| e.handed_over(event));
}

/// Writes the pairs of a mixed batch, each next to its sibling. Pairs without an insertion point are left out.
pub(super) async fn write_beside(
    exchange: &Exchange,
    all: Vec<(AnsweredCall, Option<InsertionPoint>)>,
) -> StoreResult<()> {
    let placed = all.into_iter().filter_map(|(call, place)| Some((call, place?)));
    let pairs: StoreResult<_> = placed.map(|(call, place)| pair(exchange, call, place)).collect();
    write_pairs(exchange, pairs?).await
}

/// Writes pairs. Their markers may be shown once this has returned.
pub(super) async fn write_pairs(exchange: &Exchange, pairs: Vec<HiddenPair>) -> StoreResult<()> {
    let (app, live) = (&exchange.app, exchange.offered.live()?);
    app.sessions.add_pairs(live, pairs, app.clock.now_ms()).await
}

/// Executes a call, unless it has a result already, and creates its hidden pair.
///
/// If the call has no parallel calls, an aside with the pair's id marks its place.
pub(super) fn pair(
    exchange: &Exchange,
    answered: AnsweredCall,
    place: InsertionPoint,
) -> StoreResult<HiddenPair> {
    let offered = &exchange.offered;
    let conversation = offered.live()?.key().to_owned();
    let call = &answered.call;
    let (answer, outcome) = match answered.answer {
        Some(answer) if answer == HiddenResult::TOO_OFTEN => (answer, AnswerOutcome::TooOften),
        Some(answer) => (answer, AnswerOutcome::BadArguments),
        None => {
            let weight = offered.weight.saturating_mul(SEARCHED);
            heavy::work(weight, || {
                exchange.app.answers.answer(&RecallCall {
                    tool: call.name(),
                    arguments: &call.arguments,
                    cut: exchange.plan().cut_part(exchange.fresh),
                })
            })
        }
    };
    let refused = u32::from(answer.is_error());
    exchange.ctx.recorder.note(|e| match call.name() {
        RECALL_NAME => e.recalls.push(outcome),
        _ => e.refused_calls += refused,
    });
    Ok(HiddenPair {
        id: exchange.app.clock.new_id(),
        principal: exchange.ctx.principal.clone(),
        conversation,
        wire: offered.view().wire,
        tool: call.name().to_owned(),
        call: (offered.wire().functions.hidden_call)(call),
        call_id: answered.call.id,
        answer,
        place: offered.view().placed(place),
        pending: answered.pending,
        created_ms: exchange.app.clock.now_ms(),
    })
}

impl Exchange {
    /// Appends missing items to a prompt.
    ///
    /// They become part of the prompt, so that the store, the seal and every later request agree. `has_work` tells
    /// whether the leg that hands off has also done work.
    fn carried(&self, new: &NewHandoff, has_work: bool) -> Carried {
        let policy = self.app.config.carry_policy();
        let weight = self.offered.weight.saturating_mul(READING);
        heavy::work(weight, || {
            let words = UsersWords {
                calls_since: self.plan().calls_since_queued(&new.prompt),
                ..self.users_words(new.parent, new.kept.as_ref())
            };
            // Work of an earlier leg belongs to the handoff that fired there.
            let may_see = has_work && policy.scope == CarryScope::All;
            let seen = may_see
                .then(|| self.of_view(self.plan().first(self.tooled()).rope, SeenFacts::of_work))
                .flatten();
            carry::carry(&new.prompt, &words, seen.as_ref(), policy)
        })
    }

    /// Returns the rules that a handoff would carry, newest first.
    pub(super) fn carried_rules(&self) -> Vec<Rule> {
        let weight = self.offered.weight.saturating_mul(READING);
        heavy::work(weight, || self.users_words(None, None).rules)
    }

    /// User statements in the whole history that the agent sends, and the rules of the previous handoff.
    fn users_words(&self, parent: Option<HandoffId>, kept: Option<&KeptTurns>) -> UsersWords {
        let (config, offered) = (&self.app.config, &self.offered);
        // Reading the user's statements is expensive, so it is skipped if nothing is appended.
        if config.handoff.append_missing == CarryScope::Off {
            return UsersWords::default();
        }
        let without = offered.live.as_ref().map(|live| live.no_rules());
        let without = without.unwrap_or_default();
        let parent = parent.or(self.offered.active_id()).or(self.chained_handoff());
        let earlier = parent.and_then(|id| self.app.sessions.known_handoff(id));
        self.plan().users_words(&RuleQuery {
            earlier: earlier.as_deref(),
            kept,
            // A subagent's user is its parent model.
            by_user: !headers::is_of_subagent(&self.ctx.headers),
            without: &without,
            markers: &config.draft.markers,
            redactor: &self.app.redactor,
        })
    }

    /// Returns the items that the model looked up again after a handoff.
    ///
    /// `pairs` are the hidden calls since then. Returns `None` if nothing is known about that time.
    pub(super) fn looked_up_again(
        &self,
        handoff: HandoffId,
        pairs: &[Arc<HiddenPair>],
    ) -> Option<Vec<String>> {
        let weight = self.offered.weight.saturating_mul(READING);
        heavy::work(weight, || {
            let transcript = Transcript::from_view(self.offered.view());
            let calls = carry::called_again(&transcript, handoff);
            carry::looked_up_again(calls, pairs.iter().map(AsRef::as_ref), &self.app.redactor)
        })
    }

    /// Queues the writing of a handoff's document.
    fn write_document(&self, prepared: &PreparedHandoff) {
        if !self.app.documents.is_on() {
            return;
        }
        let (app, offered, tooled) = (Arc::clone(&self.app), Arc::clone(&self.offered), self.tooled());
        let has_work = prepared.has_work;
        let transcript: TranscriptReader =
            Box::new(move || has_work.then(|| splice::flat(offered.plan(&app).first(tooled).rope)));
        let recorder = &self.ctx.recorder;
        self.app.documents.handoff(StoredHandoff {
            handoff: prepared.handoff.clone(),
            carry_over: self.offered.pin.carry_over(),
            exchange: Some(self.ctx.id.clone()),
            run: recorder.read(|e| e.run.clone()),
            topic: recorder.read(|e| e.topic.clone()),
            context_tokens: recorder.read(|e| e.context_tokens()),
            bytes: prepared.bytes,
            transcript,
        });
    }

    /// Calls `make` with the transcript of a rewritten request, and with the settings for reading it for a draft.
    ///
    /// Returns `None` if the request has no conversation.
    pub(super) fn of_view<T>(
        &self,
        rope: Vec<Bytes>,
        make: impl FnOnce(DraftIndexSettings, &Transcript<'_>) -> T,
    ) -> Option<T> {
        let (body, offered) = (splice::flat(rope), &self.offered);
        offered.live.as_ref()?;
        let view = offered.wire().read(&body, Operation::Generate).ok()?;
        let (carry_over, redactor) = (self.offered.pin.carry_over(), self.app.redactor.clone());
        let settings = self.app.config.draft_settings(carry_over, redactor);
        Some(make(settings, &Transcript::from_view(&view)))
    }
}
