//! Wording and counting helpers for the rows of the table.

use super::FactValue;
use baton_core::brake::BrakeOutcome;
use baton_core::commands::UndoOutcome;
use baton_core::nudge::NudgeOutcome;

/// Length of the prefix that stands for an id in text for users: its time in milliseconds, with a dash.
pub(crate) const BRIEF: usize = 13;

/// Returns the prefix of an id, which `baton show` and `baton handoffs show` accept.
pub(crate) fn brief(id: &str) -> &str {
    id.get(..BRIEF).unwrap_or(id)
}

/// Converts a value, with [`FactValue::Unknown`] for a count of zero. Most exchanges lack such facts.
pub(super) fn some<'a, T: Into<FactValue<'a>>>(count: T) -> FactValue<'a> {
    match count.into() {
        FactValue::Count(0) => FactValue::Unknown,
        value => value,
    }
}

/// Joins strings with commas. Returns [`FactValue::Unknown`] if there are none.
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

/// Counts how often each value of `all` occurs in `seen`.
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
        NudgeOutcome::Followed => "nudge followed",
        NudgeOutcome::NotWritten => "nudge not stored",
        NudgeOutcome::AutoFailed => "automatic handoff failed",
        NudgeOutcome::WouldNotify => "shadow: a notice here",
        NudgeOutcome::WouldHandOver => "shadow: an automatic handoff here",
        NudgeOutcome::WouldCutFree => "shadow: a cut here costs nothing",
        NudgeOutcome::WouldFollowPlan => "shadow: a handoff after the plan here",
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
            "baton told the model how full its context is, and asked it to finish its step and hand off."
        }
        NudgeOutcome::Followed => "The model handed off after it was told how full its context is.",
        NudgeOutcome::NotWritten => {
            "The notice could not be stored, so the model was not told how full its context is."
        }
        NudgeOutcome::AutoFailed => {
            "The context was full enough for an automatic handoff, but its draft failed."
        }
        NudgeOutcome::WouldNotify => {
            "Shadow mode: baton would have told the model here how full its context is."
        }
        NudgeOutcome::WouldHandOver => {
            "Shadow mode: baton would have made an automatic handoff here, because the context is full enough."
        }
        NudgeOutcome::WouldFollowPlan => {
            "Shadow mode: baton would have handed off here, after an accepted plan."
        }
        NudgeOutcome::WouldCutFree => {
            "Shadow mode: baton would have handed off here, because the cut costs nothing."
        }
        NudgeOutcome::LargeCut => {
            "The context right after the handoff is over the threshold, so baton stops nudging in this task."
        }
        NudgeOutcome::CloseHandoffs => {
            "Two handoffs followed each other closely, so baton stops nudging in this task."
        }
    }
}

/// Describes the outcome of the brake, for the log line.
pub(super) fn brake_note(brake: BrakeOutcome) -> &'static str {
    match brake {
        BrakeOutcome::Told => "brake: the model was told",
        BrakeOutcome::Passed => "brake: over the budget, the user's message passed",
        BrakeOutcome::StoppedBudget => "brake: stopped at the budget",
        BrakeOutcome::StoppedLoop => "brake: stopped in a loop",
        BrakeOutcome::StoppedUser => "brake: stopped by the user",
        BrakeOutcome::Released => "brake: the user let the agent continue",
    }
}

/// Describes the outcome of the brake in a sentence.
pub(super) fn brake_sentence(brake: BrakeOutcome) -> &'static str {
    match brake {
        BrakeOutcome::Told => {
            "baton told the model that little of a budget is left, or that it repeats itself."
        }
        BrakeOutcome::Passed => "A budget is used up, and the request passed because the user wrote it.",
        BrakeOutcome::StoppedBudget => {
            "A budget is used up, so the agent's own request was not sent: its turn was ended."
        }
        BrakeOutcome::StoppedLoop => {
            "The agent repeated itself without a change of files, so its request was not sent: its turn was ended."
        }
        BrakeOutcome::StoppedUser => {
            "The user had stopped the session, so the agent's own request was not sent: its turn was ended."
        }
        BrakeOutcome::Released => "The user let a stopped agent continue.",
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
        UndoOutcome::Undone => "A handoff was undone, so the model sees the history before it again.",
        UndoOutcome::TakenBack => "The undo of a handoff was reverted, so the transcript is cut there again.",
        UndoOutcome::Refused => "A requested undo was refused. The answer gives the reason.",
    }
}
