//! State machine of one response to the agent, leg after leg: events go in, actions come out.
//!
//! A single machine serves streamed and complete responses, without socket, store or clock. The driver reads
//! the legs, performs the effects one at a time, shows text, and reports the outcomes.
//!
//! ```text
//! leg ended ─► judge ─┬► end
//!                     ├► fire: write the handoff ─► show its sentinel ─► send the next leg, or end (stop mode)
//!                     │        not written: answer the call with a refusal
//!                     ├► mixed: write the pairs ─► end
//!                     └► answer the call: write the pair ─► show its marker ─► send the model's own turn and the result
//! leg failed without visible output ─► send it again after a pause, or end after what was shown
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use uuid::Uuid;

use super::events::{Action, LegEvent, ResponseEffect, ResponseEnd};
use super::verdict::{AnsweredCall, Verdict, VerdictInput, bound, judge, place_beside, untaken, why_dropped};
use crate::limits;
use crate::marker::note;
use crate::plan::{LegAttempts, NewHandoff, NextLeg, RetryPolicy};
use crate::record::{HandoffId, HiddenResult, OpenResponse, PendingResult, ResponseOrigin};
use crate::wire::{EMPTY_TURN, Ending, LegReport, StopReason, error_message};

/// Cause of a failure without an error from the provider.
pub(super) const ENDED_EARLY: &str = "the response ended early";

/// Settings of the whole response.
#[derive(Debug, Clone, Default)]
pub struct ResponseOptions {
    /// Input for the verdict about the first leg.
    pub first: VerdictInput,
    /// Whether the response ends at a handoff.
    pub stops: bool,
    /// Whether a later request may continue the response by id only.
    pub goes_on_by_id: bool,
    /// Whether the ids of all responses are recorded, to tell whose they are.
    pub records_ids: bool,
    /// Retries of later legs.
    pub retry: RetryPolicy,
    /// Active handoff, which cuts the agent's request.
    pub active: Option<HandoffId>,
    /// The first leg if it follows a handoff whose sentinel begins the response.
    pub opening: Option<NextLeg>,
    /// Whether the response begins with text from baton, followed by the first leg.
    pub opens_with_text: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ResponseState {
    /// The driver reads a leg.
    Reading,
    /// The driver sends a leg.
    Sending,
    WritingHandoff,
    /// Writing pairs. Afterwards the response ends in this way.
    WritingPairs(ResponseEnd),
    AnsweringCall,
    /// Writing pairs before the last action, because the leg has no proper end.
    WritingLast(Action),
    /// Writing the id, the last effect before the end.
    WritingId(ResponseEnd),
    Over,
}

/// State of one response to the agent.
#[derive(Debug)]
pub struct ResponseMachine {
    state: ResponseState,
    actions: VecDeque<Action>,
    /// See [`ResponseOptions`] for this field and the next three.
    stops: bool,
    goes_on_by_id: bool,
    records_ids: bool,
    active: Option<HandoffId>,
    now: VerdictInput,
    /// Report of the last leg that ended.
    report: LegReport,
    /// Request of the current leg.
    leg: NextLeg,
    tries: LegAttempts,
    /// Tool that is computing the result of a call.
    answering: Option<&'static str>,
    /// Whether this machine sent the current leg.
    later: bool,
    /// Whether any text from baton was shown.
    emitted: bool,
    /// Response id of the first leg, which is the id that the agent knows.
    first_id: Option<String>,
    /// Hidden calls of the last leg that still need a result upstream.
    owed: Vec<PendingResult>,
}

impl ResponseMachine {
    /// Starts with the driver reading the first leg.
    pub fn new(terms: ResponseOptions) -> Self {
        let leg = terms.opening.unwrap_or_default();
        Self {
            state: ResponseState::Reading,
            actions: VecDeque::new(),
            stops: terms.stops,
            goes_on_by_id: terms.goes_on_by_id,
            records_ids: terms.records_ids,
            active: terms.active,
            now: terms.first,
            report: LegReport::default(),
            emitted: terms.opens_with_text || leg.after.is_some(),
            leg,
            tries: LegAttempts::new(terms.retry),
            answering: None,
            later: false,
            first_id: None,
            owed: Vec::new(),
        }
    }

    /// Returns the next action, or `None` until the next event.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether a handoff is pending until the end of the turn.
    pub(super) fn waits(&self) -> bool {
        self.now.pending.is_some()
    }

    /// Whether this machine sent the current leg.
    pub fn is_later_leg(&self) -> bool {
        self.later
    }

    /// Handles an event. An event that does not fit the state is ignored.
    pub fn handle_event(&mut self, event: LegEvent) {
        match (&self.state, event) {
            (ResponseState::Reading, LegEvent::LegEnded(report)) => self.leg_ended(report),
            (
                ResponseState::Reading,
                LegEvent::LegTruncated {
                    report,
                    shown,
                    changed,
                },
            ) => {
                self.leg_truncated(&report, shown, changed);
            }
            (
                ResponseState::Reading,
                LegEvent::LegBroken {
                    report,
                    shown,
                    retry,
                    cause,
                },
            ) => {
                self.leg_broken(&report, shown, retry, cause);
            }
            (ResponseState::WritingHandoff, LegEvent::HandoffWritten { next, sentinel }) => {
                self.hand_over(next, sentinel)
            }
            (ResponseState::AnsweringCall, LegEvent::CallAnswered { mark, more, answer }) => {
                // The machine always answers the first hidden call.
                if let Some(first) = self.owed.first_mut() {
                    first.answer = answer;
                }
                if !mark.is_empty() {
                    self.say(mark);
                }
                // The elements add up: each further leg must repeat the calls that were answered before.
                self.leg.more.push(more);
                match self.answering.take() {
                    Some(tool) => self.now.answered.push(tool),
                    None => self.now.refused += 1,
                }
                self.now.asked += 1;
                self.send_next();
            }
            (ResponseState::WritingHandoff, LegEvent::NotWritten) => self.refuse_handoff(),
            // Not durable, so not shown: the turn ends as if the call had not been made.
            (ResponseState::AnsweringCall, LegEvent::NotWritten) => self.close(ResponseEnd::WithoutCall),
            // A call next to the agent's calls is hidden in either case, and its turn continues.
            (ResponseState::WritingPairs(close), LegEvent::Written | LegEvent::NotWritten) => {
                let close = close.clone();
                self.close(close);
            }
            (ResponseState::WritingLast(last), LegEvent::Written | LegEvent::NotWritten) => {
                let last = last.clone();
                self.over(last);
            }
            (ResponseState::WritingId(close), LegEvent::Written | LegEvent::NotWritten) => {
                let close = close.clone();
                self.over(Action::End(close));
            }
            (ResponseState::Reading | ResponseState::Sending, LegEvent::QuotaUsed(error)) => {
                self.refused(error)
            }
            (ResponseState::Sending, LegEvent::LegBegun) => self.state = ResponseState::Reading,
            (ResponseState::Sending, LegEvent::LegRefused { retry, pause, cause }) => {
                self.failed(retry, pause, cause);
            }
            _ => {}
        }
    }

    fn leg_ended(&mut self, report: LegReport) {
        let verdict = judge(&report, &self.now);
        // OpenAI's SDKs refuse a stream whose response id changes, so later legs are shown under the first id.
        self.first_id.get_or_insert_with(|| report.id.clone());
        self.owed = untaken(&report);
        self.report = report;
        match verdict {
            Verdict::End(Ending::WithoutCall) => self.without_calls(ResponseEnd::WithoutCall),
            Verdict::End(_) => self.without_calls(ResponseEnd::Own),
            Verdict::Fire { prompt, reason } => {
                // A chained handoff continues the previous one of the same response.
                let parent = self.leg.after.or(self.active);
                let new = NewHandoff::of_model(prompt, reason, parent);
                // Nothing of the sentinel is shown before the handoff is durable.
                self.perform(ResponseState::WritingHandoff, ResponseEffect::WriteHandoff(new));
            }
            Verdict::Mixed(all) => {
                // A request that continues this response by its id has no call that a pair could stand next to. The result
                // of a search does not exist yet, and comes from its pair.
                self.owed.retain_mut(|owed| {
                    let answered = all.iter().find(|answered| answered.call.id == owed.call_id);
                    match answered.map(|answered| &answered.answer) {
                        Some(None) => return false,
                        Some(Some(answer)) => owed.answer = answer.clone(),
                        None => {}
                    }
                    true
                });
                // The last handoff call of the batch replaces one that was pending.
                let waiting = all.iter().rev().find_map(|answered| answered.pending.clone());
                self.now.pending = waiting.or(self.now.pending.take());
                let placed = all.into_iter().map(|refused| {
                    let place = place_beside(&self.report, &refused.call);
                    (refused, place)
                });
                let effect = ResponseEffect::WritePairs(placed.collect());
                self.perform(ResponseState::WritingPairs(ResponseEnd::Own), effect);
            }
            Verdict::AskAgain(call) => {
                self.answering = call.answer.is_none().then(|| call.call.name());
                self.perform(ResponseState::AnsweringCall, ResponseEffect::AnswerCall(call));
            }
        }
    }

    /// Tells the model that its handoff is not stored, so that the turn of an unattended agent does not end without a word.
    ///
    /// A handoff that waited for the end of the turn has no call in this leg, and lapses with the user's next message.
    fn refuse_handoff(&mut self) {
        match self.report.hidden.first() {
            Some(call) if self.now.refused < limits::ASK_AGAIN => {
                let refused = AnsweredCall::new(call, Some(HiddenResult::NOT_STORED));
                self.perform(ResponseState::AnsweringCall, ResponseEffect::AnswerCall(refused));
            }
            _ => self.close(ResponseEnd::WithoutCall),
        }
    }

    /// Drops the calls of the leg, except for one that the API requires.
    fn without_calls(&mut self, close: ResponseEnd) {
        let all = bound(&self.report);
        if all.is_empty() {
            return self.close(close);
        }
        let write = ResponseEffect::WritePairs(all);
        self.perform(ResponseState::WritingPairs(close), write);
    }

    /// Ends after a leg without a terminal frame.
    ///
    /// Some agents treat such a stream as complete, so the connection is aborted. A stream that baton did not
    /// change ends exactly like upstream's.
    fn leg_truncated(&mut self, report: &LegReport, shown: bool, changed: bool) {
        // The agent has received the error event, so nothing can be retried.
        let ended_in_error = report.stop == StopReason::Error && shown;
        if ended_in_error || !changed && !self.later && !self.emitted {
            self.without_end(report, Action::EndAsItIs);
        } else {
            self.leg_broken(report, shown, true, ENDED_EARLY.to_owned());
        }
    }

    fn leg_broken(&mut self, report: &LegReport, shown: bool, retry: bool, cause: String) {
        // The agent has seen nothing of the leg, so another attempt cannot contradict it.
        if self.later && !shown {
            self.failed(retry, None, cause);
        } else {
            self.without_end(report, Action::BreakOff);
        }
    }

    /// Ends the response where the leg ended.
    ///
    /// Agents may keep the partial output, so a call that the API requires is stored even then.
    fn without_end(&mut self, report: &LegReport, last: Action) {
        match bound(report) {
            all if all.is_empty() => self.over(last),
            all => self.perform(ResponseState::WritingLast(last), ResponseEffect::WritePairs(all)),
        }
    }

    /// Shows the sentinel and starts the next leg after the handoff.
    fn hand_over(&mut self, next: NextLeg, sentinel: String) {
        self.say(sentinel);
        // The sentinel is shown in either case: if the next leg fails, the agent's next request continues from it.
        self.leg = next;
        self.now.legs += 1;
        // The cut removes the pending call as well.
        self.now.pending = None;
        self.now.refused = 0;
        // The cut removes the calls that were waiting for a result.
        self.owed.clear();
        if self.stops {
            return self.end(ResponseEnd::Stopped(self.leg.clone()));
        }
        self.send_next();
    }

    fn send_next(&mut self) {
        self.tries = self.tries.of_next_leg();
        self.send(Duration::ZERO);
    }

    fn send(&mut self, pause: Duration) {
        self.later = true;
        let effect = ResponseEffect::Send {
            leg: self.leg.clone(),
            pause,
            failed: self.tries.failed(),
        };
        self.perform(ResponseState::Sending, effect);
    }

    /// Handles a failed attempt at the current leg, which has shown no output.
    fn failed(&mut self, retry: bool, pause: Option<Duration>, cause: String) {
        match self.tries.fail(pause).filter(|_| retry) {
            Some(pause) => self.send(pause),
            None => self.lost(cause),
        }
    }

    /// Ends the response after a quota error, which a retry cannot help.
    ///
    /// After a sentinel the next request continues, and reports the error if it persists. Otherwise the agent
    /// gets the error now, because the response would look complete without it.
    fn refused(&mut self, error: String) {
        match self.leg.after {
            Some(_) => self.lost(error_message(error.as_bytes()).unwrap_or(error)),
            None => self.over(Action::Refuse(error)),
        }
    }

    /// Ends the response without the next leg.
    ///
    /// After a sentinel the end tells the agent to continue, if its wire can express that. If nothing was shown
    /// at all, the agent tries again.
    fn lost(&mut self, cause: String) {
        let leg = self.leg.clone();
        self.end(match leg.after {
            None if !self.emitted => return self.over(Action::BreakOff),
            // The note would not be in the format.
            None if self.now.structured => ResponseEnd::Stopped(leg),
            _ => ResponseEnd::Lost { leg, cause },
        });
    }

    /// Ends with the output of the last leg.
    fn close(&mut self, close: ResponseEnd) {
        // Without its hidden call the message could be empty or end in thinking, and the agent's next request
        // would be rejected.
        if self.report.is_unsendable(self.emitted) {
            self.say(EMPTY_TURN.to_owned());
        }
        // The note would not be in a requested format.
        if close == ResponseEnd::WithoutCall && !self.now.structured {
            let dropped = self.report.hidden.first();
            let note = dropped.map(|call| note::answer(&why_dropped(call, &self.now), Uuid::nil()));
            // A note begins a line, and the model's text may precede it in the same string.
            note.into_iter().for_each(|note| self.say(format!("\n\n{note}")));
        }
        self.end(close);
    }

    /// Ends the response. First stores what its id stands for, because the agent may use the id at once.
    fn end(&mut self, close: ResponseEnd) {
        let Some(origin) = self.origin_after(&close) else {
            return self.over(Action::End(close));
        };
        let shown = self.first_id.clone().unwrap_or_default();
        let write = ResponseEffect::WriteId { shown, origin };
        self.perform(ResponseState::WritingId(close), write);
    }

    /// Returns the upstream response or the handoff that the agent's response id stands for.
    ///
    /// `None` if there is nothing to store: the response cannot be continued by its id, or upstream knows it by the
    /// same id, nothing is pending, and ids are not recorded.
    fn origin_after(&self, close: &ResponseEnd) -> Option<ResponseOrigin> {
        let shown = self.first_id.as_deref().unwrap_or_default();
        if !self.goes_on_by_id || shown.is_empty() {
            return None;
        }
        // With elements in `more`, a leg after the handoff ended with an answered call of baton. The next request
        // then continues the response of that leg and not the handoff.
        let at_handoff =
            matches!(close, ResponseEnd::Stopped(leg) | ResponseEnd::Lost { leg, .. } if leg.more.is_empty());
        if let Some(handoff) = self.leg.after.filter(|_| at_handoff) {
            return Some(ResponseOrigin::Handoff(handoff));
        }
        let last = Some(&self.report.id).filter(|last| !last.is_empty())?;
        let (owed, pending) = (self.owed.clone(), self.now.pending.clone());
        if owed.is_empty() && pending.is_none() {
            let is_recorded = self.records_ids || last != shown;
            return is_recorded.then(|| ResponseOrigin::Response(last.clone()));
        }
        Some(ResponseOrigin::Open(OpenResponse {
            response: last.clone(),
            owed,
            pending,
        }))
    }

    fn say(&mut self, text: String) {
        self.emitted = true;
        self.actions.push_back(Action::Say(text));
    }

    fn perform(&mut self, state: ResponseState, effect: ResponseEffect) {
        self.state = state;
        self.actions.push_back(Action::Perform(effect));
    }

    fn over(&mut self, last: Action) {
        self.state = ResponseState::Over;
        self.actions.push_back(last);
    }
}
