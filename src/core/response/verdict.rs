//! Judges a leg that has ended.

use std::sync::Arc;

use crate::handoffs::draft;
use crate::limits;
use crate::marker::sentinel;
use crate::plan::PlannedRequest;
use crate::record::{HiddenResult, InsertionPoint, PendingResult};
use crate::rewrite::{RewriteOutcome, chained};
use crate::text::json;
use crate::tools::{OnCall, TOOL_NAME, ToolTable};
use crate::wire::{Ending, HiddenCall, LegReport, StopReason, in_answer};

/// Inputs of a verdict in addition to the leg.
#[derive(Debug, Clone, Default)]
pub struct VerdictInput {
    /// Number of messages in the model's view after the carry-over prompt.
    pub messages: usize,
    /// Number of contexts so far, including this one: the first, and one for each handoff.
    pub legs: u32,
    /// Number of legs that followed an answered call, within any of these contexts.
    pub asked: u32,
    /// Number of handoffs that the model has just made in a row, with almost no work between them.
    pub chained: u32,
    /// Maximum number of legs for one agent request.
    pub max_chain: u32,
    /// Number of refused calls that were answered in this agent request.
    pub refused: u32,
    /// Calls that baton's other tools answered in this agent request, one name per call.
    pub answered: Vec<&'static str>,
    /// Tools of baton.
    pub tools: Arc<ToolTable>,
    /// Carry-over prompt and reason of an earlier call that waits for the end of the turn.
    pub pending: Option<(String, Option<String>)>,
    /// Whether the output must not contain a sentinel, because it is a summary or bound to a JSON schema.
    pub structured: bool,
}

impl VerdictInput {
    /// Collects the inputs for the first leg of a planned request.
    ///
    /// `tooled` tells whether the request was sent with the tool. `max_chain` limits the legs of its response.
    /// Handoffs that the model has just made in a row count as legs when it hands over again.
    pub fn new(plan: &PlannedRequest<'_>, sent: &RewriteOutcome, tooled: bool, max_chain: u32) -> Self {
        let continued = plan.pin.stored_turn().filter(|_| !plan.places.lapses);
        let stored = || continued.and_then(|turn| turn.pending.clone());
        let pending = sent.pending.clone().or_else(stored);
        let side_call = plan.call.side_call;
        Self {
            messages: sent.messages,
            legs: 1,
            asked: 0,
            chained: chained(plan.reading, plan.policy.look.tags, max_chain),
            max_chain,
            refused: 0,
            answered: Vec::new(),
            tools: Arc::clone(&plan.policy.tools.recall),
            // A side call must not carry out the handoff of the main conversation.
            pending: pending.filter(|_| tooled && !side_call),
            structured: plan.reading.view.facts.structured || side_call,
        }
    }

    /// Whether another request may be sent upstream for this request of the agent.
    fn has_leg_left(&self) -> bool {
        self.legs + self.asked < self.max_chain
    }

    /// Whether a handoff may begin another context.
    fn may_chain(&self) -> bool {
        self.legs + self.asked + self.chained < self.max_chain && !self.structured
    }
}

/// Step after a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// End the response.
    End(Ending),
    /// Hand over.
    Fire {
        /// Carry-over prompt, normalized.
        prompt: String,
        /// Reason in the model's words.
        reason: Option<String>,
    },
    /// Store baton's calls and end the response unchanged, because the agent has calls of its own to execute.
    Mixed(Vec<AnsweredCall>),
    /// Answer the call and let the model continue.
    AskAgain(AnsweredCall),
}

/// A hidden call with its result for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredCall {
    pub call: HiddenCall,
    /// The result, or `None` until its tool has run.
    pub answer: Option<HiddenResult>,
    /// Prompt and reason, if the handoff waits for the end of the turn.
    pub pending: Option<(String, Option<String>)>,
    /// Whether the response shows no marker of the call.
    pub unmarked: bool,
}

impl AnsweredCall {
    pub(super) fn new(call: &HiddenCall, answer: Option<HiddenResult>) -> Self {
        Self {
            call: call.clone(),
            answer,
            pending: None,
            unmarked: false,
        }
    }
}

/// Judges a leg that has ended.
pub fn judge(report: &LegReport, now: &VerdictInput) -> Verdict {
    let may_chain = now.may_chain();
    if report.hidden.is_empty() {
        // A pending handoff waits for the natural end of the agent's turn.
        let is_done = report.stop == StopReason::Done && report.calls.is_empty();
        return match now.pending.clone().filter(|_| is_done && may_chain) {
            Some((prompt, reason)) => Verdict::Fire { prompt, reason },
            None => Verdict::End(Ending::Own),
        };
    }
    // A truncated or refused turn never hands over, because its prompt may be cut off.
    if !report.stop.natural() {
        return match cut_off(report) {
            none if none.is_empty() => Verdict::End(Ending::Own),
            all => Verdict::Mixed(all),
        };
    }
    if !report.calls.is_empty() {
        return Verdict::Mixed(mixed(report, now));
    }
    alone(report, now, may_chain)
}

/// Outcome of a single call.
enum CallFate {
    /// Hand over with this prompt and reason.
    Fire(String, Option<String>),
    /// Run the tool for a result.
    Ask,
    /// Return this result, with no other effect.
    Answer(HiddenResult),
}

/// Decides about a single call. `before` counts earlier calls of its tool in this agent request.
fn fate(call: &HiddenCall, now: &VerdictInput, before: usize) -> CallFate {
    let tool = now.tools.get(call.name());
    match tool.map(|tool| (tool.on_call, tool.per_turn)) {
        Some((OnCall::Answer, _)) if call.oversize || !call.complete => {
            CallFate::Answer(HiddenResult::NOT_WHOLE)
        }
        Some((OnCall::Answer, most)) if before >= most as usize => CallFate::Answer(HiddenResult::TOO_OFTEN),
        Some((OnCall::Answer, _)) => CallFate::Ask,
        Some((OnCall::Fire, _)) | None => match accept(call, now) {
            Ok((prompt, reason)) => CallFate::Fire(prompt, reason),
            Err(answer) => CallFate::Answer(answer),
        },
    }
}

/// Counts the calls of a tool.
fn calls_of<'a>(tool: &str, calls: impl IntoIterator<Item = &'a &'static str>) -> usize {
    calls.into_iter().filter(|name| **name == tool).count()
}

/// Judges a leg whose only calls are baton's.
///
/// The last valid handoff call counts. If there is none, the first call is answered, because signatures and
/// reasoning are bound to the first call of a message (Gemini, Responses).
fn alone(report: &LegReport, now: &VerdictInput, may_chain: bool) -> Verdict {
    let dropped = Verdict::End(Ending::WithoutCall);
    // A sentinel would break the format, so no handoff fires. The call is answered if later requests do not need a
    // marker for that, and otherwise dropped.
    if now.structured {
        return in_format(report, now).map_or(dropped, Verdict::AskAgain);
    }
    let fates = || {
        let before = |call: &HiddenCall| calls_of(call.name(), &now.answered);
        let hidden = report.hidden.iter();
        hidden.map(move |call| (call, fate(call, now, before(call))))
    };
    let mut fires = fates().rev().filter_map(|(_, fate)| match fate {
        CallFate::Fire(prompt, reason) => Some(Verdict::Fire { prompt, reason }),
        _ => None,
    });
    if let Some(fire) = fires.next() {
        return if may_chain { fire } else { dropped };
    }
    let answer = match fates().next() {
        _ if !now.has_leg_left() => None,
        Some((call, CallFate::Ask)) => Some((call, None)),
        // If no leg is left for a handoff, a handoff call is not answered.
        Some((call, CallFate::Answer(_))) if !may_chain && call.name() == TOOL_NAME => None,
        // Limited, because a model may repeat the same mistake.
        Some((call, CallFate::Answer(answer))) if now.refused < limits::ASK_AGAIN => {
            Some((call, Some(answer)))
        }
        _ => None,
    };
    answer.map_or(dropped, |(call, answer)| {
        Verdict::AskAgain(AnsweredCall::new(call, answer))
    })
}

/// Answers the first call of a leg whose output is bound to a format, so that the model gives that output.
///
/// No marker may be shown then, so later requests have the call only if it stands after reasoning with an id.
/// `None` if anything else was shown: text would not be in the format, and other thinking would be bound to
/// the call.
fn in_format(report: &LegReport, now: &VerdictInput) -> Option<AnsweredCall> {
    let call = report.hidden.first().filter(|_| now.has_leg_left())?;
    if report.parts > 0 && call.bound_to.is_none() {
        return None;
    }
    let answer = match fate(call, now, calls_of(call.name(), &now.answered)) {
        CallFate::Ask => None,
        _ if now.refused >= limits::ASK_AGAIN => return None,
        CallFate::Fire(..) => Some(HiddenResult::IN_FORMAT),
        CallFate::Answer(answer) => Some(answer),
    };
    Some(AnsweredCall {
        unmarked: true,
        ..AnsweredCall::new(call, answer)
    })
}

/// Returns the hidden calls before an agent's call in a truncated turn, with results that deny any effect.
///
/// The calls are complete, because the model continued after them. The thinking before them is bound to them,
/// so they have to be stored.
fn cut_off(report: &LegReport) -> Vec<AnsweredCall> {
    if !matches!(report.stop, StopReason::Truncated | StopReason::Refused) {
        return Vec::new();
    }
    let last = report.calls.last().map(|(_, at)| *at);
    let before = report.hidden.iter().filter(|call| Some(call.after) <= last);
    before
        .map(|call| AnsweredCall::new(call, Some(why_untaken(call, false))))
        .collect()
}

/// Returns the leg's calls that have no effect, each with its result for the model.
pub(super) fn untaken(report: &LegReport) -> Vec<PendingResult> {
    let natural = report.stop.natural();
    let pending_result = |call: &HiddenCall| PendingResult {
        call_id: call.id.clone(),
        answer: why_untaken(call, natural),
    };
    report.hidden.iter().map(pending_result).collect()
}

fn why_untaken(call: &HiddenCall, natural: bool) -> HiddenResult {
    match (call.name(), natural) {
        (TOOL_NAME, true) => HiddenResult::NOT_TAKEN,
        (TOOL_NAME, false) => HiddenResult::CUT_OFF,
        (_, true) => HiddenResult::TOO_OFTEN,
        (_, false) => HiddenResult::NOT_WHOLE,
    }
}

/// Describes to the user why the turn ended at a call that has no effect.
pub(super) fn why_dropped(call: &HiddenCall, now: &VerdictInput) -> String {
    let is_handoff = call.name() == TOOL_NAME;
    let is_last = !now.has_leg_left() || is_handoff && !now.may_chain();
    let cause = match (is_last, now.refused >= limits::ASK_AGAIN) {
        (true, _) => "handoff.max_chain is reached",
        (false, true) => "it was refused several times",
        (false, false) => "it could not be stored",
    };
    let act = match is_handoff {
        true => "asking for a handoff",
        false => "searching what was cut",
    };
    format!("the turn ended because the model kept {act} ({cause}). Send any message to go on.")
}

/// Returns the dropped calls that reasoning is bound to, if the model wrote more after them.
///
/// The API accepts that reasoning only if this call follows it. The stored result states that the call had no
/// effect. The pair is inserted right after the reasoning.
pub(super) fn bound(report: &LegReport) -> Vec<(AnsweredCall, Option<InsertionPoint>)> {
    let natural = report.stop.natural();
    let followed_by_text = report.hidden.iter().filter(|call| call.after < report.parts);
    let bound = followed_by_text.filter_map(|call| Some((call, call.bound_to.clone()?)));
    bound
        .map(|(call, sibling)| {
            let answered = AnsweredCall::new(call, Some(why_untaken(call, natural)));
            (answered, Some(InsertionPoint::Beside { sibling, offset: 0 }))
        })
        .collect()
}

/// Answers every hidden call of a mixed batch. The last valid handoff stays pending.
fn mixed(report: &LegReport, now: &VerdictInput) -> Vec<AnsweredCall> {
    let mut names = now.answered.clone();
    let mut all: Vec<AnsweredCall> = report
        .hidden
        .iter()
        .map(|call| {
            // Calls of the same batch count, or one message could exceed the limit.
            let fate = fate(call, now, calls_of(call.name(), &names));
            names.push(call.name());
            match fate {
                CallFate::Fire(prompt, reason) => AnsweredCall {
                    pending: Some((prompt, reason)),
                    ..AnsweredCall::new(call, Some(HiddenResult::QUEUED))
                },
                CallFate::Ask => AnsweredCall::new(call, None),
                CallFate::Answer(answer) => AnsweredCall::new(call, Some(answer)),
            }
        })
        .collect();
    // The model may correct itself within a batch: only its last word is carried out.
    let last = all.iter().rposition(|r| r.pending.is_some());
    for (i, answered) in all.iter_mut().enumerate() {
        if Some(i) != last {
            answered.pending = None;
        }
    }
    all
}

/// Validates a handoff call. Returns its prompt and reason, or the result that refuses it.
fn accept(call: &HiddenCall, now: &VerdictInput) -> Result<(String, Option<String>), HiddenResult> {
    if call.oversize {
        return Err(HiddenResult::TOO_LONG);
    }
    let text = call.arguments.as_bytes();
    let whole = json::whole(text).ok().filter(|_| call.complete);
    let whole = whole.ok_or(HiddenResult::BAD_ARGUMENTS)?;
    let prompt = json::get_string(text, whole, "prompt").ok_or(HiddenResult::BAD_ARGUMENTS)?;
    let prompt = sentinel::normalised(&prompt);
    if prompt.is_empty() {
        return Err(HiddenResult::EMPTY_PROMPT);
    }
    if prompt.len() > limits::PROMPT {
        return Err(HiddenResult::TOO_LONG);
    }
    // Only the first leg: later ones are bounded by `max_chain`, and begin with almost no messages.
    if now.legs == 1 && !draft::enough(now.messages) {
        return Err(HiddenResult::NOTHING_TO_HAND_OFF);
    }
    // An empty reason is the same as none.
    let reason = json::get_string(text, whole, "reason");
    let reason = reason.map(|reason| sentinel::normalised(&reason));
    Ok((prompt, reason.filter(|reason| !reason.is_empty())))
}

/// Position of a hidden call among its visible siblings: after the nearest call before it, or else before the
/// nearest call after it.
pub fn place_beside(report: &LegReport, call: &HiddenCall) -> Option<InsertionPoint> {
    let distance = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let calls = &report.calls;
    let beside = |n: usize, offset: i32| InsertionPoint::Beside {
        sibling: in_answer(&calls[n].0, n),
        offset,
    };
    let before = calls.iter().rposition(|(_, at)| *at < call.after);
    if let Some(n) = before {
        return Some(beside(n, distance(call.after - 1 - calls[n].1)));
    }
    let n = calls.iter().position(|(_, at)| *at >= call.after)?;
    Some(beside(n, -1 - distance(calls[n].1 - call.after)))
}

#[cfg(test)]
mod tests;
