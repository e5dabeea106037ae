//! The outcome of a leg that has ended.

use std::sync::Arc;

use crate::handoffs::draft;
use crate::limits;
use crate::marker::sentinel;
use crate::plan::PlannedRequest;
use crate::record::{HiddenResult, InsertionPoint, PendingResult};
use crate::rewrite::RewriteOutcome;
use crate::text::json;
use crate::tools::{OnCall, TOOL_NAME, ToolTable};
use crate::wire::{Ending, HiddenCall, LegReport, StopReason};

/// Inputs of a verdict besides the leg.
#[derive(Debug, Clone, Default)]
pub struct VerdictInput {
    /// Messages in the model's view after the carry-over prompt.
    pub messages: usize,
    /// Legs so far, this one included.
    pub legs: u32,
    /// Most legs for one agent request.
    pub max_chain: u32,
    /// Refused calls that were answered in this agent request.
    pub refused: u32,
    /// Calls that our other tools have answered in this agent request, one name each.
    pub answered: Vec<&'static str>,
    /// Our tools.
    pub tools: Arc<ToolTable>,
    /// Carry-over prompt and reason of an earlier call that waits for the turn's end.
    pub pending: Option<(String, Option<String>)>,
    /// Whether no sentinel may be in the output: it is bound to a JSON schema, or a summary.
    pub structured: bool,
}

impl VerdictInput {
    /// Of a planned request's first leg, as it was sent with the tool or without. `max_chain`: most legs of its answer.
    pub fn new(plan: &PlannedRequest<'_>, sent: &RewriteOutcome, tooled: bool, max_chain: u32) -> Self {
        let stored = || plan.pin.stored_turn().and_then(|turn| turn.pending.clone());
        let pending = sent.pending.clone().or_else(stored);
        let side_call = plan.call.side_call;
        Self {
            messages: sent.messages,
            legs: 1,
            max_chain,
            refused: 0,
            answered: Vec::new(),
            tools: Arc::clone(&plan.policy.tools.recall),
            pending: pending.filter(|_| tooled && !side_call),
            structured: plan.reading.view.facts.structured || side_call,
        }
    }
}

/// What to do at a leg's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The response ends.
    End(Ending),
    /// The handoff fires.
    Fire {
        /// Carry-over prompt, normalised.
        prompt: String,
        /// Why, in the model's words.
        reason: Option<String>,
    },
    /// The agent has calls of its own to answer: ours are stored, and the response ends unchanged.
    Mixed(Vec<AnsweredCall>),
    /// The call is answered, and the model continues.
    AskAgain(AnsweredCall),
}

/// A hidden call with its result for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredCall {
    pub call: HiddenCall,
    /// The answer; `None`: its tool has not run yet.
    pub answer: Option<HiddenResult>,
    /// Prompt and reason, where the handoff waits for the turn's end.
    pub pending: Option<(String, Option<String>)>,
}

impl AnsweredCall {
    fn new(call: &HiddenCall, answer: Option<HiddenResult>) -> Self {
        Self {
            call: call.clone(),
            answer,
            pending: None,
        }
    }
}

/// Judges a leg that has ended.
pub fn judge(report: &LegReport, now: &VerdictInput) -> Verdict {
    let may_chain = now.legs < now.max_chain && !now.structured;
    if report.hidden.is_empty() {
        let is_done = report.stop == StopReason::Done && report.calls.is_empty();
        return match now.pending.clone().filter(|_| is_done && may_chain) {
            Some((prompt, reason)) => Verdict::Fire { prompt, reason },
            None => Verdict::End(Ending::Own),
        };
    }
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

/// What to do with a call.
enum CallFate {
    /// The call hands over, with this prompt and reason.
    Fire(String, Option<String>),
    /// The tool answers the call.
    Ask,
    /// The call gets this result, and has no other effect.
    Answer(HiddenResult),
}

/// `before`: how many calls of the tool were answered in this agent request.
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

/// How many of these calls are of this tool.
fn calls_of<'a>(tool: &str, calls: impl IntoIterator<Item = &'a &'static str>) -> usize {
    calls.into_iter().filter(|name| **name == tool).count()
}

/// The last good call counts. Where none hands over the first one is answered: signatures and reasoning are bound to
/// the first call of a message (Gemini, Responses).
fn alone(report: &LegReport, now: &VerdictInput, may_chain: bool) -> Verdict {
    let dropped = Verdict::End(Ending::WithoutCall);
    if now.structured {
        return dropped;
    }
    let fates = || {
        let before = |call: &HiddenCall| calls_of(call.name(), &now.answered);
        report
            .hidden
            .iter()
            .map(move |call| (call, fate(call, now, before(call))))
    };
    let mut fires = fates().rev().filter_map(|(_, fate)| match fate {
        CallFate::Fire(prompt, reason) => Some(Verdict::Fire { prompt, reason }),
        _ => None,
    });
    if let Some(fire) = fires.next() {
        return if may_chain { fire } else { dropped };
    }
    let answer = match fates().next() {
        Some((call, CallFate::Ask)) => Some((call, None)),
        // Without a leg left for a handoff, no handoff call gets an answer.
        Some((call, CallFate::Answer(_))) if !may_chain && call.name() == TOOL_NAME => None,
        Some((call, CallFate::Answer(answer))) if now.refused < limits::ASK_AGAIN => {
            Some((call, Some(answer)))
        }
        _ => None,
    };
    answer.map_or(dropped, |(call, answer)| {
        Verdict::AskAgain(AnsweredCall::new(call, answer))
    })
}

/// The calls before one of the agent's in a truncated turn. They are whole, since the model continued after them, and
/// the thinking before them is bound to them. None takes effect.
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

/// The calls of a leg that have no effect, each with its result for the model.
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

/// The dropped call that reasoning was for, where the model wrote more after it: the API takes that reasoning back with
/// this call after it and nothing else. Its result states that it had no effect, and its place is after the reasoning.
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

/// Every hidden call of a mixed batch is answered; the last good handoff is pending.
fn mixed(report: &LegReport, now: &VerdictInput) -> Vec<AnsweredCall> {
    let mut names = now.answered.clone();
    let mut all: Vec<AnsweredCall> = report
        .hidden
        .iter()
        .map(|call| {
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
    let last = all.iter().rposition(|r| r.pending.is_some());
    for (i, answered) in all.iter_mut().enumerate() {
        if Some(i) != last {
            answered.pending = None;
        }
    }
    all
}

/// Prompt and reason of a call that may fire, or the result that refuses it.
fn accept(call: &HiddenCall, now: &VerdictInput) -> Result<(String, Option<String>), HiddenResult> {
    if call.oversize {
        return Err(HiddenResult::TOO_LONG);
    }
    let text = call.arguments.as_bytes();
    let whole = json::whole(text)
        .ok()
        .filter(|_| call.complete)
        .ok_or(HiddenResult::BAD_ARGUMENTS)?;
    let prompt = json::get_string(text, whole, "prompt").ok_or(HiddenResult::BAD_ARGUMENTS)?;
    let prompt = sentinel::normalised(&prompt);
    if prompt.is_empty() {
        return Err(HiddenResult::EMPTY_PROMPT);
    }
    if prompt.len() > limits::PROMPT {
        return Err(HiddenResult::TOO_LONG);
    }
    if now.legs == 1 && !draft::enough(now.messages) {
        return Err(HiddenResult::NOTHING_TO_HAND_OFF);
    }
    let reason = json::get_string(text, whole, "reason")
        .map(|r| sentinel::normalised(&r))
        .filter(|r| !r.is_empty());
    Ok((prompt, reason))
}

/// The position of a hidden call among its visible siblings: after the nearest call before it, else in front of the
/// nearest one after it.
pub fn place_beside(report: &LegReport, call: &HiddenCall) -> Option<InsertionPoint> {
    let distance = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    // Without call ids the place cannot be found.
    let named = || report.calls.iter().filter(|(id, _)| !id.is_empty());
    let before = named().rev().find(|(_, at)| *at < call.after);
    if let Some((sibling, at)) = before {
        return Some(InsertionPoint::Beside {
            sibling: sibling.clone(),
            offset: distance(call.after - 1 - at),
        });
    }
    let (sibling, at) = named().find(|(_, at)| *at >= call.after)?;
    Some(InsertionPoint::Beside {
        sibling: sibling.clone(),
        offset: -1 - distance(at - call.after),
    })
}

#[cfg(test)]
mod tests;
