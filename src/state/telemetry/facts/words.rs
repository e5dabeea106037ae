//! Wording and counting helpers for the rows of the table.

use super::FactValue;
use baton_core::commands::UndoOutcome;
use baton_core::nudge::NudgeOutcome;

/// Length of the unique prefix of an id.
pub(crate) const BRIEF: usize = 13;

/// Returns the prefix of an id, which `baton show` and `baton handoffs show` accept.
pub(crate) fn brief(id: &str) -> &str {
    id.get(..BRIEF).unwrap_or(id)
}

/// Returns a count that is unknown if zero, for facts that most exchanges lack.
pub(super) fn some<'a, T: Into<FactValue<'a>>>(count: T) -> FactValue<'a> {
    match count.into() {
        FactValue::Count(0) => FactValue::Unknown,
        value => value,
    }
}

/// Joins strings with commas. Unknown if there are none.
pub(super) fn joined<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> FactValue<'static> {
    let mut all = String::new();
    for text in texts {
        if !all.is_empty() {
            all.push(',');
        }
        all.push_str(text.as_ref());
    }
    (!all.is_empty()).then_some(all).into()
}

/// Counts how often each of all values was seen.
pub(super) fn tally<T: Copy + PartialEq>(
    all: &[T],
    seen: &[T],
    name: fn(T) -> &'static str,
) -> Vec<(&'static str, u64)> {
    let count = |one: &T| seen.iter().filter(|seen| *seen == one).count() as u64;
    all.iter().map(|one| (name(*one), count(one))).collect()
}

/// Returns a string if the condition holds.
pub(super) fn when<T: Into<String>>(holds: bool, text: impl FnOnce() -> T) -> Vec<String> {
    holds.then(|| text().into()).into_iter().collect()
}

pub(super) fn was(count: u32) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// Describes the outcome of notifying the model, for the log line.
pub(super) fn nudge_note(nudged: NudgeOutcome) -> String {
    let note = match nudged {
        NudgeOutcome::Notified => "nudged to hand off",
        NudgeOutcome::Followed => "as nudged",
        NudgeOutcome::NotWritten => "nudge not written",
        NudgeOutcome::AutoFailed => "automatic handoff failed",
        NudgeOutcome::WouldNotify => "shadow: a notice here",
        NudgeOutcome::WouldHandOver => "shadow: an automatic handoff here",
        NudgeOutcome::WouldCutFree => "shadow: a cut here costs nothing",
        NudgeOutcome::WouldFollowPlan => "shadow: a handoff behind the plan here",
        NudgeOutcome::LargeCut | NudgeOutcome::CloseHandoffs => {
            return format!("nudging stopped: {}", nudged.name().replace('_', " "));
        }
    };
    note.to_owned()
}

/// Describes the outcome of notifying the model in a sentence.
pub(super) fn nudge_sentence(nudged: NudgeOutcome) -> &'static str {
    match nudged {
        NudgeOutcome::Notified => {
            "The model was notified how full its context is, and prompted to finish its step and hand off."
        }
        NudgeOutcome::Followed => "The model handed over after it had been notified how full its context is.",
        NudgeOutcome::NotWritten => {
            "The notice of how full the context is could not be stored, so the model was not notified."
        }
        NudgeOutcome::AutoFailed => {
            "The context was so full that a handoff was to be drafted, but the draft failed."
        }
        NudgeOutcome::WouldNotify => {
            "In its shadow baton would have notified the model here how full its context is."
        }
        NudgeOutcome::WouldHandOver => {
            "In its shadow baton would have handed over here by itself: the context is that full."
        }
        NudgeOutcome::WouldFollowPlan => {
            "In its shadow baton would have a handoff here, where a plan is accepted."
        }
        NudgeOutcome::WouldCutFree => {
            "In its shadow baton would have handed over here, where the cut costs nothing."
        }
        NudgeOutcome::LargeCut => {
            "What follows the handoff is over the threshold by itself: the model is not notified again in this task."
        }
        NudgeOutcome::CloseHandoffs => {
            "Two handoffs came in close succession: the model is not notified again in this task."
        }
    }
}

/// Describes the outcome of a requested undo, for the log line.
pub(super) fn undo_note(undo: UndoOutcome) -> &'static str {
    match undo {
        UndoOutcome::Undone => "handoff undone",
        UndoOutcome::TakenBack => "undo reverted",
        UndoOutcome::Refused => "undo refused",
    }
}

/// Describes the outcome of a requested undo in a sentence.
pub(super) fn undo_sentence(undo: UndoOutcome) -> &'static str {
    match undo {
        UndoOutcome::Undone => "A handoff was undone: the model sees the history before it again.",
        UndoOutcome::TakenBack => "The undo of a handoff was reverted: the transcript is cut there again.",
        UndoOutcome::Refused => "A requested undo was refused; the answer says why.",
    }
}
