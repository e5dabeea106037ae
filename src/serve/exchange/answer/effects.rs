//! Performs the effects of an answer's response machine: writes to the store, later legs to upstream.

use http::response::Parts;

use crate::exchange::{record_writer, value::Exchange};
use crate::heavy;
use crate::proxy::download::UpstreamBody;
use crate::state::store::StoreError;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::marker::aside;
use baton_core::plan::NextLeg;
use baton_core::record::InsertionPoint;
use baton_core::response::{AnsweredCall, LegEvent, ResponseEffect, ResponseEnd, ResponseMachine};
use baton_core::text::splice;
use baton_core::wire::{Ending, LegOutput, StopReason};

/// An answer of upstream's that the agent is shown.
pub(super) struct Answered {
    pub(super) exchange: Exchange,
    /// Head of upstream's response.
    pub(super) parts: Parts,
    pub(super) body: UpstreamBody,
    /// Its first leg is about to be read.
    pub(super) machine: ResponseMachine,
    /// What the answer begins with: the sentinel of the handoff that it continues, or a notice.
    pub(super) opening: Option<String>,
}

/// The outcome of an effect.
pub(in crate::exchange) enum EffectResult {
    Event(LegEvent),
    /// A later leg is being answered.
    Leg(UpstreamBody),
}

impl Exchange {
    /// Performs an effect to its end. `spoken`: the model's output in the leg that has ended, where the model is to be asked
    /// again. `streamed`: the form that a later leg must have. The request is in memory again where the effect needs it.
    pub(in crate::exchange) async fn perform(
        &mut self,
        effect: ResponseEffect,
        spoken: Option<LegOutput>,
        streamed: bool,
    ) -> EffectResult {
        if effect.needs_request()
            && let Err(error) = self.reclaim().await
        {
            tracing::error!(exchange = self.ctx.id, %error, "the request cannot be read back");
            return EffectResult::Event(effect.not_done());
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
            // A request that continues by an id that was not written fails upstream, with an error.
            ResponseEffect::WriteId { shown, origin } => {
                let store = self.app.sessions.store();
                let written = store
                    .put_response_id(&self.ctx.principal, &shown, &origin.written())
                    .await;
                ("response id", written.map(|()| LegEvent::Written))
            }
            ResponseEffect::Send { leg, pause, failed } => {
                self.fresh = leg.head.is_some();
                let sent = self.send_later(&leg, pause, failed, streamed).await;
                return sent.map_or_else(EffectResult::Event, EffectResult::Leg);
            }
        };
        EffectResult::Event(done.unwrap_or_else(|error| {
            tracing::error!(exchange = self.ctx.id, %error, "{what} not written");
            LegEvent::NotWritten
        }))
    }

    /// Writes a call with its answer, and makes what asks the model to continue.
    async fn answer_call(
        &self,
        answered: AnsweredCall,
        spoken: Option<LegOutput>,
    ) -> Result<LegEvent, StoreError> {
        // It was too large to keep.
        let Some(spoken) = spoken else {
            return Ok(LegEvent::NotWritten);
        };
        let wire = self.offered.wire();
        let pair = record_writer::pair(self, answered, InsertionPoint::Aside)?;
        let ours = self.hidden();
        let Some(more) = wire.ask_again(&spoken, std::slice::from_ref(&pair), ours) else {
            return Ok(LegEvent::NotWritten);
        };
        let mark = wire.sentinel_text(&aside::line(pair.id));
        let answer = pair.answer.clone();
        record_writer::write_pairs(self, vec![pair]).await?;
        Ok(LegEvent::CallAnswered { mark, more, answer })
    }

    /// What an end of ours states. One that states a later leg's size rewrites the request for it.
    pub(super) fn ending(&self, close: &ResponseEnd) -> Ending {
        let size = |leg: &_| splice::len(&self.plan().later_leg(leg).rope);
        heavy::work(self.offered.weight, || close.ending(size))
    }
}

/// The outcome of a response that is sent to its end; `stop`: how the leg ended that ended last.
pub(super) fn outcome(close: &ResponseEnd, stop: StopReason) -> ExchangeOutcome {
    match close.is_ours() {
        true => ExchangeOutcome::Complete,
        false => ExchangeOutcome::of_end(stop),
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
