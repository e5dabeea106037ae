//! Performs what the course of an answer asks for: writes to the store, later legs to upstream.

use std::time::Duration;

use http::response::Parts;
use http::{HeaderMap, StatusCode};

use super::Exchange;
use crate::serve::proxy::download::UpstreamBody;
use crate::state::store::StoreError;
use crate::state::telemetry::ExchangeOutcome;
use baton_core::course::{
    AnsweredCall, Course, CourseEvent, CourseTerms, Effect, NextLeg, RepeatedHandoff, ResponseEnd,
    VerdictInput,
};
use baton_core::mark::aside;
use baton_core::record::InsertionPlace;
use baton_core::rewrite::{Cut, RewriteOutcome};
use baton_core::text::splice;
use baton_core::wire::{Ending, LegOutput, StopReason};

/// What came of an effect.
pub(super) enum Done {
    /// This.
    Event(CourseEvent),
    /// A later leg is being answered.
    Leg(UpstreamBody),
}

impl Exchange {
    /// The course of this answer, its first leg being read.
    pub(super) fn course(&self, first: VerdictInput, opening: Option<RepeatedHandoff>) -> Course {
        Course::new(CourseTerms {
            first,
            stops: self.stops(),
            goes_on_by_id: self.offered.agent.wire.goes_on_by_id()
                && !self.offered.agent.request.view().facts.unstored,
            retries: self.app.config.handoff.retries,
            active: self.offered.pin.active.as_ref().map(|active| active.id),
            opening,
            opens_with_text: self.opening.before_model().is_some(),
        })
    }

    /// Performs an effect to its end. `spoken`: what the model said in the leg that has ended, where it is to be asked
    /// again. `streamed`: the form that a later leg must have. The request is in memory again where the effect needs it.
    pub(super) async fn perform(
        &mut self,
        effect: Effect,
        spoken: Option<LegOutput>,
        streamed: bool,
    ) -> Done {
        if needs_request(&effect)
            && let Err(error) = self.reclaim().await
        {
            tracing::error!(exchange = self.ctx.id, %error, "the request cannot be had again");
            return Done::Event(effect.not_done());
        }
        Done::Event(match effect {
            Effect::WriteHandoff {
                prompt,
                reason,
                parent,
            } => match self.write_handoff(prompt, reason, parent).await {
                Ok(handoff) => CourseEvent::HandoffWritten {
                    id: handoff.id,
                    sentinel: self.sentinel(&handoff),
                    head: handoff.head,
                },
                Err(error) => self.not_written("handoff", &error),
            },
            Effect::WritePairs(all) => match self.write_beside(all).await {
                Ok(()) => CourseEvent::Written,
                Err(error) => self.not_written("hidden call", &error),
            },
            Effect::AnswerCall(call) => match self.answer_call(call, spoken).await {
                Ok(event) => event,
                Err(error) => self.not_written("answered call", &error),
            },
            Effect::WriteId {
                shown,
                origin: behind,
            } => match self.write_id(&shown, &behind).await {
                Ok(()) => CourseEvent::Written,
                // A request that goes on by the id fails upstream, and says so.
                Err(error) => self.not_written("response id", &error),
            },
            Effect::Send { leg, pause, failed } => {
                self.fresh = leg.head.is_some();
                return self.send_later(&leg, pause, failed, streamed).await;
            }
        })
    }

    fn not_written(&self, what: &str, error: &StoreError) -> CourseEvent {
        tracing::error!(exchange = self.ctx.id, %error, "{what} not written");
        CourseEvent::NotWritten
    }

    /// Writes a call with its answer, and makes what asks the model to go on.
    async fn answer_call(
        &self,
        answered: AnsweredCall,
        spoken: Option<LegOutput>,
    ) -> Result<CourseEvent, StoreError> {
        // It was too much to keep.
        let Some(spoken) = spoken else {
            return Ok(CourseEvent::NotWritten);
        };
        let wire = self.offered.agent.wire;
        let pair = self.pair(answered, InsertionPlace::Aside)?;
        let ours = self.hidden();
        let Some(more) = wire.ask_again(&spoken, std::slice::from_ref(&pair), ours) else {
            return Ok(CourseEvent::NotWritten);
        };
        let mark = wire.sentinel_text(&aside::line(pair.id));
        let answer = pair.answer.clone();
        self.write_pairs(vec![pair]).await?;
        Ok(CourseEvent::CallAnswered { mark, more, answer })
    }

    /// Sends a later leg once.
    async fn send_later(&self, leg: &NextLeg, pause: Duration, failed: u32, streamed: bool) -> Done {
        if failed > 0 {
            self.ctx.recorder.note(|e| e.retries += 1);
        }
        // A timer counts whole milliseconds: no pause is not the shortest one.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let (exchange, attempt) = (&self.ctx.id, failed);
        let (retry, pause) = match self.send_leg(&self.leg(leg)).await {
            Ok(response) if response.status().is_success() => {
                let (parts, body) = response.into_parts();
                if let Some(body) = self.leg_body(&parts, body, streamed) {
                    return Done::Leg(body);
                }
                tracing::error!(exchange, "leg answered in another form than the first");
                (false, None)
            }
            Ok(response) => {
                let (status, retry) = (response.status().as_u16(), may_pass(response.status()));
                match retry {
                    true => tracing::warn!(exchange, attempt, status, "leg refused"),
                    false => tracing::error!(exchange, status, "leg refused for good"),
                }
                (retry, asked_pause(response.headers()))
            }
            Err(fault) => {
                tracing::warn!(exchange, attempt, code = fault.code.name, "leg not answered");
                (true, None)
            }
        };
        Done::Event(CourseEvent::LegRefused { retry, pause })
    }

    /// The request of a later leg: afresh behind a handoff, or the first one's, with more behind it.
    fn leg(&self, leg: &NextLeg) -> RewriteOutcome {
        let offered = &self.offered;
        let (cut, recall) = match &leg.head {
            Some(head) => (Cut::Fresh { head }, offered.offer.recall_next),
            None => (offered.cut(), offered.offer.recall),
        };
        let tools = Some(self.app.tools_with(recall));
        let active = offered.pin.active.as_ref().map(|active| active.id);
        offered
            .rewritten(&self.app, cut, tools, &leg.more)
            .cut_at(leg.after.or(active))
    }

    /// A later leg's body; `None` where it has not the first one's form.
    fn leg_body(&self, parts: &Parts, body: UpstreamBody, streamed: bool) -> Option<UpstreamBody> {
        let right = match streamed {
            true => self.is_stream(parts),
            false => self.is_whole(parts),
        };
        self.readable(parts, body).ok().filter(|_| right)
    }

    /// How the response ends, in the wires' word.
    pub(super) fn ending(&self, close: &ResponseEnd) -> Ending {
        match close {
            ResponseEnd::Own => Ending::Own,
            ResponseEnd::WithoutCall => Ending::WithoutCall,
            ResponseEnd::Stopped(leg) => Ending::Stopped {
                next_input: self.tokens_of(leg),
            },
            ResponseEnd::Lost(leg) => Ending::Lost {
                next_input: self.tokens_of(leg),
            },
        }
    }

    /// About how many tokens a later leg has.
    fn tokens_of(&self, leg: &NextLeg) -> u64 {
        splice::len(&self.leg(leg).rope) as u64 / baton_core::limits::BYTES_PER_TOKEN
    }
}

/// The outcome of a response that is sent to its end; `stop`: how the leg ended that ended last.
pub(super) fn outcome(close: &ResponseEnd, stop: StopReason) -> ExchangeOutcome {
    match close {
        ResponseEnd::Own | ResponseEnd::WithoutCall => ExchangeOutcome::of_end(stop),
        ResponseEnd::Stopped(_) | ResponseEnd::Lost(_) => ExchangeOutcome::Complete,
    }
}

/// Whether an effect reads the agent's request.
fn needs_request(effect: &Effect) -> bool {
    match effect {
        Effect::WriteHandoff { .. } | Effect::AnswerCall(_) | Effect::Send { .. } => true,
        // Whoever answers a call looks into it.
        Effect::WritePairs(all) => all.iter().any(|(call, _)| call.answer.is_none()),
        Effect::WriteId { .. } => false,
    }
}

/// Whether the status is retryable.
pub(super) fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || status.is_server_error()
}

/// `retry-after-ms`, or `retry-after` in seconds. Dates are used by no provider.
fn asked_pause(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms").or_else(|| number("retry-after").map(|s| s * 1000.0))?;
    (millis >= 0.0 && millis.is_finite()).then(|| Duration::from_millis(millis as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_pause_is_the_one_asked_for() {
        let asked = |name: &'static str, value: &'static str| {
            asked_pause(&HeaderMap::from_iter([(
                name.parse().unwrap(),
                HeaderValue::from_static(value),
            )]))
        };
        assert_eq!(asked("retry-after", "2"), Some(Duration::from_secs(2)));
        assert_eq!(asked("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(asked("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(asked("retry-after", "-1"), None);
    }
}
