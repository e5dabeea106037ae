//! Performs the effects of a response machine: writes to the store, and later legs to upstream.

use http::response::Parts;

use crate::exchange::{record_writer, value::Exchange};
use crate::heavy;
use crate::proxy::download::UpstreamBody;
use crate::state::store::StoreResult;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::marker::aside;
use baton_core::plan::NextLeg;
use baton_core::record::InsertionPoint;
use baton_core::response::{AnsweredCall, LegEvent, ResponseEffect, ResponseEnd, ResponseMachine};
use baton_core::text::splice;
use baton_core::wire::{Ending, LegOutput, StopReason};

/// A response from upstream that the agent will be shown.
pub(super) struct Answered {
    pub(super) exchange: Exchange,
    /// Head of upstream's response.
    pub(super) parts: Parts,
    pub(super) body: UpstreamBody,
    /// Machine of the response, whose first leg is about to be read.
    pub(super) machine: ResponseMachine,
    /// Text that begins the response: the sentinel of the handoff that it continues, or a notice.
    pub(super) opening: Option<String>,
}

/// Outcome of an effect.
pub(in crate::exchange) enum EffectResult {
    Event(Box<LegEvent>),
    /// Upstream is answering a later leg.
    Leg(UpstreamBody),
}

impl Exchange {
    /// Performs an effect to its end.
    ///
    /// `spoken` is the model's output in the leg that has ended, if the model will be called again.
    /// `streamed` is the form that a later leg must have. Reloads the request into memory if the effect needs
    /// it.
    pub(in crate::exchange) async fn perform(
        &mut self,
        effect: ResponseEffect,
        spoken: Option<LegOutput>,
        streamed: bool,
    ) -> EffectResult {
        if effect.needs_request()
            && let Err(error) = self.reclaim().await
        {
            tracing::error!(exchange = self.ctx.id, %error, "failed to reload the request; skipping the effect");
            return EffectResult::Event(Box::new(effect.not_done()));
        }
        let (what, done) = match effect {
            ResponseEffect::WriteHandoff(new) => {
                let written = record_writer::write_handoff(self, new).await;
                let event = written.map(|handoff| LegEvent::HandoffWritten {
                    sentinel: self.sentinel(&handoff),
                    next: NextLeg::after(handoff.id, handoff.head, handoff.routed),
                });
                ("handoff", event)
            }
            ResponseEffect::WritePairs(all) => {
                let written = record_writer::write_beside(self, all).await;
                ("hidden call", written.map(|()| LegEvent::Written))
            }
            ResponseEffect::AnswerCall(call) => ("answered call", self.answer_call(call, spoken).await),
            // If this write fails, a request that continues by the id fails upstream with an error.
            ResponseEffect::WriteId { shown, origin } => {
                let store = self.app.sessions.store();
                let fired = self.answer.fired().last().copied();
                let written = store
                    .put_response(self.response(shown, origin.written(), fired))
                    .await;
                ("response id", written.map(|()| LegEvent::Written))
            }
            ResponseEffect::Send { leg, pause, failed } => {
                // A leg with a head follows a handoff in this response.
                self.fresh = leg.head.is_some();
                let sent = self.send_later(&leg, pause, failed, streamed).await;
                return sent.map_or_else(|event| EffectResult::Event(Box::new(event)), EffectResult::Leg);
            }
        };
        EffectResult::Event(Box::new(done.unwrap_or_else(|error| {
            tracing::error!(exchange = self.ctx.id, %error, "failed to store the {what}; continuing without it");
            LegEvent::NotWritten
        })))
    }

    /// Writes a call with its result, and builds the messages that let the model continue.
    async fn answer_call(&self, answered: AnsweredCall, spoken: Option<LegOutput>) -> StoreResult<LegEvent> {
        // The output was too large to keep.
        let Some(spoken) = spoken else {
            return Ok(LegEvent::NotWritten);
        };
        let wire = self.offered.wire();
        let is_marked = !answered.unmarked;
        let beside = |sibling| InsertionPoint::Beside { sibling, offset: 0 };
        let place = match is_marked {
            true => Some(InsertionPoint::Aside),
            false => answered.call.bound_to.clone().map(beside),
        };
        let is_kept = place.is_some();
        let pair = record_writer::pair(self, answered, place.unwrap_or(InsertionPoint::Aside))?;
        let ours = self.hidden();
        let Some(more) = (wire.functions.ask_again)(&spoken, std::slice::from_ref(&pair), ours) else {
            return Ok(LegEvent::NotWritten);
        };
        let mark = match is_marked {
            true => wire.sentinel_text(&aside::line(pair.id)),
            false => String::new(),
        };
        let answer = pair.answer.clone();
        // Without a place in the transcript, no later request could have the call.
        if is_kept {
            record_writer::write_pairs(self, vec![pair]).await?;
        }
        Ok(LegEvent::CallAnswered { mark, more, answer })
    }

    /// Returns the ending to emit. If it states the size of a later leg, the request is rewritten to measure
    /// it.
    pub(super) fn ending(&self, close: &ResponseEnd) -> Ending {
        let size = |leg: &_| splice::len(&self.plan().later_leg(leg).rope);
        heavy::work(self.offered.weight, || close.ending(size))
    }
}

/// Outcome of a response that was sent to its end. `stop` is the stop reason of the last leg.
pub(super) fn outcome(close: &ResponseEnd, stop: StopReason) -> ExchangeOutcome {
    match close {
        ResponseEnd::Lost { .. } => ExchangeOutcome::LegLost,
        ResponseEnd::Stopped(_) => ExchangeOutcome::Complete,
        ResponseEnd::Own | ResponseEnd::WithoutCall => ExchangeOutcome::of_end(stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg() -> NextLeg {
        NextLeg { ..NextLeg::default() }
    }

    #[test]
    fn a_response_that_stops_at_its_handoff_is_complete_whatever_its_last_leg_was() {
        let stopped = outcome(&ResponseEnd::Stopped(leg()), StopReason::Error);
        assert_eq!(stopped, ExchangeOutcome::Complete);
        assert_eq!(
            outcome(&ResponseEnd::Own, StopReason::Error),
            ExchangeOutcome::of_end(StopReason::Error)
        );
    }
}
